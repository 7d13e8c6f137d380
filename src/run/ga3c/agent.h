/* SPDX-License-Identifier: MIT */
/* Agents: each steps an environment and fills rollouts. */
#pragma once

#include "run/ga3c/handle.h"

/* The thread; its context is a gpur_agent_slot. */
void *gpur_ga3c_agent(void *context);
