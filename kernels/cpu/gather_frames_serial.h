/* SPDX-License-Identifier: MIT */
/* Serial version of gather_frames. A row's stacks are rebuilt one after the other, so a frame that both hold is still
 * in the nearest cache for the second. */
#pragma once

#include "kernels/args_frames.h"
#include "kernels/cpu/copy_nontemporal.h"

/* The frame of a link; NULL: no frame. For link 0, link - 1 wraps around to more than the number of slots. */
GPUR_FN const unsigned char *gpur_frame_at(const gpur_gather_frames_args *a, uint32_t link)
{
    return link - 1 >= a->slots ? (const unsigned char *)0 : a->frames + (int64_t)(link - 1) * a->pitch;
}

/* Copies one frame of a stack whose first axis is the stack, or writes zeros. */
GPUR_FN void gpur_frame_write(const gpur_gather_frames_args *a, unsigned char *to, const unsigned char *frame)
{
    if (!frame)
        memset(to, 0, (size_t)a->frame_bytes);
    else if (a->nontemporal)
        gpur_memcpy_nt(to, frame, a->frame_bytes);
    else
        memcpy(to, frame, (size_t)a->frame_bytes);
}

GPUR_FN void gpur_stack_write(const gpur_gather_frames_args *a, unsigned char *to, const uint32_t *links)
{
    for (int32_t p = 0; p < a->stack; p++)
        gpur_frame_write(a, to + p * a->position_step, gpur_frame_at(a, links[p]));
}

/* Interleaves four frames of bytes. The compiler vectorizes it. */
GPUR_FN void gpur_stack_interleave_4(unsigned char *to, const unsigned char *const *frames, int32_t units)
{
    const unsigned char *const f0 = frames[0], *const f1 = frames[1], *const f2 = frames[2], *const f3 = frames[3];
    for (int32_t u = 0; u < units; u++) {
        to[4 * (int64_t)u] = f0[u];
        to[4 * (int64_t)u + 1] = f1[u];
        to[4 * (int64_t)u + 2] = f2[u];
        to[4 * (int64_t)u + 3] = f3[u];
    }
}

/* Interleaves the numbers of a stack's frames, `bytes` bytes each, for a stack that is the last axis. A missing frame
 * (NULL) gives zeros. */
GPUR_FN void gpur_frames_interleave(unsigned char *to, const unsigned char *const *frames, int32_t stack, int32_t units,
                                    int64_t bytes)
{
    int32_t there = 0;
    for (int32_t p = 0; p < stack; p++)
        there += frames[p] != 0;
    if (there == 4 && stack == 4 && bytes == 1) {
        gpur_stack_interleave_4(to, frames, units);
        return;
    }
    for (int32_t u = 0; u < units; u++)
        for (int32_t p = 0; p < stack; p++)
            for (int64_t i = 0; i < bytes; i++, to++)
                *to = frames[p] ? frames[p][u * bytes + i] : 0;
}

GPUR_FN void gpur_stack_interleave(const gpur_gather_frames_args *a, unsigned char *to, const uint32_t *links)
{
    const unsigned char *frames[GPUR_MAX_FRAME_LINKS];
    for (int32_t p = 0; p < a->stack; p++)
        frames[p] = gpur_frame_at(a, links[p]);
    gpur_frames_interleave(to, frames, a->stack, a->units, (int64_t)1 << a->shift);
}

GPUR_FN void gpur_stack_build(const gpur_gather_frames_args *a, unsigned char *to, const uint32_t *links)
{
    if (a->unit_step == (int64_t)1 << a->shift)
        gpur_stack_write(a, to, links);
    else
        gpur_stack_interleave(a, to, links);
}

/* Rebuilds the stacks of row b. Frame p of next_obs mostly is frame p + 1 of obs, which is still in the cache. */
GPUR_FN void gpur_gather_frames_serial(const gpur_gather_frames_args *a, int64_t b)
{
    const uint32_t *const links = a->links + b * 2 * a->stack;
    if (a->obs)
        gpur_stack_build(a, a->obs + b * a->obs_pitch, links);
    if (a->next_obs)
        gpur_stack_build(a, a->next_obs + b * a->next_pitch, links + a->stack);
}
