/* SPDX-License-Identifier: MIT */
/*
 * The interface of an algorithm, which is a table of functions. It says which inputs it wants of each row, and trains
 * on a batch of them: forward passes, targets, loss, backward passes, optimizers. Sampling, gathering, converting
 * observations and writing new priorities back are the same for all (train_step.h).
 */
#pragma once

#include "base/arena.h"
#include "device/device.h"
#include "gpureplay/learner.h"

struct gpur_train_step;

typedef struct gpur_algorithm {
    int32_t wants; /* GPUR_WANTS_* of train_batch.h */

    /* Refuses settings that the algorithm cannot train with. NULL: its owner does. */
    gpur_status (*check)(const gpur_dqn_config *config);

    /* Creates the plans of its networks' passes. After a failure `close` is called. */
    gpur_status (*open)(struct gpur_train_step *step);
    void (*close)(struct gpur_train_step *step);
    void (*assign)(struct gpur_train_step *step, gpur_arena *arena);
    int64_t (*workspace)(const struct gpur_train_step *step); /* bytes that its passes share */

    /* Enqueues the training on the step's batch. Changes nothing if `drawable` (1), in device memory,
     * is 0. */
    gpur_status (*train)(const struct gpur_train_step *step, gpur_stream *stream, const int64_t *drawable);

    /* (B) in device memory: what `train` leaves for the rows' new priorities. */
    const float *(*errors)(const struct gpur_train_step *step);
} gpur_algorithm;

extern const gpur_algorithm gpur_algorithm_dqn;
extern const gpur_algorithm gpur_algorithm_returns; /* on given returns: of a learner with a cache */
extern const gpur_algorithm gpur_algorithm_dpg;     /* dpg/dpg_step.h */
