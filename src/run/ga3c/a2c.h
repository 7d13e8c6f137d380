/* SPDX-License-Identifier: MIT */
/* The scheduler of A2C, which answers all agents together. */
#pragma once

#include "run/ga3c/handle.h"

/* The thread; its context is a gpur_ga3c_thread. */
void *gpur_ga3c_scheduler(void *context);

/* From an agent's thread: waits for the scheduler's reply; hands over a complete rollout. */
void gpur_a2c_ask(gpur_agent_slot *slot, int32_t asks);
void gpur_a2c_hand_over(gpur_agent_slot *slot, gpur_rollout *rollout);

/* 1 if all agents wait for steps, and there is nothing to train on. Under the lock. */
int gpur_a2c_is_parked(const gpur_ga3c *run);
