/* SPDX-License-Identifier: MIT */
/* The folder of a saved run of fast DQN. */
#pragma once

#include "run/fast_dqn/handle.h"

/* As gpur_run_system wants them. */
gpur_status gpur_fast_dqn_save(gpur_run *core, const char *folder);
gpur_status gpur_fast_dqn_load(gpur_run *core, const char *folder, int32_t refill);
