/* SPDX-License-Identifier: MIT */
#include "replay/fold.h"

/* In double, rounded once. */
gpur_fold gpur_fold_rewards(const float *rewards, int32_t room, int64_t first, int32_t steps, float gamma)
{
    double reward = (double)rewards[first & (room - 1)], discount = (double)gamma;
    for (int32_t i = 1; i < steps; i++) {
        reward += discount * (double)rewards[(first + i) & (room - 1)];
        discount *= (double)gamma;
    }
    const gpur_fold fold = {(float)reward, (float)discount};
    return fold;
}
