/* SPDX-License-Identifier: MIT */
/* Random numbers of the library's games: SplitMix64 [Steele, Lea & Flood 2014]. Its state is 64 bits; any seed will
 * do. */
#pragma once

#include <stdint.h>

static inline uint64_t gpur_env_random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1): the upper 53 bits. */
static inline double gpur_env_random_uniform(uint64_t *state)
{
    return (double)(gpur_env_random_bits(state) >> 11) * 0x1p-53;
}

/* A whole number from 0 to count - 1. The most probable one is so by a factor of 1 + count / 2^53. */
static inline int32_t gpur_env_random_below(uint64_t *state, int32_t count)
{
    return (int32_t)(gpur_env_random_uniform(state) * count);
}
