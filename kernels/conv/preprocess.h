/* SPDX-License-Identifier: MIT */
/* Preprocessing of observations for the first layer: x = obs * scale + shift, as (H, W, C), with space-to-depth blocks.
 * Arguments, shapes and layouts: gpur_preprocess_args. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/lib/bf16.h"

/* Strides of an image as the replay stores it, in numbers: between channels, and between pixels of a row. */
typedef struct gpur_preprocess_strides {
    int64_t channel, pixel;
} gpur_preprocess_strides;

GPUR_FN gpur_preprocess_strides gpur_preprocess_strides_of(const gpur_preprocess_args *a)
{
    gpur_preprocess_strides steps;
    steps.channel = a->planes ? a->height * a->width : 1;
    steps.pixel = a->planes ? 1 : a->channels;
    return steps;
}

/* nvcc rounds once or twice as it sees fit, and not alike in all kernels; so once is asked for. */
GPUR_FN float gpur_preprocess_value(float x, float scale, float shift)
{
#ifdef __CUDACC__
    return fmaf(x, scale, shift);
#else
    return x * scale + shift;
#endif
}

GPUR_FN float gpur_preprocess_read(const gpur_preprocess_args *a, const unsigned char *image, int64_t i)
{
    float x;
    if (!a->floats)
        return gpur_preprocess_value((float)image[i], a->scale, a->shift);
    memcpy(&x, image + i * (int64_t)sizeof x, sizeof x);
    return gpur_preprocess_value(x, a->scale, a->shift);
}

GPUR_FN void gpur_preprocess_write(const gpur_preprocess_args *a, void *x, int64_t i, float value)
{
    if (a->bf16)
        ((uint16_t *)x)[i] = gpur_bf16_round(value);
    else
        ((float *)x)[i] = value;
}

/* The index in an image of x of the first channel of pixel (y, x). `b` is the side of a space-to-depth block. It is
 * an argument so that a caller can pass a constant. */
GPUR_FN int64_t gpur_preprocess_offset(const gpur_preprocess_args *a, uint32_t b, uint32_t y, uint32_t x)
{
    const uint32_t row = y / b, column = x / b, inside = (y - row * b) * b + (x - column * b);
    return (((int64_t)row * ((uint32_t)a->width / b) + column) * b * b + inside) * a->channels;
}

/* Converts all channels of pixel (y, x) of image n. */
GPUR_FN void gpur_preprocess_pixel(const gpur_preprocess_args *a, int64_t n, int64_t y, int64_t x)
{
    const gpur_preprocess_strides steps = gpur_preprocess_strides_of(a);
    const unsigned char *const image = (const unsigned char *)a->obs + n * a->obs_pitch;
    const int64_t from = (y * a->width + x) * steps.pixel;
    const int64_t to =
        n * a->x_pitch + gpur_preprocess_offset(a, (uint32_t)a->space_to_depth, (uint32_t)y, (uint32_t)x);
    for (int64_t c = 0; c < a->channels; c++)
        gpur_preprocess_write(a, a->x, to + c, gpur_preprocess_read(a, image, from + c * steps.channel));
}

GPUR_KERNEL(preprocess)
{
    const gpur_span rows = gpur_block_rows(at, a->count * a->height);
    for (int64_t row = rows.first; row < rows.last; row += rows.step) {
        const int64_t n = row / a->height, y = row - n * a->height;
        const gpur_span columns = gpur_block_span(at, a->width);
        for (int64_t x = columns.first; x < columns.last; x += columns.step)
            gpur_preprocess_pixel(a, n, y, x);
    }
}
