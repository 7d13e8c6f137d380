/* SPDX-License-Identifier: MIT */
/* Two learners alike, each over a replay of its own with the same rows: one steps by libraries, one in one kernel. */
#ifndef GPUR_SUPPORT_STEPS_PAIR_H
#define GPUR_SUPPORT_STEPS_PAIR_H

#include "gpureplay.h"
#include "learn/learner.h"

enum { PAIR_ROWS = 400, PAIR_MOST_BATCH = 320, PAIR_UNIFORM = -1 };

typedef struct steps_side {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner;
} steps_side;

typedef struct steps_pair {
    gpur_device *device;
    int64_t batch;
    steps_side libraries, one;
} steps_pair;

/* A learner over a packed replay of random rows, of which some have actions that there are not; `norm` is the replay's
 * weight_norm, or PAIR_UNIFORM for one without priorities. Close it in any case. */
gpur_status side_open(steps_side *side, gpur_device *device, const gpur_learner_config *config, int features,
                      int32_t norm);
void side_close(steps_side *side);

gpur_status pair_open(steps_pair *pair, gpur_device *device, const gpur_learner_config *config, int features,
                      int32_t norm);
void pair_close(steps_pair *pair);

/* What tests of the two ways compare. */
typedef struct steps_gap {
    int64_t steps;        /* done by both */
    int64_t other_rows;   /* steps for which they drew other rows */
    double loss;          /* largest |difference| of a loss, relative to the larger */
    double weights;       /* largest |difference| of a weight in the end */
    double gradient_norm; /* as loss */
    int stats_differ;     /* 1: counts, copies or rates of the stats are not equal */
} steps_gap;

/* Trains both for `steps` steps, one at a time. */
gpur_status pair_train(steps_pair *pair, int64_t steps, steps_gap *gap);

/* All online weights of a learner, (network.params.count) as they lie on the device; the caller frees them. */
float *side_weights(steps_side *side);

#endif
