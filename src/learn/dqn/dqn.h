/* SPDX-License-Identifier: MIT */
/* A DQN learner: its settings, and its parts. */
#pragma once

#include "learn/dqn/fused_step.h"
#include "learn/dqn/host_batches.h"
#include "learn/learner.h"
#include "learn/returns/return_cache.h"

typedef struct gpur_dqn {
    gpur_learner learner;
    gpur_dqn_config config; /* as checked */
    gpur_network network;
    gpur_return_cache returns;
    gpur_train_step step;
    gpur_fused_step fused;
    gpur_host_batches host_batches;
} gpur_dqn;

extern const gpur_algorithm gpur_algorithm_dqn;

/* Returns the struct of a learner that is known to be a DQN. */
static inline gpur_dqn *gpur_dqn_of(const gpur_learner *learner)
{
    return (gpur_dqn *)(uintptr_t)learner;
}

/* Refuses settings out of range, except those of the network and of the train step. */
gpur_status gpur_dqn_config_check(const gpur_dqn_config *config);
