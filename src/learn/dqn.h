/* SPDX-License-Identifier: MIT */
/*
 * DQN [Mnih et al. 2015] and double DQN [van Hasselt et al. 2016]: the online network sees obs and, for double DQN,
 * next_obs; the target network sees next_obs. The loss is that of the TD error of the action taken
 * (kernels/learn/td_error.h).
 */
#ifndef GPUR_LEARN_DQN_H
#define GPUR_LEARN_DQN_H

#include "learn/network/pass.h"

typedef struct gpur_dqn {
    gpur_pass online, target;
    gpur_backward backward; /* through the online network, over the rows of obs */
    gpur_td_error_args td;
} gpur_dqn;

#endif
