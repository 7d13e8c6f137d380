/* SPDX-License-Identifier: MIT */
#include "replay/fold.h"

int32_t gpur_fold_due(int32_t pending, int32_t n_step, int ends)
{
    if (ends)
        return pending;
    return pending >= n_step ? pending - n_step + 1 : 0;
}

/* In double, rounded once. */
gpur_fold gpur_fold_rewards(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma)
{
    double reward = (double)rewards[first % room], discount = (double)gamma;
    for (int32_t i = 1; i < steps; i++) {
        reward += discount * (double)rewards[(first + i) % room];
        discount *= (double)gamma;
    }
    const gpur_fold fold = {(float)reward, (float)discount};
    return fold;
}
