/* SPDX-License-Identifier: MIT */
/*
 * The order of a run's work, as a pure function of its shape and of the global step [Daley & Amato 2021, algorithm 1;
 * without concurrent training the order is that of the authors' code: the lanes stop for each train step; with `burst`
 * it is algorithm 1 of Daley & Amato 2021b, Virtual Replay Cache]. A run executes it; a benchmark adds up what it
 * should cost.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

typedef struct gpur_run_shape {
    int64_t target_period; /* C */
    int64_t train_period;  /* F */
    int64_t eval_period;   /* 0: no evaluations */
    int32_t lanes;         /* W */
    int32_t concurrent, synchronized;
    int32_t burst;          /* 1: the train steps of a period are done at its beginning, before its first step */
    int32_t has_cache;      /* 1: the learner has a cache of returns, and no target network */
    int32_t acts_by_target; /* 1: lanes act by the target network; 0: by the latest, which with `concurrent` are those
                               of the period's beginning */
} gpur_run_shape;

typedef enum gpur_run_task {
    GPUR_RUN_JOIN_TRAINER, /* wait until the train steps that were begun are done */
    GPUR_RUN_JOIN_LANES,   /* wait until the steps that were dispatched are taken */
    GPUR_RUN_PUBLISH,      /* the lanes' logs to the replay, lane by lane */
    GPUR_RUN_COPY,         /* the weights for acting: those of the target network, just copied, or the latest */
    GPUR_RUN_EVALUATE,     /* begin an evaluation by the network that is trained */
    GPUR_RUN_REFRESH,      /* the next train steps begin with a refresh of the learner's cache */
    GPUR_RUN_TRAIN,        /* begin `count` train steps in the trainer's thread */
    GPUR_RUN_INFER,        /* the Q values of all lanes' observations, in one inference */
    GPUR_RUN_DISPATCH,     /* lane `count` may take this global step */
} gpur_run_task;

typedef struct gpur_run_op {
    gpur_run_task task;
    int64_t count;
} gpur_run_op;

enum { GPUR_RUN_MAX_OPS = 12 };

/* Refuses a shape that has no such order. */
gpur_status gpur_run_shape_check(const gpur_run_shape *shape);

/* Writes what is done at global step t = 1, 2, ..., in order, and returns how many. The last one is the dispatch. */
int32_t gpur_run_ops(const gpur_run_shape *shape, int64_t t, gpur_run_op ops[GPUR_RUN_MAX_OPS]);

static inline int32_t gpur_run_lane_of(const gpur_run_shape *shape, int64_t t)
{
    return (int32_t)((t - 1) % shape->lanes);
}

const char *gpur_run_task_name(gpur_run_task task);
