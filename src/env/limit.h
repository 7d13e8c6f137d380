/* SPDX-License-Identifier: MIT */
/* The most steps of a game, gpur_env_info.max_steps. */
#pragma once

#include "gpureplay/env.h"

/* Truncates a game of `steps` steps that has had its max_steps (0: any number), unless a life was lost just now: that
 * ends an episode already. Returns 1 if it did. */
static inline int gpur_env_limit(int64_t max_steps, int64_t steps, gpur_env_result *result)
{
    if (max_steps == 0 || steps < max_steps || result->terminated || result->truncated)
        return 0;
    result->truncated = 1;
    return 1;
}
