/* SPDX-License-Identifier: MIT */
#include "run/action_vectors.h"

#include "run/env_runner.h"

#include <math.h>

static float low_of(const gpur_space *space, int32_t i)
{
    return space->lows ? space->lows[i] : space->low;
}

static float high_of(const gpur_space *space, int32_t i)
{
    return space->highs ? space->highs[i] : space->high;
}

int64_t gpur_space_numbers(const gpur_space *space)
{
    int64_t count = 1;
    for (int32_t i = 0; i < GPUR_MAX_DIMS && space->shape[i] > 0; i++)
        count *= space->shape[i];
    return count;
}

static gpur_status check_vectors(const gpur_space *actions, int32_t num_actions)
{
    GPUR_REQUIRE(actions->num_actions == 0 && actions->dtype == GPUR_FLOAT32,
                 "the environment's actions are %s; the network computes vectors of float32",
                 actions->num_actions > 0 ? "discrete" : gpur_dtype_name(actions->dtype));
    GPUR_REQUIRE(gpur_space_numbers(actions) == num_actions,
                 "the environment's actions are vectors of %lld numbers, and the actor's network has %d; they must be "
                 "the same",
                 (long long)gpur_space_numbers(actions), (int)num_actions);
    for (int32_t i = 0; i < num_actions; i++)
        GPUR_REQUIRE(isfinite(low_of(actions, i)) && isfinite(high_of(actions, i)) &&
                         low_of(actions, i) < high_of(actions, i),
                     "number %d of the environment's actions is %g to %g; it must have finite bounds, the first below "
                     "the second",
                     (int)i, (double)low_of(actions, i), (double)high_of(actions, i));
    return GPUR_OK;
}

int32_t gpur_action_numbers(const gpur_network_config *network)
{
    const int has_vectors = network->head == GPUR_HEAD_TANH_ACTION || network->head == GPUR_HEAD_SQUASHED_GAUSSIAN;
    return has_vectors ? network->num_actions : 0;
}

gpur_status gpur_action_check(const gpur_space *actions, const gpur_network_config *network)
{
    return gpur_action_numbers(network) > 0 ? check_vectors(actions, network->num_actions)
                                            : gpur_actions_check(actions, network->num_actions);
}

void gpur_action_scale(const gpur_space *actions, int32_t count, const float *action, float *scaled)
{
    for (int32_t i = 0; i < count; i++) {
        const double low = (double)low_of(actions, i), high = (double)high_of(actions, i);
        scaled[i] = (float)(low + 0.5 * ((double)action[i] + 1.0) * (high - low));
    }
}
