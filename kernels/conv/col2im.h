/* SPDX-License-Identifier: MIT */
/* col2im, the adjoint of im2col: each number of an image is the sum of the patches' numbers that im2col copies it to.
 * It turns the gradient of the patches into that of a convolution's input. Arguments and shapes: gpur_col2im_args.
 * A CPU's thread computes whole pixels. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/target/thread.h"

/* Along one axis: the output positions whose patch holds position `i` of the image. In the patch of output position o
 * it is at offset i + padding - o * stride. */
GPUR_FN gpur_span gpur_col2im_positions(int64_t i, const gpur_conv_geometry *p, int64_t out)
{
    gpur_span s;
    const int64_t reach = i + p->padding - p->kernel + 1;
    s.first = reach <= 0 ? 0 : (reach + p->stride - 1) / p->stride;
    s.last = (i + p->padding) / p->stride + 1;
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
    const int64_t ky = y + p->padding - oy * p->stride, kx = x + p->padding - ox * p->stride;
    return a->columns + ((row * p->kernel + ky) * p->kernel + kx) * p->channels;
}

/* Computes these channels of pixel `i`, counted over all images. */
GPUR_FN void gpur_col2im_pixel(const gpur_col2im_args *a, int64_t i, gpur_span channels)
{
    const gpur_conv_geometry *const p = &a->geometry;
    const int64_t line = i / p->width, n = line / p->height, x = i - line * p->width, y = line - n * p->height;
    const gpur_span rows = gpur_col2im_positions(y, p, p->out_height),
                    columns = gpur_col2im_positions(x, p, p->out_width);
    float *const to = a->x + i * p->channels;
    for (int64_t c = channels.first; c < channels.last; c += channels.step)
        to[c] = 0.0f;
    for (int64_t oy = rows.first; oy < rows.last; oy++)
        for (int64_t ox = columns.first; ox < columns.last; ox++) {
            const float *const from = gpur_col2im_source(a, n, oy, ox, y, x);
            for (int64_t c = channels.first; c < channels.last; c += channels.step)
                to[c] += from[c];
        }
}

/* On a GPU a thread computes one channel of a pixel, so C neighboring threads share a pixel. On a CPU a thread
 * computes all channels of its pixels. */
GPUR_KERNEL(col2im)
{
    const int64_t pixels = a->geometry.images * a->geometry.height * a->geometry.width, channels = a->geometry.channels;
    gpur_span all;
    all.first = 0, all.last = channels, all.step = 1;
    const gpur_span s = gpur_grid_span(at, gpur_is_parallel() ? pixels * channels : pixels);
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const int64_t pixel = gpur_is_parallel() ? i / channels : i;
        if (gpur_is_parallel()) {
            all.first = i - pixel * channels;
            all.last = all.first + 1;
        }
        gpur_col2im_pixel(a, pixel, all);
    }
}
