/* SPDX-License-Identifier: MIT */
/* Copies one long value on a CPU while prefetching the next, line by line. Prefetching a whole large row before
 * copying another would fill the first-level cache twice over and saturate the line-fill buffers, so that stores
 * would wait. */
#pragma once

#include "kernels/cpu/copy_nontemporal.h"

enum { GPUR_PREFETCH_LINE = 64 };

/* A cache line, copied by one store if the processor has such wide ones: the buffer of stores that wait for their
 * lines is limited by the number of stores. */
#if defined(__GNUC__) && !defined(__CUDACC__)
typedef uint64_t gpur_prefetch_line __attribute__((vector_size(GPUR_PREFETCH_LINE)));
#else
typedef struct gpur_prefetch_line {
    uint64_t words[GPUR_PREFETCH_LINE / sizeof(uint64_t)];
} gpur_prefetch_line;
#endif

/* Copies `bytes` bytes of any alignment and prefetches as many from `next`, which must be readable; `next` may be
 * `from`. */
GPUR_FN void gpur_copy_prefetch(unsigned char *to, const unsigned char *from, const unsigned char *next, int64_t bytes)
{
    const int64_t lines = bytes / GPUR_PREFETCH_LINE * GPUR_PREFETCH_LINE;
    for (int64_t i = 0; i < lines; i += GPUR_PREFETCH_LINE) {
        gpur_prefetch_line line;
        gpur_prefetch_l2(next + i);
        memcpy(&line, from + i, sizeof line);
        memcpy(to + i, &line, sizeof line);
    }
    memcpy(to + lines, from + lines, (size_t)(bytes - lines));
}

/* The same with non-temporal stores. The caller must call gpur_nt_fence afterwards. */
GPUR_FN void gpur_copy_prefetch_nt(unsigned char *to, const unsigned char *from, const unsigned char *next,
                                   int64_t bytes)
{
    const int64_t to_line = -(int64_t)(uintptr_t)to & (GPUR_PREFETCH_LINE - 1),
                  head = to_line < bytes ? to_line : bytes;
    const int64_t last = head + (bytes - head) / GPUR_PREFETCH_LINE * GPUR_PREFETCH_LINE;
    memcpy(to, from, (size_t)head);
    for (int64_t i = head; i < last; i += GPUR_PREFETCH_LINE) {
        gpur_prefetch_l2(next + i);
        gpur_copy_lines_nt(to + i, from + i, GPUR_PREFETCH_LINE);
    }
    memcpy(to + last, from + last, (size_t)(bytes - last));
}
