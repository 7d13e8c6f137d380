/* SPDX-License-Identifier: MIT */
/* The returns of a block in double, by their definition as a mixture of n-step returns [Sutton & Barto 2018, equation
 * 12.3], not by the recursion that the kernel uses. */
#pragma once

#include "gpureplay/returns.h"

typedef struct ref_step {
    double reward, discount; /* 0: the episode terminated */
    double value, taken;     /* v(s_{t+1}); Q(s_t, a_t) */
    int truncated, is_first, is_greedy;
} ref_step;

/* Returns of (config->block_length) successive steps, at most REF_BLOCK. */
enum { REF_BLOCK = 256 };
void ref_returns(const gpur_returns_config *config, const ref_step *steps, double *returns);
