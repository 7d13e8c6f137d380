/* SPDX-License-Identifier: MIT */
/* Actions that are vectors: those of a network are -1 to 1, those of an environment within its bounds. */
#pragma once

#include "base/status.h"
#include "gpureplay/env.h"
#include "gpureplay/network.h"

/* How many numbers an array of a space has. */
int64_t gpur_space_numbers(const gpur_space *space);

/* The numbers of an action vector of a network, by its head; 0: its actions are discrete. */
int32_t gpur_action_numbers(const gpur_network_config *network);

/* Refuses actions of an environment that are not those of a network. Vectors need float32 and finite bounds. */
gpur_status gpur_action_check(const gpur_space *actions, const gpur_network_config *network);

/* Scales a vector of `count` numbers from -1 to 1 to the bounds of a space. */
void gpur_action_scale(const gpur_space *actions, int32_t count, const float *action, float *scaled);
