/* SPDX-License-Identifier: MIT */
/* A train step of soft actor-critic again, naive, in double [Haarnoja et al. 2018b]. Shares no code with kernels/ or
 * src/. */
#pragma once

#include "reference/reference_learn.h"

enum { REF_SAC_ACTIONS = 8 };

typedef struct ref_sac {
    ref_net *actor, *critic[2]; /* (critics) */
    int critics;
    double log_alpha;
    double target_entropy; /* H, of the whole action */
} ref_sac;

/* A transition as the replay under test stores it, and the normal numbers (A) of the actions drawn for it. */
typedef struct ref_sac_row {
    const float *obs, *action, *next_obs;
    double reward, discount, weight;
    double noise[REF_SAC_ACTIONS], next_noise[REF_SAC_ACTIONS];
    double error; /* filled in: the mean over the critics of |Q_i(s, a) - y|, of distributions of their losses */
} ref_sac_row;

/* Normal number i of the draw of step t = 1, 2, ...: number i % 4 of Philox4x32-10 in lane i / 4 [Box & Muller
 * 1958]. */
double ref_sac_noise(uint64_t seed, int64_t t, int64_t i);

/* Mean of the sum over the critics of w (Q_i(s, a) - y)^2 / 2, or of w times the loss of distributions, and the mean of
 * Q_i(s, a) in *mean_q. Leaves its gradient in the critics' g. */
double ref_sac_critic_loss(ref_sac *sac, ref_sac_row *rows, int batch, double *mean_q);

/* Mean of alpha log pi(a|s) - min_i Q_i(s, a) of drawn actions, and the mean of -log pi in *entropy. Leaves its
 * gradient in the actor's g, and spoils that of the critics. */
double ref_sac_actor_loss(ref_sac *sac, const ref_sac_row *rows, int batch, double *entropy);

/* The gradient of the temperature's loss by log alpha, from the policy's entropy. */
double ref_sac_temperature_gradient(const ref_sac *sac, double entropy);
