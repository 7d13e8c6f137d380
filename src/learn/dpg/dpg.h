/* SPDX-License-Identifier: MIT */
/* The handle of a learner of deterministic policy gradients, shared by the files that implement it. */
#pragma once

#include "gpureplay/dpg.h"
#include "learn/dpg/dpg_step.h"
#include "learn/stats.h"
#include "learn/train_step.h"
#include "replay/view.h"

enum { GPUR_DPG_PARTS = 3, GPUR_DPG_NETWORKS = 2 };

struct gpur_dpg {
    gpur_device *device;
    gpur_replay *replay;
    gpur_action_limit action_limit; /* in the replay's list */
    gpur_dpg_config config; /* as checked */
    gpur_network actor, critic;
    gpur_dpg_step dpg;
    gpur_train_step step;
    gpur_train_stats actor_stats, critic_stats;
    int opened;          /* parts that `open` was called for */
    gpur_stream *stream; /* the replay's consumer stream */
    void *memory;        /* device: all arrays */
    int64_t memory_bytes;
};

/* One of the two networks, with its optimizer. */
typedef struct gpur_dpg_network {
    const char *name; /* "actor" or "critic", the first part of its tensors' names */
    const gpur_network_config *config;
    const gpur_network *network;
    gpur_optimizer *optimizer;
} gpur_dpg_network;

/* As gpur_learner_check_state, gpur_learner_check_finite and gpur_learner_check_weights. */
gpur_status gpur_dpg_check_states(gpur_dpg *dpg, const gpur_train_state *actor, const gpur_train_state *critic);
gpur_status gpur_dpg_check_finite(gpur_dpg *dpg);
gpur_status gpur_dpg_check_weights(gpur_dpg *dpg);

/* `which`: 0: the actor, 1: the critic. */
gpur_dpg_network gpur_dpg_network_of(gpur_dpg *dpg, int which);
