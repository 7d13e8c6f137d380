/* SPDX-License-Identifier: MIT */
/* Random numbers without state [Philox: Salmon et al. 2011]. They are a pure function of (seed, purpose, step, lane),
 * so they do not depend on the launch shape, and the CPU and a GPU compute the same. */
#pragma once

#include "kernels/target/thread.h"

/* Purposes of random numbers; different purposes never get the same ones. The values are part of what a seed means:
 * append new ones, never change them. */
enum {
    GPUR_RANDOM_SAMPLE = 1,         /* a user's batch: uniform with replacement */
    GPUR_RANDOM_DISTINCT = 2,       /* a user's batch: keys of a permutation, for distinct rows */
    GPUR_RANDOM_WEIGHTS = 3,        /* initial weights */
    GPUR_RANDOM_EXPLORE = 4,        /* epsilon-greedy */
    GPUR_RANDOM_LEARN = 5,          /* a learner's batch: uniform with replacement */
    GPUR_RANDOM_LEARN_DISTINCT = 6, /* a learner's batch: keys of a permutation, for distinct rows */
    GPUR_RANDOM_PRIORITY = 7,       /* a user's batch: by priority */
    GPUR_RANDOM_LEARN_PRIORITY = 8, /* a learner's batch: by priority */
    GPUR_RANDOM_RUN_EXPLORE = 9,    /* epsilon-greedy in a run: by lane and its steps */
    GPUR_RANDOM_ENVIRONMENT = 10,   /* seeds of a run's environments */
    GPUR_RANDOM_SEQUENCES = 11,     /* a user's sequences: last rows */
    GPUR_RANDOM_RETURNS = 12,       /* a learner's cache of returns: last rows of its blocks */
    GPUR_RANDOM_RETURNS_DRAW = 13,  /* a learner's batch from that cache */
    GPUR_RANDOM_APEX_ACTOR = 14,    /* seeds of an actor of Ape-X: by its incarnation and number */
    GPUR_RANDOM_GA3C_TUNER = 15,    /* changes of the tuner of GA3C */
    GPUR_RANDOM_ACTION_NOISE = 16,  /* noise of an action's components 4 i to 4 i + 3: plus i << 16 */
    GPUR_RANDOM_EVICT = 17,         /* rows that are evicted by priority: by the number of rows evicted before */
    GPUR_RANDOM_LANES = 18,         /* rows of lanes, uniform: plus i << 16 for the i-th attempt */

    /* a learner's demonstrations: as the three of its own replay */
    GPUR_RANDOM_DEMONSTRATIONS = 19,
    GPUR_RANDOM_DEMONSTRATIONS_DISTINCT = 20,
    GPUR_RANDOM_DEMONSTRATIONS_PRIORITY = 21,

    GPUR_RANDOM_TARGET_NOISE = 22, /* noise of a target policy's action, components 4 i to 4 i + 3: plus i << 16 */
    GPUR_RANDOM_POLICY_DRAW = 23,  /* a train step's actions from a policy: normal numbers 4 i to 4 i + 3 in lane i */
    GPUR_RANDOM_HINDSIGHT = 24, /* new goals of a batch: a learner's plus 1 << 16, its demonstrations' plus 2 << 16 */
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

/* Uniform over 0 ... n - 1. It multiplies and does not reject: the bias is at most n / 2^64. */
GPUR_FN uint64_t gpur_random_below(gpur_u32x4 bits, uint64_t n)
{
    return gpur_mulhi_u64((uint64_t)bits.v[1] << 32 | bits.v[0], n);
}

/* Uniform over [0, 1): 24 bits, so that every value is exact in float32. */
GPUR_FN float gpur_random_uniform(uint32_t bits)
{
    return (float)(bits >> 8) * 5.9604644775390625e-8f;
}
