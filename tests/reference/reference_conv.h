/* SPDX-License-Identifier: MIT */
/* Convolutions by their definition, in double: y[n, i, j, f] = sum x[n, i s - p + u, j s - p + v, c] w[f, u, v, c]. */
#pragma once

#include <stdint.h>

/* One image: x (height, width, channels), w (filters, kernel, kernel, channels), y (rows, columns, filters). */
typedef struct ref_conv {
    int height, width, channels, filters, kernel, stride, padding;
    int rows, columns; /* of y: filled in by ref_conv_size */
} ref_conv;

void ref_conv_size(ref_conv *c);

/* y = x * w, without a bias. `size`, if not NULL, gets the sums of the magnitudes of what was added. */
void ref_conv_forward(const ref_conv *c, const double *x, const double *w, double *y, double *size);

/* Adds to dx and to dw (each may be NULL) from dy. */
void ref_conv_backward(const ref_conv *c, const double *x, const double *w, const double *dy, double *dx, double *dw);

/* (C, H, W), or as it is (H, W, C), to (H, W, C). */
void ref_conv_pixels(int height, int width, int channels, int planes, const float *from, double *to);
