/* SPDX-License-Identifier: MIT */
/* The policies that actors, and the learner for them, have of the networks of a run. */
#pragma once

#include "gpureplay/apex.h"
#include "gpureplay/policy.h"
#include "replay/schema.h"

/* The acting one chooses actions. With DPG and SAC the critics compute Q_i(s, a), from obs and action side by side, for
 * initial priorities. */
typedef struct gpur_actor_policies {
    gpur_policy *acting;
    gpur_policy *critic; /* all critics as one; NULL: there is none */
    int32_t critics;
    int32_t has_alpha; /* 1: alpha, SAC's weight of entropies, goes with the weights */
    float alpha;
} gpur_actor_policies;

/* Opens them on a device, for the observations of a schema. `settings`: all but network and obs. `has_critic` 0: the
 * critics are not wanted. After a failure call gpur_actor_policies_close, which accepts zeroed ones. */
gpur_status gpur_actor_policies_open(gpur_actor_policies *policies, gpur_device *device, const gpur_schema *schema,
                                     const gpur_apex_networks *networks, int has_critic,
                                     const gpur_policy_config *settings);
void gpur_actor_policies_close(gpur_actor_policies *policies);

/* Copies a learner's weights to them, which are on its device. Of SAC it waits for the learner's last launch. */
gpur_status gpur_actor_policies_pull(gpur_actor_policies *policies, gpur_learner *learner);

/* The weights of both, those of `acting` first, and then alpha, as bytes. */
int64_t gpur_actor_policies_bytes(const gpur_actor_policies *policies);
gpur_status gpur_actor_policies_get_weights(const gpur_actor_policies *policies, unsigned char *weights);
gpur_status gpur_actor_policies_set_weights(gpur_actor_policies *policies, const unsigned char *weights);

/* Write and read the file of the critics, which has alpha, too. */
gpur_status gpur_actor_policies_save_critic(const gpur_actor_policies *policies, const char *path);
gpur_status gpur_actor_policies_load_critic(gpur_actor_policies *policies, const char *path);
