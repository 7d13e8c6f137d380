/* SPDX-License-Identifier: MIT */
/* Copies of the examples' dodge game in lock step, in arrays as learners take them. */
#ifndef BENCH_GAMES_H
#define BENCH_GAMES_H

#include "bench/lib/setup.h"
#include "examples/dodge.h"

typedef struct games {
    int32_t count;                   /* N */
    dodge *state;                    /* (N) */
    float *obs;                      /* (N, DODGE_OBS) of the next step; after an end the new episode's first */
    float *next_obs;                 /* (N, DODGE_OBS) where the last step led; after an end the old episode's last */
    float *reward;                   /* (N) of the last step */
    uint8_t *terminated, *truncated; /* (N) */
    float *episode_return;           /* (N) of the last step's episode, that step included */
} games;

/* Each copy has a seed of its own, drawn from `seed`. */
void games_open(games *g, int32_t count, uint64_t seed);
void games_close(games *g);

void games_reset(games *g); /* begins a new episode in every copy */

/* Steps every copy, then resets those whose episode ended. */
void games_step(games *g, const int32_t *actions);
int games_ended(const games *g, int32_t index);

/* Mean return of one episode a copy with the greedy policy. */
double games_evaluate(games *g, gpur_learner *learner);

/* Mean return of the first episodes that end, with random actions or those of dodge_by_hand. */
double games_baseline(uint64_t seed, int is_random);

#endif
