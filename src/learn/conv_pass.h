/* SPDX-License-Identifier: MIT */
/* The convolutions of a pass, which come before its dense layers, and of the way back. */
#ifndef GPUR_LEARN_CONV_PASS_H
#define GPUR_LEARN_CONV_PASS_H

#include "learn/pass.h"

/* Each as the function of pass.h that calls it; all do nothing for a network without convolutions. */
gpur_status gpur_conv_pass_open(gpur_pass *pass);
void gpur_conv_pass_close(gpur_pass *pass);
int64_t gpur_conv_pass_workspace(const gpur_pass *pass);
gpur_status gpur_conv_pass_forward(const gpur_pass *pass, gpur_stream *stream, int64_t rows, const float *weights,
                                   void *workspace);

gpur_status gpur_conv_backward_open(gpur_backward *backward);
void gpur_conv_backward_close(gpur_backward *backward);
void gpur_conv_backward_place(gpur_backward *backward, gpur_arena *arena);
int64_t gpur_conv_backward_workspace(const gpur_backward *backward);
gpur_status gpur_conv_backward_run(const gpur_backward *backward, gpur_stream *stream, const float *weights,
                                   float *gradient, void *workspace);

/* What all plans of one convolution share. */
gpur_conv_shape gpur_conv_shape_of(const gpur_pass *pass, int32_t i, int32_t direction, int64_t rows);

#endif
