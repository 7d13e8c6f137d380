/* SPDX-License-Identifier: MIT */
/* Convolutions by their definition, in double: y[n, i, j, f] is the sum of x[n, i s - top + u, j s - left + v, c]
 * w[f, u, v, c], where x is 0 outside the image. */
#pragma once

#include <stdint.h>

/* One image: x (height, width, channels), w (filters, kernel, kernel, channels), y (rows, columns, filters). */
typedef struct ref_conv {
    int height, width, channels, filters, kernel, stride;
    int padding; /* on each side; -1: SAME, as TensorFlow's guide to convolutions has it */
    int top, left, bottom, right, rows, columns; /* the padding of each side, and the size of y: by ref_conv_size */
} ref_conv;

void ref_conv_size(ref_conv *c);

/* y = x * w, without a bias. `size`, if not NULL, gets the sums of the magnitudes of what was added. */
void ref_conv_forward(const ref_conv *c, const double *x, const double *w, double *y, double *size);

/* Adds to dx and to dw (each may be NULL) from dy. */
void ref_conv_backward(const ref_conv *c, const double *x, const double *w, const double *dy, double *dx, double *dw);

/* (C, H, W), or as it is (H, W, C), to (H, W, C). */
void ref_conv_pixels(int height, int width, int channels, int planes, const float *from, double *to);
