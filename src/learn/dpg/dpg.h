/* SPDX-License-Identifier: MIT */
/*
 * A learner of deterministic policy gradients [Lillicrap et al. 2016, algorithm 1]. The critic is the network of the
 * train step (train_step.h), and its loss is that of a DQN with one action. The actor is trained in the same step.
 *
 * The critic's input is obs and action side by side. So the batch's rows of obs have the actions behind their numbers,
 * and the actor, whose input is obs alone, reads the same rows. Both networks compute in place: the target actor writes
 * mu'(s') behind next_obs, and, once the critic is trained, the actor writes mu(s) over the actions.
 *
 * TD3 [Fujimoto et al. 2018, algorithm 1] is the same with other settings: two critics, which are two copies of a
 * network side by side (network.h), noise on the target actor's actions, and an actor that is trained in every
 * policy_delay-th step, by the first critic alone.
 */
#pragma once

#include "gpureplay/dpg.h"
#include "learn/learner.h"

typedef struct gpur_dpg {
    gpur_learner learner;
    gpur_dpg_config config; /* as checked */
    gpur_network actor, critic;
    gpur_train_step step;
    gpur_optimizer actor_optimizer;
    gpur_pass actor_pass, actor_target_pass;
    gpur_backward actor_backward;
    gpur_network first;            /* of two critics the first one alone, */
    gpur_pass first_pass;          /* and its pass */
    gpur_backward action_backward; /* from the value of the (first) critic to its actions */
    float *q;                      /* (B) Q(s, mu(s)) */
} gpur_dpg;

extern const gpur_algorithm gpur_algorithm_dpg;
extern const gpur_step_actor gpur_dpg_step_actor; /* its state is the gpur_dpg */

/* Returns the struct of a learner that is known to be one of DPG. */
static inline gpur_dpg *gpur_dpg_of(const gpur_learner *learner)
{
    return (gpur_dpg *)(uintptr_t)learner;
}
