/* SPDX-License-Identifier: MIT */
/* What a run should take: its order of work (src/run/fast_dqn/sequence.h), on a clock that is only counted. */
#pragma once

#include "bench/run/threads.h"
#include "run/fast_dqn/sequence.h"

/* Seconds of each part. `env` gives those of a lane's step, so that they may differ. */
typedef struct predict_times {
    double (*env)(void *context, int32_t lane, int64_t step);
    void *context;
    double infer_one, infer_all; /* one observation; all lanes' at once */
    double train;                /* a train step */
    double publish, copy;        /* an environment step's share; a copy of the weights */
    threads_wake wake;           /* of a thread that waits for work */
    double explored;             /* share of the steps that need no inference of their own: epsilon */
    int cores;                   /* that computing parts share; 0: all parts sleep, and inference and training take
                                    turns at one device */
    int env_sleeps;              /* 1: environments sleep, whatever the others do */
    double env_late;             /* how much longer than it asked for such an environment sleeps */

    /* How many times as long a part takes while `beside` other threads compute, too, on cores of their own; with fewer
     * of them the rest is less in proportion. beside = 0: as long as alone. */
    int beside;
    double infer_slower, train_slower, env_slower;
} predict_times;

/* Seconds for `steps` steps, with a thread for each lane. */
double predict_seconds(const gpur_sequence_shape *shape, const predict_times *times, int64_t steps);
