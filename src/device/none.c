/* SPDX-License-Identifier: MIT */
/* Replaces the CUDA device in builds without CUDA. `open` always fails, so no other function is ever called. */
#include "device/backend.h"

static gpur_status none_open(gpur_device *device, int ordinal)
{
    (void)ordinal;
    return gpur_fail(
        GPUR_UNAVAILABLE,
        "this build has no CUDA device, so there is no %s: install the CUDA toolkit (nvcc), configure with "
        "-DGPUREPLAY_CUDA=ON and build again; \"cpu\" works everywhere",
        device->name);
}

static void none_close(gpur_device *device)
{
    (void)device;
}

const gpur_backend gpur_backend_cuda = {.open = none_open, .close = none_close};
