/* SPDX-License-Identifier: MIT */
/* A thread that fills the learner's buffers ahead of the steps that train on them. */
#ifndef BENCH_RAM_AHEAD_H
#define BENCH_RAM_AHEAD_H

#include "gpureplay.h"

typedef struct ram_ahead ram_ahead;

/* Draws one batch into `batch`. On the thread of its own. */
typedef void (*ram_fill)(void *context, void *batch);

/* `buffers` of the learner, all that it has, are filled as soon as they are free. */
ram_ahead *ram_ahead_start(gpur_learner *learner, int buffers, ram_fill fill, void *context);
void ram_ahead_stop(ram_ahead *ahead); /* takes NULL */

/* One train step on the buffer filled first, which is waited for. */
void ram_ahead_train(ram_ahead *ahead);

#endif
