/* SPDX-License-Identifier: MIT */
/*
 * gather_frames and preprocessing in one kernel: rebuilds stacks from frames directly as the first layer's input.
 * Arguments, shapes and layouts: gpur_gather_preprocessed_args. The serial body is in
 * kernels/cpu/gather_preprocessed_serial.h.
 *
 * On a GPU a thread takes the frames' pixels in the order of memory, so that a warp reads neighboring bytes, and
 * stores 16 bytes of x at a time: the four channels of a pixel, or of two pixels as bfloat16. With space-to-depth
 * blocks of 4 x 4 pixels, neighboring threads together store whole sectors of 32 bytes. Shared memory is not used: a
 * byte of a frame is read by one thread for obs, and mostly by the same one for next_obs, which finds it in the
 * cache.
 */
#pragma once

#include "kernels/cpu/gather_preprocessed_serial.h"

/* Finds the frames of a row's eight links. Returns 1 if all of them exist. */
GPUR_FN int gpur_preprocessed_find(const gpur_gather_frames_args *f, int64_t b, const unsigned char **frames)
{
    int is_whole = 1;
    for (int j = 0; j < 8; j++) {
        frames[j] = gpur_frame_at(f, f->links[b * 8 + j]);
        is_whole &= frames[j] != 0;
    }
    return is_whole;
}

/* Reads pixel i of each frame. If `is_pair`, i is even, and pixel i + 1 is read into the upper byte. A frame that
 * does not exist gives zeros. */
GPUR_FN void gpur_preprocessed_read(const unsigned char *const *frames, uint32_t i, int is_pair, int is_whole,
                                    uint32_t *bytes)
{
    for (int j = 0; j < 8; j++) {
        uint16_t two = 0;
        if (is_pair && (is_whole || frames[j]))
            memcpy(&two, __builtin_assume_aligned(frames[j] + i, sizeof two), sizeof two);
        else if (is_whole || frames[j])
            two = frames[j][i];
        bytes[j] = two;
    }
}

/* Whether gpur_preprocessed_quads may be used. */
GPUR_FN int gpur_preprocessed_in_quads(const gpur_gather_preprocessed_args *a)
{
    const gpur_gather_frames_args *const f = &a->frames;
    const gpur_preprocess_args *const o = &a->preprocess;
    const uint64_t all = (uint64_t)(uintptr_t)f->obs | (uint64_t)(uintptr_t)f->next_obs | (uint64_t)f->obs_pitch |
                         (uint64_t)f->next_pitch;
    return a->is_plane && f->stack == 4 && gpur_preprocess_has_quads(o) && all % 16 == 0;
}

/* Converts both stacks of a row. All loads are issued before the first store. If the last three arguments are
 * constants, the loop has little arithmetic and no branches. */
GPUR_FN void gpur_preprocessed_quads(gpur_thread at, const gpur_gather_preprocessed_args *a, int64_t b, gpur_span quads,
                                     const unsigned char *const *frames, uint32_t block, int is_pair, int is_whole)
{
    const gpur_preprocess_args *const o = &a->preprocess;
    const uint32_t width = (uint32_t)o->width;
    unsigned char *const obs = a->frames.obs ? a->frames.obs + b * a->frames.obs_pitch : 0;
    unsigned char *const next = a->frames.next_obs ? a->frames.next_obs + b * a->frames.next_pitch : 0;
    for (int64_t i = quads.first + at.thread; i < quads.last; i += at.threads) {
        const uint32_t pixel = (uint32_t)i * (is_pair ? 2 : 1), y = pixel / width;
        const int64_t byte = gpur_preprocess_offset(o, block, y, pixel - y * width) * (is_pair ? 2 : 4);
        uint32_t bytes[8];
        gpur_preprocessed_read(frames, pixel, is_pair, is_whole, bytes);
        const gpur_u32x4 first = gpur_preprocess_quad(bytes, is_pair, o->scale, o->shift);
        const gpur_u32x4 second = gpur_preprocess_quad(bytes + 4, is_pair, o->scale, o->shift);
        if (obs)
            memcpy(__builtin_assume_aligned(obs + byte, sizeof first), &first, sizeof first);
        if (next)
            memcpy(__builtin_assume_aligned(next + byte, sizeof second), &second, sizeof second);
    }
}

/* For the usual block size and rows without missing frames, the arguments are constants. */
GPUR_FN void gpur_preprocessed_row(gpur_thread at, const gpur_gather_preprocessed_args *a, int64_t b, gpur_span quads)
{
    const gpur_preprocess_args *const o = &a->preprocess;
    const unsigned char *frames[8];
    const int is_usual = gpur_preprocessed_find(&a->frames, b, frames) && o->space_to_depth == 4;
    if (is_usual && o->bf16)
        gpur_preprocessed_quads(at, a, b, quads, frames, 4, 1, 1);
    else if (is_usual)
        gpur_preprocessed_quads(at, a, b, quads, frames, 4, 0, 1);
    else
        gpur_preprocessed_quads(at, a, b, quads, frames, (uint32_t)o->space_to_depth, o->bf16, 0);
}

/* For any shape: a thread for each pixel. */
GPUR_FN void gpur_preprocessed_pixels(gpur_thread at, const gpur_gather_preprocessed_args *a, int64_t b,
                                      gpur_span pixels)
{
    const gpur_gather_frames_args *const f = &a->frames;
    const uint32_t *const links = f->links + b * 2 * f->stack;
    const uint32_t width = (uint32_t)a->preprocess.width;
    for (int64_t i = pixels.first + at.thread; i < pixels.last; i += at.threads) {
        const uint32_t y = (uint32_t)i / width, x = (uint32_t)i - y * width;
        if (f->obs)
            gpur_preprocessed_pixel(a, f->obs + b * f->obs_pitch, links, y, x);
        if (f->next_obs)
            gpur_preprocessed_pixel(a, f->next_obs + b * f->next_pitch, links + f->stack, y, x);
    }
}

GPUR_FN void gpur_preprocessed_band(gpur_thread at, const gpur_gather_preprocessed_args *a, int64_t b, int64_t band)
{
    const gpur_preprocess_args *const o = &a->preprocess;
    const int in_quads = gpur_preprocessed_in_quads(a);
    const int64_t items = o->height * o->width / (in_quads && o->bf16 ? 2 : 1);
    const gpur_span mine = gpur_share_of(items, band, a->frames.bands);
    if (in_quads)
        gpur_preprocessed_row(at, a, b, mine);
    else
        gpur_preprocessed_pixels(at, a, b, mine);
}

/* A GPU's block takes one band of a row at a time, a CPU's thread a whole row. */
GPUR_KERNEL(gather_preprocessed)
{
    const int64_t bands = gpur_is_parallel() ? a->frames.bands : 1;
    const gpur_span work = gpur_block_rows(at, a->frames.batch * bands);
    for (int64_t i = work.first; i < work.last; i += work.step) {
        const int64_t b = i / bands;
        if (gpur_is_parallel())
            gpur_preprocessed_band(at, a, b, i - b * bands);
        else
            gpur_gather_preprocessed_serial(a, b);
    }
}
