/* SPDX-License-Identifier: MIT */
/* Bump allocator that gives many arrays one allocation. The same code runs twice: with `base` NULL to measure the bytes
 * needed, then with memory to assign addresses. */
#pragma once

#include "base/red_zone.h"

#include <stdint.h>

typedef struct gpur_arena {
    unsigned char *base; /* NULL: only measures */
    int64_t used;
} gpur_arena;

/* Returns an address aligned to 256 bytes, or NULL while measuring. */
static inline void *gpur_arena_alloc(gpur_arena *arena, int64_t bytes)
{
    unsigned char *const taken = arena->base ? arena->base + arena->used : (unsigned char *)0;
    const int64_t taken_bytes = (bytes + 255) / 256 * 256 + GPUR_RED_ZONE;
    if (taken)
        gpur_red_zone_set(taken + bytes, taken_bytes - bytes);
    arena->used += taken_bytes;
    return taken;
}

static inline float *gpur_arena_floats(gpur_arena *arena, int64_t count)
{
    return gpur_arena_alloc(arena, count * (int64_t)sizeof(float));
}
