/* SPDX-License-Identifier: MIT */
/* How well the greedy policy plays, in environments of its own. */
#ifndef EXAMPLES_EVALUATE_H
#define EXAMPLES_EVALUATE_H

#include "vec_env.h"

typedef struct evaluator {
    vec_env envs;     /* one for each episode */
    int32_t *actions; /* (episodes) */
    uint8_t *done;    /* (episodes) */
} evaluator;

int evaluator_open(evaluator *judge, const env_kind *kind, int32_t episodes, uint64_t seed); /* 0, or -1: no memory */
void evaluator_close(evaluator *judge); /* also one that failed to open */

/* Plays every episode to its end with epsilon 0, all at once, from new starts each time; `mean` is of their returns. */
gpur_status evaluator_run(evaluator *judge, gpur_learner *learner, float *mean);

#endif
