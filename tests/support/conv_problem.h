/* SPDX-License-Identifier: MIT */
/* A convolution with random numbers, by the device and by the reference. */
#ifndef GPUR_SUPPORT_CONV_PROBLEM_H
#define GPUR_SUPPORT_CONV_PROBLEM_H

#include "device/conv.h"
#include "reference/reference_conv.h"

typedef struct conv_problem {
    gpur_conv_shape shape;
    ref_conv one;                      /* the same, of one image */
    int64_t x_count, w_count, y_count; /* of all images */
    float *x, *w, *y, *bias;
    uint16_t *x_half; /* x as bfloat16, to which x is rounded then */
} conv_problem;

/* Channels C, filters F, kernel K, stride, padding; `pass` is GPUR_CONV_*. */
gpur_conv_shape conv_shape_of(int pass, int64_t images, int64_t height, int64_t width, const int numbers[5]);

void conv_problem_open(conv_problem *p, const gpur_conv_shape *shape);
void conv_problem_close(conv_problem *p);

/* Runs it for `images` images on the device; what the pass makes is in p->y, p->x or p->w then. The status of making
 * the plan, where that fails; `way` gets the plan's. */
gpur_status conv_problem_run(conv_problem *p, gpur_device *device, int64_t images, const char **way);

/* What the pass should have made, in double: (count), malloc'ed; `size` gets the sums of magnitudes. */
double *conv_problem_expected(const conv_problem *p, double **size);
int64_t conv_problem_count(const conv_problem *p); /* of what the pass makes */
const float *conv_problem_result(const conv_problem *p);

#endif
