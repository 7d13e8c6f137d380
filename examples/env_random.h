/* SPDX-License-Identifier: MIT */
/* Random numbers for environments: SplitMix64 [Steele, Lea & Flood 2014]. Its state is 64 bits; any seed will do. */
#pragma once

#include <stdint.h>

static inline uint64_t env_random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [low, high): the upper 53 bits make a double in [0, 1). */
static inline double env_random_uniform(uint64_t *state, double low, double high)
{
    return low + (high - low) * ((double)(env_random_bits(state) >> 11) * 0x1p-53);
}
