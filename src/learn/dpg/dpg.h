/* SPDX-License-Identifier: MIT */
/* A learner of deterministic policy gradients: its settings, and its parts. */
#pragma once

#include "gpureplay/dpg.h"
#include "learn/dpg/dpg_step.h"
#include "learn/learner.h"

typedef struct gpur_dpg {
    gpur_learner learner;
    gpur_dpg_config config; /* as checked */
    gpur_network actor, critic;
    gpur_dpg_step dpg_step;
    gpur_train_step step;
} gpur_dpg;

enum { GPUR_DPG_ACTOR = 0, GPUR_DPG_CRITIC = 1 }; /* of the learner's networks */

extern const gpur_algorithm gpur_algorithm_dpg;

/* Returns the struct of a learner that is known to be one of DPG. */
static inline gpur_dpg *gpur_dpg_of(const gpur_learner *learner)
{
    return (gpur_dpg *)(uintptr_t)learner;
}
