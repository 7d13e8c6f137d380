/* SPDX-License-Identifier: MIT */
/*
 * The order of a run's work, as a pure function of its shape and of the global step [Daley & Amato 2021, algorithm 1;
 * without concurrent training the order is that of the authors' code: the environments stop for each train step; with
 * `burst` it is algorithm 1 of Daley & Amato 2021b, Virtual Replay Cache]. A run executes it.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

typedef struct gpur_sequence_shape {
    int64_t target_period; /* C */
    int64_t train_period;  /* F */
    int64_t train_steps;   /* for each F steps; 1 or more */
    int64_t eval_period;   /* 0: no evaluations */
    int32_t envs;          /* W */
    int32_t concurrent, synchronized;
    int32_t burst;          /* 1: the train steps of a period are done at its beginning, before its first step */
    int32_t has_cache;      /* 1: the learner has a cache of returns, and no target network */
    int32_t acts_by_target; /* 1: environments act by the target network; 0: by the latest, which with `concurrent`
                               are those of the period's beginning */
} gpur_sequence_shape;

typedef enum gpur_sequence_task {
    GPUR_TASK_JOIN_TRAINER, /* wait until the train steps that were begun are done */
    GPUR_TASK_JOIN_ENVS,    /* wait until the steps that were dispatched are taken */
    GPUR_TASK_FLUSH,        /* the logs to the replay, one environment after another */
    GPUR_TASK_COPY,         /* the weights for acting: those of the target network, just copied, or the latest */
    GPUR_TASK_EVALUATE,     /* begin an evaluation by the network that is trained */
    GPUR_TASK_REFRESH,      /* the next train steps begin with a refresh of the learner's cache */
    GPUR_TASK_TRAIN,        /* begin `count` train steps in the trainer's thread */
    GPUR_TASK_INFER,        /* the Q values of all environments' observations, in one inference */
    GPUR_TASK_DISPATCH,     /* environment `count` may take this global step */
} gpur_sequence_task;

typedef struct gpur_sequence_op {
    gpur_sequence_task task;
    int64_t count;
} gpur_sequence_op;

enum { GPUR_SEQUENCE_MAX_OPS = 12, GPUR_SEQUENCE_MAX_TRAIN = 65536 };

/* Refuses a shape that has no such order. */
gpur_status gpur_sequence_check(const gpur_sequence_shape *shape);

/* Writes what is done at global step t = 1, 2, ..., in order, and returns how many. The last one is the dispatch. */
int32_t gpur_sequence_ops(const gpur_sequence_shape *shape, int64_t t, gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS]);

static inline int32_t gpur_sequence_env_of(const gpur_sequence_shape *shape, int64_t t)
{
    return (int32_t)((t - 1) % shape->envs);
}
