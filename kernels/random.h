/* SPDX-License-Identifier: MIT */
/*
 * Random numbers without state: a pure function of (seed, purpose, step, lane), so the launch shape does not matter and
 * the CPU and a GPU draw the same.
 */
#ifndef GPUR_RANDOM_H
#define GPUR_RANDOM_H

#include "place.h"

/* What a draw is for; streams of different purposes do not overlap. Values are part of what a seed means: append only.
 */
enum {
    GPUR_DRAW_SAMPLE = 1,         /* a user's batch: uniform with replacement */
    GPUR_DRAW_DISTINCT = 2,       /* ... keys of a permutation */
    GPUR_DRAW_WEIGHTS = 3,        /* initial weights */
    GPUR_DRAW_EXPLORE = 4,        /* epsilon-greedy */
    GPUR_DRAW_LEARN = 5,          /* a learner's batch: uniform with replacement */
    GPUR_DRAW_LEARN_DISTINCT = 6, /* ... keys of a permutation */
};

GPUR_FN gpur_u32x4 gpur_random_bits(uint64_t seed, uint32_t purpose, uint64_t step, uint32_t lane)
{
    gpur_u32x4 counter;
    counter.v[0] = lane;
    counter.v[1] = purpose;
    counter.v[2] = (uint32_t)step;
    counter.v[3] = (uint32_t)(step >> 32);
    return gpur_philox4x32_10(counter, seed);
}

/*
 * The first 64 of the bits of `count` lanes (at most GPUR_LANES) from `first` on, for a CPU: Philox round by round over
 * all lanes, which compilers turn into vectors. Half the time of ten rounds of one lane after another.
 */
enum { GPUR_LANES = 16 };
GPUR_FN void gpur_random_lanes(uint64_t seed, uint32_t purpose, uint64_t step, uint32_t first, int32_t count,
                               uint64_t *words)
{
    uint32_t v0[GPUR_LANES], v1[GPUR_LANES], v2[GPUR_LANES], v3[GPUR_LANES];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int32_t i = 0; i < count; i++)
        v0[i] = first + (uint32_t)i, v1[i] = purpose, v2[i] = (uint32_t)step, v3[i] = (uint32_t)(step >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int32_t i = 0; i < count; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * v0[i], p1 = (uint64_t)0xCD9E8D57u * v2[i];
            v0[i] = (uint32_t)(p1 >> 32) ^ v1[i] ^ k0;
            v2[i] = (uint32_t)(p0 >> 32) ^ v3[i] ^ k1;
            v1[i] = (uint32_t)p1;
            v3[i] = (uint32_t)p0;
        }
    for (int32_t i = 0; i < count; i++)
        words[i] = (uint64_t)v1[i] << 32 | v0[i];
}

/* Uniform over 0 ... n - 1 by multiplication: no rejection, and a bias of at most n / 2^64. */
GPUR_FN uint64_t gpur_random_below(gpur_u32x4 bits, uint64_t n)
{
    return gpur_mulhi_u64((uint64_t)bits.v[1] << 32 | bits.v[0], n);
}

/* Uniform over [0, 1): 24 bits, so that every value is exact in float32. */
GPUR_FN float gpur_random_unit(uint32_t bits)
{
    return (float)(bits >> 8) * 5.9604644775390625e-8f;
}

#endif
