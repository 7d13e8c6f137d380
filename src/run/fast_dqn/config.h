/* SPDX-License-Identifier: MIT */
/* The settings of a run of fast DQN. */
#pragma once

#include "run/fast_dqn/handle.h"

/* Reads and checks the settings, for a run whose core and learner are set. */
gpur_status gpur_fast_dqn_configure(gpur_fast_dqn *run, const gpur_fast_dqn_config *given);
