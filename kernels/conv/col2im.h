/* SPDX-License-Identifier: MIT */
/* col2im, the adjoint of im2col: each number of an image is the sum of the patches' numbers that im2col copies it to.
 * It turns the gradient of the patches into that of a convolution's input. Arguments and shapes: gpur_col2im_args.
 * A CPU's thread computes whole pixels. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/lib/bf16.h"

/* Along one axis: the output positions whose patch holds position `i` of the image. In the patch of output position o
 * it is at offset i + before - o * stride, with `before` zeros before the image. */
GPUR_FN gpur_span gpur_col2im_positions(int64_t i, const gpur_conv_geometry *p, int64_t before, int64_t out)
{
    gpur_span s;
    const int64_t reach = i + before - p->kernel + 1;
    s.first = reach <= 0 ? 0 : (reach + p->stride - 1) / p->stride;
    s.last = (i + before) / p->stride + 1;
    s.last = s.last < out ? s.last : out;
    s.step = 1;
    return s;
}

/* The first of the C numbers that pixel (y, x) has in the patch of output position (n, oy, ox). */
GPUR_FN const float *gpur_col2im_source(const gpur_col2im_args *a, int64_t n, int64_t oy, int64_t ox, int64_t y,
                                        int64_t x)
{
    const gpur_conv_geometry *const p = &a->geometry;
    const int64_t row = (n * p->out_height + oy) * p->out_width + ox;
    const int64_t ky = y + p->top - oy * p->stride, kx = x + p->left - ox * p->stride;
    return a->columns + ((row * p->kernel + ky) * p->kernel + kx) * p->channels;
}

/* Computes channel c of pixel `i`, counted over all images. */
GPUR_FN void gpur_col2im_channel(const gpur_col2im_args *a, int64_t i, int64_t c)
{
    const gpur_conv_geometry *const p = &a->geometry;
    const int64_t line = i / p->width, n = line / p->height, x = i - line * p->width, y = line - n * p->height;
    const gpur_span rows = gpur_col2im_positions(y, p, p->top, p->out_height),
                    columns = gpur_col2im_positions(x, p, p->left, p->out_width);
    float sum = 0.0f;
    for (int64_t oy = rows.first; oy < rows.last; oy++)
        for (int64_t ox = columns.first; ox < columns.last; ox++)
            sum += gpur_col2im_source(a, n, oy, ox, y, x)[c];
    if (a->bf16)
        ((uint16_t *)a->x)[i * p->channels + c] = gpur_bf16_round(sum);
    else
        ((float *)a->x)[i * p->channels + c] = sum;
}

/* Computes all channels of pixel `i`, in float32. */
GPUR_FN void gpur_col2im_pixel(const gpur_col2im_args *a, int64_t i)
{
    const gpur_conv_geometry *const p = &a->geometry;
    const int64_t line = i / p->width, n = line / p->height, x = i - line * p->width, y = line - n * p->height;
    const gpur_span rows = gpur_col2im_positions(y, p, p->top, p->out_height),
                    columns = gpur_col2im_positions(x, p, p->left, p->out_width);
    float *const to = (float *)a->x + i * p->channels;
    for (int64_t c = 0; c < p->channels; c++)
        to[c] = 0.0f;
    for (int64_t oy = rows.first; oy < rows.last; oy++)
        for (int64_t ox = columns.first; ox < columns.last; ox++) {
            const float *const from = gpur_col2im_source(a, n, oy, ox, y, x);
            for (int64_t c = 0; c < p->channels; c++)
                to[c] += from[c];
        }
}

/* A thread computes one channel of a pixel, so on a GPU C neighboring threads share a pixel. On a CPU a thread computes
 * whole pixels where the sums can be in x itself. */
GPUR_KERNEL(col2im)
{
    const int64_t pixels = a->geometry.images * a->geometry.height * a->geometry.width, channels = a->geometry.channels;
    const int whole = !gpur_is_parallel() && !a->bf16;
    const gpur_span s = gpur_grid_span(at, whole ? pixels : pixels * channels);
    for (int64_t i = s.first; i < s.last; i += s.step) {
        if (whole)
            gpur_col2im_pixel(a, i);
        else
            gpur_col2im_channel(a, i / channels, i % channels);
    }
}
