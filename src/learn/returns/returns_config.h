/* SPDX-License-Identifier: MIT */
/* Checks the settings of a cache of returns, and those of its learner and its replay that it depends on. */
#pragma once

#include "gpureplay/dqn.h"

/* Does nothing without a cache. Sets the index source to GPUR_UNIFORM, which a cache does not use. */
gpur_status gpur_returns_config_check(gpur_dqn_config *config, gpur_replay *replay);
