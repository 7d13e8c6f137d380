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

/* The four channels of one pixel. */
GPUR_FN gpur_u32x4 gpur_preprocess_floats(const uint32_t *bytes, float scale, float shift)
{
    gpur_u32x4 out;
    for (int c = 0; c < 4; c++) {
        const float x = gpur_preprocess_value((float)bytes[c], scale, shift);
        memcpy(&out.v[c], &x, sizeof x);
    }
    return out;
}

/* The four channels of two pixels. The scale and the shift are finite, so that none is NaN. */
GPUR_FN gpur_u32x4 gpur_preprocess_halves(const uint32_t *bytes, float scale, float shift)
{
    gpur_u32x4 out;
    for (int i = 0; i < 4; i++) {
        const uint32_t first = bytes[i % 2 * 2] >> i / 2 * 8 & 255, second = bytes[i % 2 * 2 + 1] >> i / 2 * 8 & 255;
        out.v[i] = gpur_bf16_pair(gpur_preprocess_value((float)first, scale, shift),
                                  gpur_preprocess_value((float)second, scale, shift));
    }
    return out;
}

GPUR_FN gpur_u32x4 gpur_preprocess_quad(const uint32_t *bytes, int is_pair, float scale, float shift)
{
    return is_pair ? gpur_preprocess_halves(bytes, scale, shift) : gpur_preprocess_floats(bytes, scale, shift);
}

/* Whether every 16 bytes of x are four channels of one pixel, or of two pixels of the same line of the same
 * space-to-depth block, if images of x are aligned. */
GPUR_FN int gpur_preprocess_has_quads(const gpur_preprocess_args *a)
{
    const int pairs = a->width % 2 == 0 && (a->space_to_depth == 1 || a->space_to_depth % 2 == 0);
    return !a->floats && (pairs || !a->bf16);
}

/* Converts these quads of image n, by the whole block. If the last two arguments are constants, the loop has little
 * arithmetic and no branches. */
GPUR_FN void gpur_preprocess_quads(gpur_thread at, const gpur_preprocess_args *a, int64_t n, gpur_span quads,
                                   uint32_t block, int is_pair)
{
    const gpur_preprocess_strides steps = gpur_preprocess_strides_of(a);
    const unsigned char *const image = (const unsigned char *)a->obs + n * a->obs_pitch;
    unsigned char *const to = (unsigned char *)a->x + n * a->x_pitch * (is_pair ? 2 : 4);
    const uint32_t width = (uint32_t)a->width;
    for (int64_t i = quads.first + at.thread; i < quads.last; i += at.threads) {
        const uint32_t pixel = (uint32_t)i * (is_pair ? 2 : 1), y = pixel / width;
        const int64_t byte = gpur_preprocess_offset(a, block, y, pixel - y * width) * (is_pair ? 2 : 4);
        const unsigned char *const from = image + pixel * steps.pixel;
        uint32_t bytes[4];
        for (int c = 0; c < 4; c++)
            bytes[c] = from[c * steps.channel] | (is_pair ? (uint32_t)from[c * steps.channel + steps.pixel] << 8 : 0);
        const gpur_u32x4 quad = gpur_preprocess_quad(bytes, is_pair, a->scale, a->shift);
        memcpy(__builtin_assume_aligned(to + byte, sizeof quad), &quad, sizeof quad);
    }
}

/* Converts all images on a GPU, whose threads store 16 bytes at a time. A block takes one band of an image at a time,
 * with two quads for each thread. For the usual block size the arguments are constants. */
GPUR_FN void gpur_preprocess_bands(gpur_thread at, const gpur_preprocess_args *a)
{
    const int64_t quads = a->height * a->width / (a->bf16 ? 2 : 1), bands = (quads - 1) / (2 * at.threads) + 1;
    const gpur_span work = gpur_block_rows(at, a->count * bands);
    for (int64_t i = work.first; i < work.last; i += work.step) {
        const int64_t n = i / bands;
        const gpur_span mine = gpur_share_of(quads, i - n * bands, bands);
        if (a->space_to_depth == 4 && a->bf16)
            gpur_preprocess_quads(at, a, n, mine, 4, 1);
        else if (a->space_to_depth == 4)
            gpur_preprocess_quads(at, a, n, mine, 4, 0);
        else
            gpur_preprocess_quads(at, a, n, mine, (uint32_t)a->space_to_depth, a->bf16);
    }
}

GPUR_KERNEL(preprocess)
{
    const uint64_t all = (uint64_t)(uintptr_t)a->x | (uint64_t)a->x_pitch * (a->bf16 ? 2 : 4);
    if (gpur_is_parallel() && a->channels == 4 && gpur_preprocess_has_quads(a) && all % 16 == 0) {
        gpur_preprocess_bands(at, a);
        return;
    }
    const gpur_span rows = gpur_block_rows(at, a->count * a->height);
    for (int64_t row = rows.first; row < rows.last; row += rows.step) {
        const int64_t n = row / a->height, y = row - n * a->height;
        const gpur_span columns = gpur_block_span(at, a->width);
        for (int64_t x = columns.first; x < columns.last; x += columns.step)
            gpur_preprocess_pixel(a, n, y, x);
    }
}
