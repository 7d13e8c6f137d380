/* SPDX-License-Identifier: MIT */
/*
 * The train step of DQN [Mnih et al. 2015] and of double DQN [van Hasselt et al. 2016]: the online network sees obs
 * and, for double DQN, next_obs; the target network sees next_obs. The loss is that of the TD error of the action taken
 * (kernels/learn/td_error.h). With given returns the online network sees obs, and there is no target network.
 */
#pragma once

#include "learn/train_step.h"

typedef struct gpur_dqn_step {
    const gpur_dqn_config *config; /* checked; set by the owner before the step is opened */
    gpur_pass online, target;
    gpur_backward backward; /* through the online network, over the rows of obs */
    gpur_td_error_args td;
} gpur_dqn_step;

static inline gpur_dqn_step *gpur_dqn_step_of(const gpur_train_step *step)
{
    return step->state;
}

extern const gpur_step_algorithm gpur_dqn_step_algorithm;
