/* SPDX-License-Identifier: MIT */
/* Where the replays in RAM draw from: small, fast and good enough [Steele, Lea & Flood 2014, SplitMix64]. */
#ifndef BENCH_RAM_RANDOM_H
#define BENCH_RAM_RANDOM_H

#include <stdint.h>

static inline uint64_t ram_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 to n - 1. */
static inline int64_t ram_random_below(uint64_t *state, int64_t n)
{
    return (int64_t)((ram_random(state) >> 32) * (uint64_t)n >> 32);
}

#endif
