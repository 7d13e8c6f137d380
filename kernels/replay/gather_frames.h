/* SPDX-License-Identifier: MIT */
/* Rebuilds stacks of observations from frames that are stored once. Arguments, shapes and layouts:
 * gpur_gather_frames_args. A GPU's block copies a share of a row at a time; the serial body is in
 * kernels/cpu/gather_frames_serial.h. */
#pragma once

#include "kernels/cpu/gather_frames_serial.h"
#include "kernels/target/thread.h"

/* Loads the links of a row. Entry j of `positions` becomes the set of all positions with the same frame as position j,
 * as bits, if j is the first of them; else 0. */
GPUR_FN void gpur_frames_find_duplicates(gpur_thread at, const gpur_gather_frames_args *a, int64_t b, uint32_t *links,
                                         uint32_t *positions)
{
    const int32_t count = 2 * a->stack;
    for (int32_t j = at.thread; j < count; j += at.threads)
        links[j] = a->links[b * count + j];
    gpur_barrier(at);
    for (int32_t j = at.thread; j < count; j += at.threads) {
        uint32_t same = 0;
        for (int32_t i = 0; i < count; i++)
            same |= (uint32_t)(links[i] == links[j]) << i;
        positions[j] = (same & ((1u << j) - 1)) == 0 ? same : 0;
    }
    gpur_barrier(at);
}

/* Where unit u at position j of a row is stored; NULL: that stack is not wanted. The positions of obs come first. */
GPUR_FN unsigned char *gpur_frames_target(const gpur_gather_frames_args *a, int64_t b, int32_t j, int32_t u)
{
    const int32_t p = j < a->stack ? j : j - a->stack;
    unsigned char *const array = j < a->stack ? a->obs : a->next_obs;
    const int64_t pitch = j < a->stack ? a->obs_pitch : a->next_pitch;
    return array ? array + b * pitch + u * a->unit_step + p * a->position_step : (unsigned char *)0;
}

/* The frame to be read for position j and all positions that share it; NULL: there is none to be read. */
GPUR_FN const unsigned char *gpur_frames_source(const gpur_gather_frames_args *a, int32_t j, const uint32_t *links,
                                                const uint32_t *positions)
{
    return j < 2 * a->stack && positions[j] != 0 ? gpur_frame_at(a, links[j]) : (const unsigned char *)0;
}

/* Positions whose units a thread loads before it stores the first of them: all of two stacks of four. */
enum { GPUR_FRAMES_PER_THREAD = 8 };

/* Copies units of one type by way of registers. Each size is code of its own, so that a unit is one load and one
 * store. */
#define GPUR_FRAMES_UNITS(name, type)                                                                                  \
    GPUR_FN void name##_put(const gpur_gather_frames_args *a, int64_t b, int32_t u, uint32_t positions, type value)    \
    {                                                                                                                  \
        for (int32_t i = 0; positions != 0; i++, positions >>= 1) {                                                    \
            unsigned char *const to = positions & 1 ? gpur_frames_target(a, b, i, u) : (unsigned char *)0;             \
            if (to)                                                                                                    \
                memcpy(__builtin_assume_aligned(to, sizeof value), &value, sizeof value);                              \
        }                                                                                                              \
    }                                                                                                                  \
    GPUR_FN void name(gpur_thread at, const gpur_gather_frames_args *a, int64_t b, gpur_span units,                    \
                      const uint32_t *links, const uint32_t *positions)                                                \
    {                                                                                                                  \
        for (int64_t u = units.first + at.thread; u < units.last; u += at.threads)                                     \
            for (int32_t first = 0; first < 2 * a->stack; first += GPUR_FRAMES_PER_THREAD) {                           \
                type values[GPUR_FRAMES_PER_THREAD];                                                                   \
                memset(values, 0, sizeof values);                                                                      \
                for (int n = 0; n < GPUR_FRAMES_PER_THREAD; n++) {                                                     \
                    const unsigned char *const from = gpur_frames_source(a, first + n, links, positions);              \
                    if (from)                                                                                          \
                        memcpy(&values[n],                                                                             \
                               __builtin_assume_aligned(from + u * (int64_t)sizeof *values, sizeof *values),           \
                               sizeof *values);                                                                        \
                }                                                                                                      \
                for (int n = 0; n < GPUR_FRAMES_PER_THREAD; n++)                                                       \
                    if (first + n < 2 * a->stack)                                                                      \
                        name##_put(a, b, (int32_t)u, positions[first + n], values[n]);                                 \
            }                                                                                                          \
    }
GPUR_FRAMES_UNITS(gpur_frames_units_16, gpur_u32x4)
GPUR_FRAMES_UNITS(gpur_frames_units_8, uint64_t)
GPUR_FRAMES_UNITS(gpur_frames_units_4, uint32_t)
GPUR_FRAMES_UNITS(gpur_frames_units_2, uint16_t)
GPUR_FRAMES_UNITS(gpur_frames_units_1, uint8_t)

GPUR_FN void gpur_frames_band(gpur_thread at, const gpur_gather_frames_args *a, int64_t b, int64_t band,
                              const uint32_t *links, const uint32_t *positions)
{
    const gpur_span units = gpur_share_of(a->units, band, a->bands);
    if (a->shift == 4)
        gpur_frames_units_16(at, a, b, units, links, positions);
    else if (a->shift == 3)
        gpur_frames_units_8(at, a, b, units, links, positions);
    else if (a->shift == 2)
        gpur_frames_units_4(at, a, b, units, links, positions);
    else if (a->shift == 1)
        gpur_frames_units_2(at, a, b, units, links, positions);
    else
        gpur_frames_units_1(at, a, b, units, links, positions);
}

/* The parallel body: a block takes one band of a row at a time. */
GPUR_KERNEL_OF(gather_frames, 256)
{
    GPUR_SHARED(uint32_t, links, GPUR_MAX_FRAME_LINKS);
    GPUR_SHARED(uint32_t, positions, GPUR_MAX_FRAME_LINKS);
    const gpur_span work = gpur_block_rows(at, gpur_is_parallel() ? a->batch * a->bands : a->batch);
    if (!gpur_is_parallel()) {
        for (int64_t b = work.first; b < work.last; b++)
            gpur_gather_frames_serial(a, b);
        return;
    }
    for (int64_t i = work.first; i < work.last; i += work.step) {
        const int64_t b = i / a->bands;
        gpur_frames_find_duplicates(at, a, b, links, positions);
        gpur_frames_band(at, a, b, i - b * a->bands, links, positions);
        gpur_barrier(at);
    }
}
