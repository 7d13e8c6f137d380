/* SPDX-License-Identifier: MIT */
/* A train step of deterministic policy gradients again, naive, in double [Lillicrap et al. 2016, algorithm 1; Horgan et
 * al. 2018, section 3.2]. */
#pragma once

#include "reference/reference_learn.h"

/* The target of each network is its own. */
typedef struct ref_dpg {
    ref_net *actor, *critic;
    double clip;    /* of each component of dQ / da; 0: none */
    double penalty; /* of the actor's preactivations */
} ref_dpg;

/* A transition as the replay under test stores it. */
typedef struct ref_dpg_row {
    const float *obs, *action, *next_obs;
    double reward, discount, weight;
    double error; /* filled in: Q(s, a) minus its target */
} ref_dpg_row;

/* Mean of w (Q(s, a) - y)^2 / 2, and the mean of Q(s, a) in *mean_q. Leaves its gradient in the critic's g. */
double ref_dpg_critic_loss(ref_dpg *dpg, ref_dpg_row *rows, int batch, double *mean_q);

/* Mean of -Q(s, mu(s)). Leaves its gradient in the actor's g, through clipped dQ / da, and that of the penalty.
 * `slopes`, (batch, A), gets dQ / da before clipping; NULL: not wanted. */
double ref_dpg_actor_loss(ref_dpg *dpg, const ref_dpg_row *rows, int batch, double *slopes);

/* Q(s, a) by the critic, or its target; `tape` gets the rest. */
double ref_dpg_q(ref_dpg *dpg, int target, const float *obs, const double *action, ref_tape *tape);
