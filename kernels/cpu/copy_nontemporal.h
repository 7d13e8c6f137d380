/* SPDX-License-Identifier: MIT */
/* Non-temporal copies of a CPU: they bypass the caches, so that lines which are overwritten as a whole are not
 * fetched first. Sanitizers do not see such stores. In their builds, and on processors without such stores, a copy is
 * a memcpy. */
#pragma once

#include "kernels/target/thread.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GPUR_STORES_ARE_INSTRUMENTED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GPUR_STORES_ARE_INSTRUMENTED
#endif

#if defined(__SSE2__) && !defined(__CUDACC__) && !defined(GPUR_STORES_ARE_INSTRUMENTED)
#include <emmintrin.h>

enum { GPUR_NT_LINE = 64 };

/* Orders the non-temporal stores before it before all later stores. */
GPUR_FN void gpur_nt_fence(void)
{
    _mm_sfence();
}

/* Copies whole cache lines; `to` begins a line. The caller must call gpur_nt_fence afterwards. */
GPUR_FN void gpur_copy_lines_nt(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    for (int64_t line = 0; line < bytes; line += GPUR_NT_LINE)
        for (int64_t i = line; i < line + GPUR_NT_LINE; i += (int64_t)sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}

GPUR_FN void gpur_memcpy_nt(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    const int64_t to_line = -(int64_t)(uintptr_t)to & (GPUR_NT_LINE - 1), head = to_line < bytes ? to_line : bytes;
    const int64_t lines = (bytes - head) / GPUR_NT_LINE * GPUR_NT_LINE;
    memcpy(to, from, (size_t)head);
    gpur_copy_lines_nt(to + head, from + head, lines);
    memcpy(to + head + lines, from + head + lines, (size_t)(bytes - head - lines));
    gpur_nt_fence();
}
#else
GPUR_FN void gpur_nt_fence(void)
{
}

GPUR_FN void gpur_copy_lines_nt(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

GPUR_FN void gpur_memcpy_nt(unsigned char *to, const unsigned char *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}
#endif
