/* SPDX-License-Identifier: MIT */
/* Serial version of gather_observed. It interleaves the frames of one row of space-to-depth blocks in the first-level
 * cache and converts them from there. */
#ifndef GPUR_KERNELS_CPU_GATHER_PREPROCESSED_SERIAL_H
#define GPUR_KERNELS_CPU_GATHER_PREPROCESSED_SERIAL_H

#include "kernels/cpu/gather_frames_serial.h"
#include "kernels/conv/preprocess.h"

enum { GPUR_WOVEN_BYTES = 16384 }; /* bytes of a row of blocks, at most */

/* Number i of the stack of these links, scaled. */
GPUR_FN float gpur_observed_number(const gpur_gather_observed_args *a, const uint32_t *links, int64_t i)
{
    const gpur_gather_frames_args *const f = &a->frames;
    const int is_last = f->unit_step != (int64_t)1 << f->shift;
    const uint32_t each = (uint32_t)(is_last ? f->stack : f->units), q = (uint32_t)i / each, r = (uint32_t)i - q * each;
    const unsigned char *const frame = gpur_frame_at(f, links[is_last ? r : q]);
    return frame ? gpur_observe_read(&a->observe, frame, is_last ? q : r) : gpur_observe_value(0, a->observe.scale);
}

/* Converts all channels of pixel (y, x) of the stack of these links. */
GPUR_FN void gpur_observed_pixel(const gpur_gather_observed_args *a, void *image, const uint32_t *links, uint32_t y,
                                 uint32_t x)
{
    const gpur_observe_args *const o = &a->observe;
    const gpur_observe_steps steps = gpur_observe_steps_of(o);
    const int64_t from = (y * o->width + x) * steps.pixel;
    const int64_t to = gpur_observe_place(o, (uint32_t)o->block, y, x);
    for (int64_t c = 0; c < o->channels; c++)
        gpur_observe_write(o, image, to + c, gpur_observed_number(a, links, from + c * steps.channel));
}

/* Converts a row of blocks. `woven` holds its lines of pixels one after the other. */
GPUR_FN void gpur_observed_blocks(float *x, const unsigned char *woven, int64_t columns, int64_t block,
                                  int64_t channels, float scale)
{
    const int64_t run = block * channels, line = columns * run;
    for (int64_t column = 0; column < columns; column++)
        for (int64_t y = 0; y < block; y++, x += run)
            for (int64_t i = 0; i < run; i++)
                x[i] = gpur_observe_value((float)woven[y * line + column * run + i], scale);
}

/* Converts a whole image, row of blocks by row of blocks. In the usual shape the sizes are constants, and a line of a
 * block is a few vectors. */
GPUR_FN void gpur_observed_image(const gpur_gather_observed_args *a, float *image, const uint32_t *links)
{
    const gpur_observe_args *const o = &a->observe;
    const int32_t stack = a->frames.stack, pixels = (int32_t)(o->block * o->width);
    const int64_t columns = o->width / o->block;
    unsigned char woven[GPUR_WOVEN_BYTES];
    const unsigned char *lines[GPUR_MOST_LINKS];
    for (int32_t p = 0; p < stack; p++)
        lines[p] = gpur_frame_at(&a->frames, links[p]);
    for (int64_t y = 0; y < o->height; y += o->block) {
        float *const x = image + gpur_observe_place(o, (uint32_t)o->block, (uint32_t)y, 0);
        gpur_frames_weave(woven, lines, stack, pixels, 1);
        if (o->block == 4 && stack == 4)
            gpur_observed_blocks(x, woven, columns, 4, 4, o->scale);
        else
            gpur_observed_blocks(x, woven, columns, o->block, stack, o->scale);
        for (int32_t p = 0; p < stack; p++)
            lines[p] = lines[p] ? lines[p] + pixels : lines[p];
    }
}

GPUR_FN void gpur_observed_stack(const gpur_gather_observed_args *a, unsigned char *image, const uint32_t *links)
{
    const gpur_observe_args *const o = &a->observe;
    const int64_t woven = o->block * o->width * a->frames.stack;
    if (a->is_plane && !o->floats && !o->bf16 && woven <= GPUR_WOVEN_BYTES) {
        gpur_observed_image(a, (float *)(void *)image, links);
        return;
    }
    for (int64_t y = 0; y < o->height; y++)
        for (int64_t x = 0; x < o->width; x++)
            gpur_observed_pixel(a, image, links, (uint32_t)y, (uint32_t)x);
}

GPUR_FN void gpur_observed_alone(const gpur_gather_observed_args *a, int64_t b)
{
    const gpur_gather_frames_args *const f = &a->frames;
    const uint32_t *const links = f->links + b * 2 * f->stack;
    gpur_observed_stack(a, f->obs + b * f->obs_pitch, links);
    gpur_observed_stack(a, f->next_obs + b * f->next_pitch, links + f->stack);
}

#endif
