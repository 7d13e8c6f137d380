/* SPDX-License-Identifier: MIT */
/*
 * n-step returns of one environment [Sutton & Barto 2018, eq. 7.1; the tails of an ended episode as in Horgan et al.
 * 2018, section 3]: which transitions a step completes, and what their rewards come to. Numbers in, numbers out.
 */
#ifndef GPUR_REPLAY_FOLD_H
#define GPUR_REPLAY_FOLD_H

#include <stdint.h>

/* Of the steps that no transition begins with yet, the last one included: how many begin one now, oldest first. Each
 * reaches from its step to the last one. */
static inline int32_t gpur_fold_due(int32_t pending, int32_t n_step, int ends)
{
    if (ends)
        return pending;
    return pending >= n_step ? pending - n_step + 1 : 0;
}

typedef struct gpur_fold {
    float reward;   /* r(0) + gamma r(1) + ... + gamma^(m-1) r(m-1) */
    float discount; /* gamma^m, before anybody asks whether the task ended */
} gpur_fold;

/* Folds `steps` rewards, which lie in a ring from place `first` on; `room` is a power of two. One reward stays as it
 * is, bit by bit. */
gpur_fold gpur_fold_rewards(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma);

#endif
