/* SPDX-License-Identifier: MIT */
/* A train step of deterministic policy gradients again, naive, in double [Lillicrap et al. 2016, algorithm 1; Horgan et
 * al. 2018, section 3.2], and with a second critic and noise on the target's actions [Fujimoto et al. 2018, algorithm
 * 1]. */
#pragma once

#include "reference/reference_learn.h"

/* The target of each network is its own. */
typedef struct ref_dpg {
    ref_net *actor, *critic, *second; /* second NULL: there is one critic */
    double clip;                      /* of each component of dQ / da; 0: none */
    double penalty;                   /* of the actor's preactivations */
} ref_dpg;

/* A transition as the replay under test stores it. */
typedef struct ref_dpg_row {
    const float *obs, *action, *next_obs;
    double reward, discount, weight;
    double error;        /* filled in: the mean over the critics of |Q(s, a) - its target| */
    const double *noise; /* (A) clipped, on the target's action; NULL: none */
} ref_dpg_row;

/* The tensor with a name as learners have it: "actor.trunk.0.weight", "critic.q.out.bias", "critic.2.q.out.bias". NULL:
 * no such name. */
ref_tensor *ref_dpg_find(ref_dpg *dpg, const char *name);

/* Mean of the sum over the critics of w (Q(s, a) - y)^2 / 2, and the mean of Q(s, a) in *mean_q. Leaves its gradient in
 * the critics' g. */
double ref_dpg_critic_loss(ref_dpg *dpg, ref_dpg_row *rows, int batch, double *mean_q);

/* Mean of -Q(s, mu(s)). Leaves its gradient in the actor's g, through clipped dQ / da, and that of the penalty.
 * `slopes`, (batch, A), gets dQ / da before clipping; NULL: not wanted. */
double ref_dpg_actor_loss(ref_dpg *dpg, const ref_dpg_row *rows, int batch, double *slopes);

/* Step t = 1, 2, ... of the critics, which are clipped as one. The norm of the gradient as it came. */
double ref_dpg_update_critics(ref_dpg *dpg, const gpur_dqn_config *config, int64_t t);

/* The noise on component k of the target's action in row `row` of the batch of step t = 1, 2, ...: sigma times a normal
 * number of Philox4x32-10 [Box & Muller 1958], clipped (clip 0: not). */
double ref_dpg_noise(uint64_t seed, int64_t t, uint32_t row, int k, double sigma, double clip);

/* Q(s, a) by the (first) critic, or its target; `tape` gets the rest. */
double ref_dpg_q(ref_dpg *dpg, int target, const float *obs, const double *action, ref_tape *tape);
