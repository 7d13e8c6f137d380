/* SPDX-License-Identifier: MIT */
/* The environments of a run of fast DQN: those of its slots, and those of evaluations. */
#pragma once

#include "run/fast_dqn/handle.h"

/* Makes all environments and opens their slots; the slots have been allocated. */
gpur_status gpur_fast_dqn_open_envs(gpur_fast_dqn *run);

/* Begins the first episode of every slot. */
gpur_status gpur_fast_dqn_begin_envs(gpur_fast_dqn *run);

/* After a load: makes environments that cannot be saved again, with the seeds that follow from the steps taken, and
 * begins an episode of every slot. */
gpur_status gpur_fast_dqn_remake_envs(gpur_fast_dqn *run);
