/* SPDX-License-Identifier: MIT */
/*
 * How an actor chooses actions. The Q values that initial priorities need are computed with the choice.
 *
 *   DQN  epsilon-greedily by Q(s, .), which is also what the priorities need
 *   DPG  the vector mu(s) + N(0, sigma^2), within -1 to 1, which the replay gets; the environment gets it scaled
 *        to its bounds. The critics compute Q_i(s, mu(s)) and Q_i(s, a) [Horgan et al. 2018, section 3.2, appendix D]
 *   SAC  the vector drawn from the policy. The critics compute Q_i(s, a)
 *
 * The value of s is that of the policy's action by the critic that values it less; SAC subtracts alpha log pi(a|s). So
 * it is in the learners' targets.
 */
#pragma once

#include "run/apex/policies.h"
#include "gpureplay/env.h"
#include "learn/config.h"
#include "run/env_runner.h"

typedef struct gpur_action_selector {
    gpur_actor_policies policies;
    int32_t num_actions, action_is_int64;
    int32_t features; /* DPG and SAC: numbers of an observation; 0: DQN */
    int32_t draws;    /* 1: SAC */

    /* The last choice. */
    const void *action;     /* as the replay has it */
    const void *env_action; /* as the environment takes it */
    float *q;               /* as gpur_packer_step takes it, if there are priorities */
    float *final_q;         /* of gpur_action_selector_value */
    int64_t version;        /* of the weights */

    int32_t number; /* DQN: the action */
    int64_t wide;
    float *vectors;   /* (2, num_actions) of DPG mu(s), and the action; of SAC the action twice */
    float *values;    /* (2, critics) of the vectors */
    float log_prob;   /* SAC: log pi(a|s) */
    float *scaled;    /* (num_actions) the action within the environment's bounds */
    gpur_space space; /* of the environment's actions */
    float *pair;      /* (2, features) the observation twice */
    float *inputs;    /* (2, features + num_actions) the critic's */
    float *memory;    /* all of these arrays */
} gpur_action_selector;

/* The exploration of a choice. Its random numbers follow from the seed of the policy's settings, `lane` and `step`. */
typedef struct gpur_action_noise {
    uint32_t lane;
    uint64_t step;
    float noise; /* epsilon, or of vectors sigma */
} gpur_action_noise;

/* `fields`: of the schema. `actions`: of an environment that exists as long. `has_priorities` 0: with vectors there are
 * no q and final_q. After a failure call gpur_action_selector_close, which accepts a zeroed one. */
gpur_status gpur_action_selector_open(gpur_action_selector *selector, gpur_device *device, const gpur_schema *schema,
                                      const gpur_learn_fields *fields, const gpur_apex_networks *networks,
                                      const gpur_space *actions, int has_priorities, uint64_t seed);
void gpur_action_selector_close(gpur_action_selector *selector);

/* Chooses an action for an observation. */
gpur_status gpur_action_selector_select(gpur_action_selector *selector, const void *obs,
                                        const gpur_action_noise *choice);

/* The Q values of the last observation of an episode that is cut off: its transitions bootstrap from them. With SAC
 * they are those of an action that is drawn by the random numbers of `choice`. */
gpur_status gpur_action_selector_value(gpur_action_selector *selector, const void *obs,
                                       const gpur_action_noise *choice);
