/* SPDX-License-Identifier: MIT */
/* Learners whose network is spoiled: they have diverged, and nothing but a saved state brings them back. */
#pragma once

#include "base/status.h"
#include "gpureplay/optimizer.h"

#include <stdint.h>

/* The numbers of a learner that has diverged, and the settings that are the most frequent cause. */
typedef struct gpur_divergence {
    int64_t step;         /* the train step that spoiled the network, as far as known */
    double loss;          /* of that step, as the next three */
    double mean_value;    /* the mean Q, or of an actor-critic the mean value */
    double gradient_norm; /* if these three are finite, a check of the weights found the divergence */
    double learning_rate;
    double loss_before; /* the last one before that was finite; NaN: not known */
    const gpur_optimizer_config *optimizer;
    const float *reward_clip; /* NULL: not known */
    const char *network;      /* "": there is one; else its name: "critic" */
    const char *value_name;   /* "mean Q", "mean value" */
} gpur_divergence;

/* Fails with GPUR_INVALID_ARGUMENT, in the same words whichever learner it is. */
gpur_status gpur_diverged(const gpur_divergence *divergence);
