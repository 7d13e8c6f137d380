/* SPDX-License-Identifier: MIT */
/* The learner handle, shared by the files that implement the public learner. */
#pragma once

#include "learn/acting/actor.h"
#include "learn/fused/fused_step.h"
#include "learn/stats.h"
#include "learn/host_batches.h"
#include "learn/returns/return_cache.h"
#include "learn/train_step.h"
#include "replay/view.h"

struct gpur_learner {
    gpur_device *device;
    gpur_replay *replay;
    gpur_action_limit action_limit; /* in the replay's list */
    gpur_dqn_config config;
    gpur_network network;
    gpur_return_cache returns;
    gpur_train_step step;
    gpur_fused_step fused;
    gpur_actor actor;
    gpur_train_stats train_stats;
    gpur_host_batches host_batches;
    int opened;          /* parts that `open` was called for */
    gpur_stream *stream; /* the replay's consumer stream */
    void *memory;        /* device: the arrays of all parts */
    int64_t memory_bytes;
};

/* Refuses a learner that has diverged, by its state; and by what of it has reached the host. */
gpur_status gpur_learner_check_state(gpur_learner *learner, const gpur_train_state *state);
gpur_status gpur_learner_check_finite(gpur_learner *learner);

/* Waits for all train steps, and refuses a learner that has diverged: by their losses, or by a weight. */
gpur_status gpur_learner_check_weights(gpur_learner *learner);

/* Lists the arrays of a learner's file. The last one is the older acting copy. */
gpur_saved_arrays gpur_learner_saved_arrays(const gpur_learner *learner);

/* The weights that acting uses: those of the target or of the online network. */
static inline const float *gpur_learner_acting_weights(const gpur_learner *learner)
{
    const gpur_optimizer *const optimizer = &learner->step.optimizer;
    return learner->config.act == GPUR_ACT_TARGET ? optimizer->target : optimizer->weights;
}
