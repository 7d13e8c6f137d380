/* SPDX-License-Identifier: MIT */
/* Learners whose numbers are no longer finite: they have diverged, and nothing but a saved state brings them back. */
#pragma once

#include "base/status.h"
#include "gpureplay/optimizer.h"

#include <stdint.h>

/* What is known of a learner that has diverged, and the settings that most often are why. */
typedef struct gpur_divergence {
    int64_t step;         /* the first train step after which numbers were not finite, as far as known */
    double loss;          /* of the last step before with a finite loss; NaN: not known */
    double learning_rate; /* of that step */
    const gpur_optimizer_config *optimizer;
    const float *reward_clip; /* NULL: not known */
    const char *network;      /* "": there is one; else whose optimizer it is: "critic: " */
    const char *what;         /* the number that was not finite: "loss", "mean Q"; "weights": some of them */
    double value;             /* of that number; not read of weights */
} gpur_divergence;

/* Fails with GPUR_INVALID_ARGUMENT, in the same words whichever learner it is. */
gpur_status gpur_diverged(const gpur_divergence *divergence);
