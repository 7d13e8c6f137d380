/* SPDX-License-Identifier: MIT */
/* What a run of Ape-X trains: a learner of DQN or one of DPG, behind one set of functions. */
#pragma once

#include "run/apex/policies.h"
#include "learn/learner.h"

typedef struct gpur_apex_learner {
    gpur_learner *learner;
    gpur_device *device;
    gpur_replay *replay;
    gpur_stream *stream;
    int64_t batch_size, target_period;
    gpur_apex_networks networks;
} gpur_apex_learner;

/* Of a learner that trains on a replay. */
gpur_apex_learner gpur_apex_learner_of(gpur_learner *learner);

/* Opens policies on its device, to which gpur_apex_learner_give_weights copies its weights. `has_critic`: as for
 * gpur_actor_policies_open. */
gpur_status gpur_apex_learner_open_policies(const gpur_apex_learner *learner, int has_critic,
                                            gpur_actor_policies *policies);
/* Refuses one that has diverged, so that actors get finite weights alone. */
gpur_status gpur_apex_learner_check(const gpur_apex_learner *learner);
gpur_status gpur_apex_learner_give_weights(const gpur_apex_learner *learner, const gpur_actor_policies *policies);

/* Train steps, and waits for them. */
gpur_status gpur_apex_learner_train(const gpur_apex_learner *learner, int64_t steps);

int64_t gpur_apex_learner_steps(const gpur_apex_learner *learner); /* enqueued ever */
gpur_status gpur_apex_learner_save(const gpur_apex_learner *learner, const char *path);
gpur_status gpur_apex_learner_load(const gpur_apex_learner *learner, const char *path);
