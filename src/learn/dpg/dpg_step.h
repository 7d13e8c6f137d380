/* SPDX-License-Identifier: MIT */
/*
 * The train step of deterministic policy gradients [Lillicrap et al. 2016, algorithm 1]. The critic is the network of
 * the train step (train_step.h): its optimizer and loss are the step's, and the loss is that of a DQN with one action.
 *
 * The critic's input is obs and action side by side. So the batch's rows of obs have the actions behind their numbers,
 * and the actor, whose input is obs alone, reads the same rows. Both networks compute in place: the target actor writes
 * mu'(s') behind next_obs, and, once the critic is trained, the actor writes mu(s) over the actions.
 */
#pragma once

#include "gpureplay/dpg.h"
#include "learn/train_step.h"

typedef struct gpur_dpg_step {
    const gpur_dpg_config *config; /* checked; set by the owner before the step is opened, as is the next */
    const gpur_network *actor;     /* must not move */
    gpur_optimizer actor_optimizer;
    gpur_pass critic_pass, critic_target_pass, actor_pass, actor_target_pass;
    gpur_backward critic_backward, actor_backward;
    gpur_backward action_backward; /* from the critic's value to its input */
    gpur_td_error_args td;
    float *q; /* (B) Q(s, mu(s)) */
} gpur_dpg_step;

static inline gpur_dpg_step *gpur_dpg_step_of(const gpur_train_step *step)
{
    return step->state;
}

extern const gpur_step_algorithm gpur_dpg_step_algorithm;
