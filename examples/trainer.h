/* SPDX-License-Identifier: MIT */
/* The training loop: act, step, remember; train between; evaluate now and then; stop when it is solved. */
#ifndef EXAMPLES_TRAINER_H
#define EXAMPLES_TRAINER_H

#include "agent.h"
#include "curve.h"
#include "evaluate.h"
#include "options.h"
#include "progress.h"
#include "recent.h"

/* What a game needs beside the learner's preset. Steps are of all environments together. */
typedef struct train_recipe {
    const char *preset;
    int32_t threads; /* of a CPU device; 0: all cores */
    int64_t capacity;
    int64_t min_size; /* transitions before training */
    float gamma;
    int64_t round_steps;    /* environment steps between two launches of training */
    int64_t round_training; /* train steps a launch */
    int64_t evaluate_every; /* environment steps */
    int32_t evaluations;    /* episodes in an evaluation */
} train_recipe;

typedef struct trainer {
    const env_kind *kind;
    const train_recipe *recipe;
    const train_options *options;
    agent agent;
    vec_env envs;
    int32_t *actions; /* (envs) */
    evaluator judge;
    learning_curve curve;
    progress_line progress;
    recent_returns recent;
    double saved;  /* seconds, when it last was */
    double began; /* seconds of the clock */
    int64_t steps, episodes, train_steps;
    int64_t next_evaluation; /* due at this step */
    float eval_return;       /* of the last evaluation; NaN before */
} trainer;

typedef enum train_end {
    TRAIN_SOLVED,      /* an evaluation reached the kind's solved_return */
    TRAIN_LIMIT,       /* out of steps or time */
    TRAIN_INTERRUPTED, /* interrupt_came() */
    TRAIN_FAILED,      /* having said on stderr what is wrong */
} train_end;

/* 0, or -1 having said on stderr what is wrong. `opened` goes to trainer_close either way. */
int trainer_open(trainer *opened, const env_kind *kind, const train_recipe *recipe, const train_options *options);
void trainer_close(trainer *opened);

/* Trains until one of the ends. The curve and the counters are up to date with it. */
train_end trainer_run(trainer *opened);

double trainer_seconds(const trainer *opened); /* since trainer_run began */

#endif
