/* SPDX-License-Identifier: MIT */
/*
 * Philox for a CPU, for as many lanes at a time as its vectors hold. Each 32-bit word of a lane is in the lower half
 * of a 64-bit element, since the multiplication that it needs, 32 x 32 bits to 64, reads only those; what is in the
 * upper halves does not matter until the end. Compilers do not find that instruction in a plain loop, which takes two
 * to four times as long.
 */
#pragma once

#include "kernels/target/thread.h"

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

/* gpur_lanes_multiply(a, b) returns the products of the lower halves. */
#if defined(__AVX512F__) && !defined(__CUDACC__)
typedef uint64_t gpur_lanes __attribute__((vector_size(64)));
GPUR_FN gpur_lanes gpur_lanes_multiply(gpur_lanes a, gpur_lanes b)
{
    return (gpur_lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__) && !defined(__CUDACC__)
typedef uint64_t gpur_lanes __attribute__((vector_size(32)));
GPUR_FN gpur_lanes gpur_lanes_multiply(gpur_lanes a, gpur_lanes b)
{
    return (gpur_lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#elif defined(__SSE2__) && !defined(__CUDACC__)
typedef uint64_t gpur_lanes __attribute__((vector_size(16)));
GPUR_FN gpur_lanes gpur_lanes_multiply(gpur_lanes a, gpur_lanes b)
{
    return (gpur_lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
}
#else
typedef uint64_t gpur_lanes;
GPUR_FN gpur_lanes gpur_lanes_multiply(gpur_lanes a, gpur_lanes b)
{
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
}
#endif

enum { GPUR_LANES = sizeof(gpur_lanes) / sizeof(uint64_t) };

/* The first 64 random bits of GPUR_LANES lanes from `first` on: for each lane the same as gpur_random_bits gives. */
GPUR_FN void gpur_random_lanes(uint64_t seed, uint32_t purpose, uint64_t step, uint32_t first, uint64_t *words)
{
    /* Loaded from a constant array: a vector that is read back from numbers just stored one by one would have to wait
     * for them. */
    static const uint64_t numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const gpur_lanes zero = {0}, m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
    gpur_lanes v0, v1 = zero + purpose, v2 = zero + step, v3 = zero + (step >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    memcpy(&v0, numbers, sizeof v0);
    v0 += first;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const gpur_lanes p0 = gpur_lanes_multiply(v0, m0), p1 = gpur_lanes_multiply(v2, m1);
        v0 = p1 >> 32 ^ v1 ^ k0;
        v2 = p0 >> 32 ^ v3 ^ k1;
        v1 = p1;
        v3 = p0;
    }
    v0 = v1 << 32 | (v0 & 0xFFFFFFFFu);
    memcpy(words, &v0, sizeof v0);
}
