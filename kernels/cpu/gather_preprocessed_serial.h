/* SPDX-License-Identifier: MIT */
/* Serial version of gather_preprocessed. It interleaves the frames of one row of space-to-depth blocks in the
 * first-level cache and converts them from there. */
#pragma once

#include "kernels/cpu/gather_frames_serial.h"
#include "kernels/conv/preprocess.h"

enum { GPUR_INTERLEAVED_BYTES = 16384 }; /* bytes of a row of blocks, at most */

/* Number i of the stack of these links, scaled and shifted. */
GPUR_FN float gpur_preprocessed_number(const gpur_gather_preprocessed_args *a, const uint32_t *links, int64_t i)
{
    const gpur_gather_frames_args *const f = &a->frames;
    const int is_last = f->unit_step != (int64_t)1 << f->shift;
    const uint32_t each = (uint32_t)(is_last ? f->stack : f->units), q = (uint32_t)i / each, r = (uint32_t)i - q * each;
    const unsigned char *const frame = gpur_frame_at(f, links[is_last ? r : q]);
    return frame ? gpur_preprocess_read(&a->preprocess, frame, is_last ? q : r)
                 : gpur_preprocess_value(0, a->preprocess.scale, a->preprocess.shift);
}

/* Converts all channels of pixel (y, x) of the stack of these links. */
GPUR_FN void gpur_preprocessed_pixel(const gpur_gather_preprocessed_args *a, void *image, const uint32_t *links,
                                     uint32_t y, uint32_t x)
{
    const gpur_preprocess_args *const o = &a->preprocess;
    const gpur_preprocess_strides steps = gpur_preprocess_strides_of(o);
    const int64_t from = (y * o->width + x) * steps.pixel;
    const int64_t to = gpur_preprocess_offset(o, (uint32_t)o->space_to_depth, y, x);
    for (int64_t c = 0; c < o->channels; c++)
        gpur_preprocess_write(o, image, to + c, gpur_preprocessed_number(a, links, from + c * steps.channel));
}

/* Converts a row of blocks. `interleaved` holds its lines of pixels one after the other. */
GPUR_FN void gpur_preprocessed_blocks(float *x, const unsigned char *interleaved, int64_t columns, int64_t block,
                                      int64_t channels, float scale, float shift)
{
    const int64_t run = block * channels, line = columns * run;
    for (int64_t column = 0; column < columns; column++)
        for (int64_t y = 0; y < block; y++, x += run)
            for (int64_t i = 0; i < run; i++)
                x[i] = gpur_preprocess_value((float)interleaved[y * line + column * run + i], scale, shift);
}

/* Converts a whole image, row of blocks by row of blocks. In the usual shape the sizes are constants, and a line of a
 * block is a few vectors. */
GPUR_FN void gpur_preprocessed_image(const gpur_gather_preprocessed_args *a, float *image, const uint32_t *links)
{
    const gpur_preprocess_args *const o = &a->preprocess;
    const int32_t stack = a->frames.stack, pixels = (int32_t)(o->space_to_depth * o->width);
    const int64_t columns = o->width / o->space_to_depth;
    unsigned char interleaved[GPUR_INTERLEAVED_BYTES];
    const unsigned char *lines[GPUR_MAX_FRAME_LINKS];
    for (int32_t p = 0; p < stack; p++)
        lines[p] = gpur_frame_at(&a->frames, links[p]);
    for (int64_t y = 0; y < o->height; y += o->space_to_depth) {
        float *const x = image + gpur_preprocess_offset(o, (uint32_t)o->space_to_depth, (uint32_t)y, 0);
        gpur_frames_interleave(interleaved, lines, stack, pixels, 1);
        if (o->space_to_depth == 4 && stack == 4)
            gpur_preprocessed_blocks(x, interleaved, columns, 4, 4, o->scale, o->shift);
        else
            gpur_preprocessed_blocks(x, interleaved, columns, o->space_to_depth, stack, o->scale, o->shift);
        for (int32_t p = 0; p < stack; p++)
            lines[p] = lines[p] ? lines[p] + pixels : lines[p];
    }
}

GPUR_FN void gpur_preprocessed_stack(const gpur_gather_preprocessed_args *a, unsigned char *image,
                                     const uint32_t *links)
{
    const gpur_preprocess_args *const o = &a->preprocess;
    const int64_t interleaved = o->space_to_depth * o->width * a->frames.stack;
    if (a->is_plane && !o->floats && !o->bf16 && interleaved <= GPUR_INTERLEAVED_BYTES) {
        gpur_preprocessed_image(a, (float *)(void *)image, links);
        return;
    }
    for (int64_t y = 0; y < o->height; y++)
        for (int64_t x = 0; x < o->width; x++)
            gpur_preprocessed_pixel(a, image, links, (uint32_t)y, (uint32_t)x);
}

GPUR_FN void gpur_gather_preprocessed_serial(const gpur_gather_preprocessed_args *a, int64_t b)
{
    const gpur_gather_frames_args *const f = &a->frames;
    const uint32_t *const links = f->links + b * 2 * f->stack;
    if (f->obs)
        gpur_preprocessed_stack(a, f->obs + b * f->obs_pitch, links);
    if (f->next_obs)
        gpur_preprocessed_stack(a, f->next_obs + b * f->next_pitch, links + f->stack);
}
