/* SPDX-License-Identifier: MIT */
/*
 * What learners of continuous actions on a replay share, those of DPG and SAC: an actor that reads obs, and one or two
 * critics that read obs and then the action, side by side. The critics are the network of the train step
 * (train_step.h).
 */
#pragma once

#include "learn/learner.h"

/* The two networks, and what the algorithm and its settings say of them. */
typedef struct gpur_action_networks {
    const char *needs; /* the algorithm in messages: "soft actor-critic needs" */
    gpur_network *actor, *critic;
    gpur_network_config *actor_config, *critic_config;
    gpur_optimizer *actor_optimizer;
    const char *actor_value; /* names the mean of the actor's values in messages: "mean entropy" */
    int32_t head;            /* the actor's */
    int32_t critics;         /* the setting */
} gpur_action_networks;

enum { GPUR_ACTOR_NETWORK = 0, GPUR_CRITIC_NETWORK = 1 }; /* of the learner's networks */

/* Finds the fields, builds both networks and lists them with the learner, completes and checks context->step_config,
 * and sets context->network. context->step is set before the call. */
gpur_status gpur_action_networks_build(const gpur_action_networks *n, gpur_learner *learner,
                                       gpur_part_context *context);

/* Lists the numbers of a learner's file that are of these two networks. `actor_value`: the name of the actor's mean_q.
 * Returns how many there are. */
int32_t gpur_action_networks_list_scalars(gpur_learner_state *state, const char *actor_value, gpur_scalar *list);
