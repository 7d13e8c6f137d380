/* SPDX-License-Identifier: MIT */
/* What the files of the public learner share. */
#ifndef GPUR_LEARN_LEARNER_H
#define GPUR_LEARN_LEARNER_H

#include "learn/actor.h"
#include "learn/fused/fused_step.h"
#include "learn/stats.h"
#include "learn/host_batches.h"
#include "learn/train_step.h"

struct gpur_learner {
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner_config config;
    gpur_network network;
    gpur_step step;
    gpur_one_kernel one;
    gpur_actor actor;
    gpur_progress progress;
    gpur_recording *train, *train_on; /* train is NULL where `one` does it */
    gpur_stream *stream; /* the replay's consumer stream */
    void *memory;        /* device: all arrays of step and actor */
    int64_t memory_bytes;
    int64_t *host_ids; /* (batch_size) pinned, on their way to the device */
    gpur_event *ids_copied;
    gpur_rows rows; /* in RAM */
};

/* Within the consumer's turn: `steps` repetitions of a recording, or, where that is NULL, by the one kernel; and what
 * stands at the end of every launch. */
gpur_status gpur_learner_enqueue(gpur_learner *learner, gpur_stream *stream, gpur_recording *recording, int64_t steps);

/* Ends the turn however the launch went, and tells the first failure. */
gpur_status gpur_learner_end_turn(gpur_learner *learner, gpur_status status);

/* The weights that acting follows: the target's or the online network's. */
static inline const float *gpur_learner_acting_weights(const gpur_learner *learner)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    return learner->config.act == GPUR_ACT_TARGET ? optimizer->target : optimizer->weights;
}

#endif
