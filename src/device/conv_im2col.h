/* SPDX-License-Identifier: MIT */
/* Convolutions as im2col and GEMM, on either device, for cases that no library handles. */
#ifndef GPUR_DEVICE_CONV_IM2COL_H
#define GPUR_DEVICE_CONV_IM2COL_H

#include "device/conv.h"

typedef struct gpur_patch_conv gpur_patch_conv;

gpur_status gpur_patch_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_patch_conv **conv);
void gpur_patch_conv_destroy(gpur_patch_conv *conv);
int64_t gpur_patch_conv_workspace_bytes(const gpur_patch_conv *conv);
gpur_status gpur_patch_conv_run(gpur_patch_conv *conv, gpur_stream *stream, int64_t images,
                                const gpur_conv_arrays *arrays, void *workspace);

#endif
