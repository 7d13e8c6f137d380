/* SPDX-License-Identifier: MIT */
/*
 * The evaluator: plays whole games in several environments at once, with one inference for all of them. Which
 * environment plays which game follows from the games alone: an environment whose game has ended begins the next one,
 * as long as there are any, and every game that was begun is played to its end. So short games are not preferred.
 */
#pragma once

#include "run/core.h"

/* Chooses the actions of `count` observations, as the environments take them. `streams` and `steps` say whose random
 * numbers a row has. */
typedef gpur_status (*gpur_evaluation_choose)(void *context, int64_t count, const unsigned char *obs,
                                              const uint32_t *streams, const uint64_t *steps, int32_t greedy,
                                              void *actions);

/* The game of an environment. */
typedef struct gpur_evaluation_game {
    int32_t is_open;  /* 1: it has begun and not ended */
    int32_t is_reset; /* 1: a life was lost, and the game goes on with a reset */
    double sum;       /* of its rewards */
    int64_t length;   /* its steps */
} gpur_evaluation_game;

typedef struct gpur_evaluator {
    int32_t count;               /* environments; 0: there are no evaluations */
    gpur_env_runner *runners;    /* (count) */
    uint64_t *taken;             /* (count) steps that each has taken: the number of its random numbers */
    gpur_evaluation_game *games; /* (count) */
    uint32_t first_stream;       /* environment i draws from the stream first_stream + i */

    /* An inference: its rows, and the environment of each. (count) */
    unsigned char *rows;
    uint32_t *streams;
    uint64_t *steps;
    unsigned char *actions; /* (action_bytes) each */
    int64_t action_bytes;
    int32_t *env;

    /* The evaluation that is played, or was the last. */
    int64_t episodes, begun, ended, length;
    double sum, squares; /* of the returns */
    int32_t greedy;
    void (*on_game)(void *listener, const gpur_evaluation_game *game); /* each that has ended; NULL: nobody listens */
    void *listener;
    _Atomic int64_t episode;     /* ended + 1; 0: none is played */
    _Atomic int64_t nanoseconds; /* in all evaluations */
    _Atomic int64_t cut;         /* games of all evaluations that were cut off, see gpur_env_runner.cut */
} gpur_evaluator;

/* Makes room for `count` runners of this type, whose environments the caller then makes. `action_bytes`: of an action.
 * After a failure call gpur_evaluator_close. */
gpur_status gpur_evaluator_alloc(gpur_evaluator *e, int32_t count, const gpur_env_type *type, int64_t action_bytes,
                                 uint32_t first_stream);

/* Opens the runners, whose environments are there. */
gpur_status gpur_evaluator_open(gpur_evaluator *e, const gpur_obs_shape *shape, int32_t check_finite);
void gpur_evaluator_close(gpur_evaluator *e); /* accepts a zeroed one */

/* Begins an evaluation. */
void gpur_evaluator_begin(gpur_evaluator *e, int64_t episodes, int32_t greedy);

static inline int gpur_evaluator_is_over(const gpur_evaluator *e)
{
    return e->ended == e->episodes;
}

/* Gives up the evaluation: the next one begins new games in all environments. */
void gpur_evaluator_abandon(gpur_evaluator *e);

/* Plays until the evaluation is over or `is_stopping` answers 1; another call goes on. */
gpur_status gpur_evaluator_play(gpur_evaluator *e, gpur_evaluation_choose choose, void *context,
                                int (*is_stopping)(void *context));

/* Adds the evaluator's numbers to the run's. Any thread. */
void gpur_evaluator_fill_stats(const gpur_evaluator *e, gpur_run_stats *stats);

/* The result of an evaluation that is over: return, deviation, episodes and length. */
void gpur_evaluator_fill_event(const gpur_evaluator *e, gpur_run_event *event);
