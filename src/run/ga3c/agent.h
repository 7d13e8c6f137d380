/* SPDX-License-Identifier: MIT */
/* Agents: each steps an environment and fills rollouts. */
#pragma once

#include "run/ga3c/handle.h"

/* The thread; its context is a gpur_agent_slot. */
void *gpur_ga3c_agent(void *context);

/* Opens an environment, and what the network sees of it. `runner` is zeroed before, and closed with
 * gpur_ga3c_close_runner whatever this returns. */
gpur_status gpur_ga3c_open_runner(const gpur_ga3c *run, uint64_t seed, gpur_env_runner *runner);
void gpur_ga3c_close_runner(gpur_env_runner *runner);
