/* SPDX-License-Identifier: MIT */
/* The policies that actors, and the learner for them, have of the networks of a run. */
#pragma once

#include "gpureplay/apex.h"
#include "gpureplay/policy.h"
#include "replay/schema.h"

/* The acting one chooses actions. With DPG the critic computes Q(s, a), from obs and action side by side, for initial
 * priorities. */
typedef struct gpur_actor_policies {
    gpur_policy *acting;
    gpur_policy *critic; /* NULL: there is none */
} gpur_actor_policies;

/* Opens them on a device, for the observations of a schema. `settings`: all but network and obs. `has_critic` 0: the
 * critic is not wanted. After a failure call gpur_actor_policies_close, which accepts zeroed ones. */
gpur_status gpur_actor_policies_open(gpur_actor_policies *policies, gpur_device *device, const gpur_schema *schema,
                                     const gpur_apex_networks *networks, int has_critic,
                                     const gpur_policy_config *settings);
void gpur_actor_policies_close(gpur_actor_policies *policies);

/* Copies a learner's weights to them, which are on its device. */
gpur_status gpur_actor_policies_pull(const gpur_actor_policies *policies, gpur_learner *learner);

/* The weights of both, those of `acting` first, as bytes. */
int64_t gpur_actor_policies_bytes(const gpur_actor_policies *policies);
gpur_status gpur_actor_policies_get_weights(const gpur_actor_policies *policies, unsigned char *weights);
gpur_status gpur_actor_policies_set_weights(const gpur_actor_policies *policies, const unsigned char *weights);
