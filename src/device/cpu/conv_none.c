/* SPDX-License-Identifier: MIT */
/* Replaces conv_dnnl.c in a build without oneDNN: every convolution runs as im2col. */
#include "device/cpu/cpu.h"

gpur_status gpur_cpu_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv)
{
    (void)device, (void)shape, (void)conv;
    return gpur_fail(GPUR_UNAVAILABLE, "no oneDNN in this build: install libdnnl-dev and build again");
}

/* Never called: no plan was ever created. */
void gpur_cpu_conv_destroy(gpur_conv *conv)
{
    (void)conv;
}

int64_t gpur_cpu_conv_workspace_bytes(const gpur_conv *conv)
{
    (void)conv;
    return 0;
}

gpur_status gpur_cpu_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                              void *workspace)
{
    (void)conv, (void)stream, (void)images, (void)arrays, (void)workspace;
    return gpur_fail(GPUR_UNAVAILABLE, "no oneDNN in this build");
}

const char *gpur_cpu_conv_library(gpur_device *device)
{
    (void)device;
    return "patches";
}
