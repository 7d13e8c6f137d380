/* SPDX-License-Identifier: MIT */
/*
 * A learner of soft actor-critic [Haarnoja et al. 2018b]. The critics are the network of the train step (train_step.h).
 * The actor and the temperature are trained in the same step. The temperature is a network of a single number, log
 * alpha, so that its optimizer, its files and its statistics are those of any network.
 *
 * The critics' input is obs and action side by side, as in DPG (dpg/dpg.h), and next_obs follow obs in one array. So
 * one pass of the actor gives the distributions of all obs and next_obs. The actions drawn for next_obs go behind them
 * before the targets' pass, and those for obs over the batch's actions, once the critics are trained.
 */
#pragma once

#include "gpureplay/sac.h"
#include "learn/learner.h"

typedef struct gpur_sac {
    gpur_learner learner;
    gpur_sac_config config; /* as checked */
    gpur_network actor, critic, temperature;
    gpur_train_step step;
    gpur_optimizer actor_optimizer, temperature_optimizer;
    gpur_pass actor_pass; /* over obs and then next_obs */
    gpur_backward actor_backward;
    gpur_backward action_backward;   /* from the least critic's value to its actions */
    float *noise;                    /* (2 B, A) of the actions drawn for obs and then next_obs */
    float *log_prob;                 /* (2 B) of these actions */
    float *next_entropy;             /* (B) alpha log pi(a'|s') */
    float *policy_loss, *entropy;    /* (B) of the actions drawn for obs: alpha log pi - min_i Q_i, and -log pi */
    float *temperature_loss, *alpha; /* (1) */
} gpur_sac;

enum { GPUR_SAC_TEMPERATURE = 2 }; /* of the learner's networks, beside those of action_networks.h */

extern const gpur_algorithm gpur_algorithm_sac;
extern const gpur_step_actor gpur_sac_step_actor; /* its state is the gpur_sac */

/* Returns the struct of a learner that is known to be one of SAC. */
static inline gpur_sac *gpur_sac_of(const gpur_learner *learner)
{
    return (gpur_sac *)(uintptr_t)learner;
}
