/* SPDX-License-Identifier: MIT */
#include "support/policy_fixture.h"

#include "support/learner_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 64 };

gpur_policy_config policy_fixture_config(const gpur_dqn_config *learner, int kind, int32_t streams)
{
    gpur_policy_config config;
    const gpur_field plain = {"obs", GPUR_FLOAT32, {FIXTURE_FEATURES}};
    const gpur_field planes = {"obs", GPUR_UINT8, {IMAGE_CHANNELS, IMAGE_HEIGHT, IMAGE_WIDTH}};
    const gpur_field pixels = {"obs", GPUR_UINT8, {IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_CHANNELS}};
    (void)gpur_policy_config_init(&config, sizeof config);
    config.network = learner->network;
    config.obs = kind == ROWS_PLAIN ? plain : kind == ROWS_PLANES ? planes : pixels;
    config.streams = streams;
    config.seed = learner->seed;
    return config;
}

gpur_policy *policy_fixture_open(gpur_device *device, const gpur_dqn_config *learner, int kind, int32_t streams)
{
    const gpur_policy_config config = policy_fixture_config(learner, kind, streams);
    gpur_policy *policy = NULL;
    return gpur_policy_create(device, &config, &policy) == GPUR_OK ? policy : NULL;
}

gpur_status policy_fixture_q(gpur_policy *policy, int64_t count, const void *obs, float *q, int64_t *version)
{
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .q = q, .version = version};
    return gpur_policy_act(policy, &input, &output);
}

int64_t policy_fixture_weights(gpur_policy *policy, float *values, int64_t room)
{
    const int64_t bytes = gpur_policy_weights_bytes(policy), numbers = bytes - HEADER_BYTES;
    char *const blob = malloc((size_t)bytes);
    int64_t count = -1;
    if (numbers <= room * (int64_t)sizeof *values && gpur_policy_get_weights(policy, blob, bytes) == GPUR_OK) {
        memcpy(values, blob + HEADER_BYTES, (size_t)numbers);
        count = numbers / (int64_t)sizeof *values;
    }
    free(blob);
    return count;
}

gpur_policy_stats policy_fixture_stats(gpur_policy *policy)
{
    gpur_policy_stats stats = {.size = sizeof stats};
    if (gpur_policy_get_stats(policy, &stats) != GPUR_OK)
        stats.calls = -1;
    return stats;
}
