/* SPDX-License-Identifier: MIT */
/* One training: environments, a learner, a memory between them, and a clock. */
#ifndef BENCH_TRAINING_TRAINEE_H
#define BENCH_TRAINING_TRAINEE_H

#include "bench/training/memory.h"
#include "bench/training/training.h"
#include "examples/evaluate.h"

typedef struct trainee {
    const memory_kind *kind;
    const training_options *options;
    gpur_replay *replay;
    gpur_learner *learner;
    void *memory;
    vec_env envs;
    evaluator judge;
    int64_t steps, train_steps;
    double seconds; /* of play and training */
} trainee;

/* Opens on `device`, which must outlive it, or leaves the program. */
void trainee_open(trainee *c, const memory_kind *kind, gpur_device *device, const training_options *options,
                  int64_t batch);
void trainee_close(trainee *c);

/* Plays and trains up to `steps` environment steps, all done on return; or to the end of the round in which it was
 * interrupted. */
void trainee_train(trainee *c, int64_t steps);

/* Leaves the program, having said why, unless the oldest `count` rows that both remember are the same. */
void trainee_must_agree(const trainee *first, const trainee *second, int64_t count);

/* Mean return of the greedy policy. */
double trainee_evaluate(trainee *c);

#endif
