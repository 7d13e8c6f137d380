/* SPDX-License-Identifier: MIT */
/* Convolutions as im2col and GEMM, on either device, for cases that no library handles. */
#ifndef GPUR_DEVICE_CONV_IM2COL_H
#define GPUR_DEVICE_CONV_IM2COL_H

#include "device/conv.h"

typedef struct gpur_im2col_conv gpur_im2col_conv;

gpur_status gpur_im2col_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_im2col_conv **conv);
void gpur_im2col_conv_destroy(gpur_im2col_conv *conv);
int64_t gpur_im2col_conv_workspace_bytes(const gpur_im2col_conv *conv);
gpur_status gpur_im2col_conv_run(gpur_im2col_conv *conv, gpur_stream *stream, int64_t images,
                                 const gpur_conv_arrays *arrays, void *workspace);

#endif
