/* SPDX-License-Identifier: MIT */
#include "support/returns_fixture.h"

#include "base/status.h"
#include "support/episode_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t obs_bytes(const returns_fixture *f)
{
    return f->setting.is_frames ? RETURNS_OBS : RETURNS_NUMBERS * (int64_t)sizeof(float);
}

/* What the writer is given of an observation: all numbers, or the newest frame. */
static int64_t given_bytes(const returns_fixture *f)
{
    return f->setting.is_frames ? RETURNS_FRAME : obs_bytes(f);
}

static void make_obs(returns_fixture *f, unsigned char *obs)
{
    if (!f->setting.is_frames)
        random_floats(xorshift_next(&f->random), (float *)(void *)obs, RETURNS_NUMBERS);
    for (int i = 0; i < RETURNS_FRAME && f->setting.is_frames; i++)
        obs[i] = (unsigned char)xorshift_below(&f->random, 256);
}

static gpur_status open_writer(returns_fixture *f)
{
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = f->setting.envs;
    config.observations = f->setting.is_frames ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    config.link_appends = f->setting.schema == RETURNS_DISCOUNTS;
    return gpur_writer_open(f->replay, &config, &f->writer);
}

gpur_status returns_fixture_open(returns_fixture *f, gpur_device *device, const returns_setting *setting)
{
    static const int32_t row_fields[] = {[RETURNS_PLAIN] = 7, [RETURNS_NO_TRUNCATED] = 6, [RETURNS_DISCOUNTS] = 8};
    const gpur_field rows[] = {{"obs", GPUR_FLOAT32, {RETURNS_NUMBERS}},
                               {"action", GPUR_INT32, {0}},
                               {"reward", GPUR_FLOAT32, {0}},
                               {"next_obs", GPUR_FLOAT32, {RETURNS_NUMBERS}},
                               {"terminated", GPUR_BOOL, {0}},
                               {"previous", GPUR_INT64, {0}},
                               {"truncated", GPUR_BOOL, {0}},
                               {"discount", GPUR_FLOAT32, {0}}};
    const gpur_field frames[] = {{"obs", GPUR_UINT8, {RETURNS_STACK, RETURNS_SIDE, RETURNS_SIDE}},
                                 {"action", GPUR_INT64, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},
                                 {"next_obs", GPUR_UINT8, {RETURNS_STACK, RETURNS_SIDE, RETURNS_SIDE}},
                                 {"terminated", GPUR_BOOL, {0}},
                                 {"truncated", GPUR_BOOL, {0}},
                                 {"previous", GPUR_INT64, {0}}};
    memset(f, 0, sizeof *f);
    f->setting = *setting;
    f->device = device;
    f->random = setting->seed + 1;
    gpur_replay_config config = replay_fixture_config(setting->is_frames ? frames : rows, row_fields[setting->schema],
                                                      setting->capacity, 16, 64);
    config.layout = setting->is_frames ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS;
    config.frame_stack = setting->is_frames ? RETURNS_STACK : config.frame_stack;
    config.gamma = RETURNS_GAMMA;
    config.flush = setting->flush;
    GPUR_TRY(gpur_replay_create(device, &config, &f->replay));
    GPUR_TRY(open_writer(f));
    for (int32_t i = 0; i < setting->envs; i++)
        f->is_over[i] = 1;
    return GPUR_OK;
}

void returns_fixture_close(returns_fixture *f)
{
    gpur_writer_destroy(f->writer);
    gpur_replay_destroy(f->replay);
}

/* A step of the one environment, with a discount of 0.5 to 1. Of 24 steps two terminate, one has
 * discount 0 and does not terminate, and one is truncated. */
static gpur_status append(returns_fixture *f)
{
    float obs[RETURNS_NUMBERS], next_obs[RETURNS_NUMBERS], values[2];
    const int32_t action = (int32_t)xorshift_below(&f->random, RETURNS_ACTIONS);
    const int64_t end = xorshift_below(&f->random, 24);
    const uint8_t terminated = end <= 1, truncated = end == 2;
    random_floats(xorshift_next(&f->random), obs, RETURNS_NUMBERS);
    random_floats(xorshift_next(&f->random), next_obs, RETURNS_NUMBERS);
    random_floats(xorshift_next(&f->random), values, 2);
    const float discount = terminated || end == 3 ? 0.0f : 0.75f + 0.25f * values[1];
    const void *const fields[] = {obs, &action, &values[0], next_obs, &terminated, NULL, &truncated, &discount};
    return gpur_writer_append_fields(f->writer, 1, fields, NULL, NULL);
}

/* Of 12 steps one ends its episode: half of them terminate, a third are truncated. After another one in 60 the episode
 * is reset though it has not ended. */
static gpur_status step(returns_fixture *f)
{
    unsigned char next[RETURNS_MAX_ENVS * RETURNS_OBS], first[RETURNS_OBS];
    int64_t wide[RETURNS_MAX_ENVS];
    int32_t narrow[RETURNS_MAX_ENVS];
    float reward[RETURNS_MAX_ENVS];
    uint8_t terminated[RETURNS_MAX_ENVS], truncated[RETURNS_MAX_ENVS];
    for (int32_t i = 0; i < f->setting.envs; i++) {
        make_obs(f, first);
        if (f->is_over[i] || xorshift_below(&f->random, 60) == 0)
            GPUR_TRY(gpur_writer_reset(f->writer, i, first));
        make_obs(f, next + i * given_bytes(f));
        wide[i] = narrow[i] = (int32_t)xorshift_below(&f->random, RETURNS_ACTIONS);
        reward[i] = (float)xorshift_below(&f->random, 2001) / 1000.0f - 1.0f;
        const int64_t end = xorshift_below(&f->random, 24);
        terminated[i] = end == 0, truncated[i] = end == 1;
        f->is_over[i] = end < 2;
    }
    return gpur_writer_step(f->writer, f->setting.is_frames ? (void *)wide : narrow, reward, next, terminated,
                            truncated);
}

gpur_status returns_fixture_step(returns_fixture *f, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++)
        GPUR_TRY(f->setting.schema == RETURNS_DISCOUNTS ? append(f) : step(f));
    return GPUR_OK;
}

gpur_learner_config returns_fixture_config(const returns_fixture *f, int64_t size, int64_t length)
{
    gpur_learner_config config = learner_fixture_config(f->setting.seed % 2 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q, 1);
    config.network.num_actions = RETURNS_ACTIONS;
    if (f->setting.is_frames)
        config.network.input_scale = 1.0f / 255.0f;
    if (f->setting.is_conv) {
        config.network.trunk[1] = config.network.trunk[0];
        config.network.trunk_count = 2;
        config.network.trunk[0] =
            (gpur_layer){.kind = GPUR_CONV, .units = 4, .activation = GPUR_RELU, .kernel = 4, .stride = 4};
    }
    config.returns.cache_size = size;
    config.returns.block_length = length;
    config.returns.lambda = 0.8f;
    config.loss = GPUR_LOSS_SQUARED;
    config.batch_size = 8;
    return config;
}

static double largest(const float *q, int *best)
{
    *best = 0;
    for (int k = 1; k < RETURNS_ACTIONS; k++)
        *best = q[k] > q[*best] ? k : *best;
    return (double)q[*best];
}

/* What a step needs of the network. */
static gpur_status evaluate(gpur_learner *learner, int64_t count, const void *obs, const void *next_obs,
                            const int64_t *action, ref_step *steps, double *margin)
{
    float q[64 * RETURNS_ACTIONS], next_q[64 * RETURNS_ACTIONS];
    GPUR_TRY(gpur_learner_q_values(learner, count, obs, q, NULL));
    GPUR_TRY(gpur_learner_q_values(learner, count, next_obs, next_q, NULL));
    for (int64_t i = 0; i < count; i++) {
        int best;
        const float *const row = q + i * RETURNS_ACTIONS;
        steps[i].value = largest(next_q + i * RETURNS_ACTIONS, &best);
        const double most = largest(row, &best);
        steps[i].taken = (double)row[action[i]];
        steps[i].is_greedy = best == action[i];
        for (int k = 0; k < RETURNS_ACTIONS; k++)
            *margin = k != best ? fmin(*margin, most - (double)row[k]) : *margin;
    }
    return GPUR_OK;
}

static gpur_status read_actions(const returns_fixture *f, int64_t first, int64_t count, int64_t *action)
{
    int32_t narrow[64];
    if (f->setting.is_frames)
        return read_rows(f->replay, "action", first, count, action, sizeof *action);
    GPUR_TRY(read_rows(f->replay, "action", first, count, narrow, sizeof *narrow));
    for (int64_t i = 0; i < count; i++)
        action[i] = narrow[i];
    return GPUR_OK;
}

/* At most 64 rows. */
static gpur_status read_steps(const returns_fixture *f, gpur_learner *learner, int64_t first, int64_t count,
                              ref_step *steps, int64_t *previous, double *margin)
{
    static unsigned char obs[64 * RETURNS_OBS], next_obs[64 * RETURNS_OBS];
    float reward[64];
    uint8_t terminated[64], truncated[64] = {0};
    int64_t action[64];
    float discount[64];
    GPUR_TRY(read_rows(f->replay, "obs", first, count, obs, obs_bytes(f)));
    GPUR_TRY(read_rows(f->replay, "next_obs", first, count, next_obs, obs_bytes(f)));
    GPUR_TRY(read_rows(f->replay, "reward", first, count, reward, sizeof *reward));
    GPUR_TRY(read_rows(f->replay, "terminated", first, count, terminated, 1));
    if (f->setting.schema != RETURNS_NO_TRUNCATED)
        GPUR_TRY(read_rows(f->replay, "truncated", first, count, truncated, 1));
    for (int64_t i = 0; i < count; i++)
        discount[i] = terminated[i] ? 0.0f : RETURNS_GAMMA;
    if (f->setting.schema == RETURNS_DISCOUNTS)
        GPUR_TRY(read_rows(f->replay, "discount", first, count, discount, sizeof *discount));
    GPUR_TRY(read_rows(f->replay, "previous", first, count, previous, sizeof *previous));
    GPUR_TRY(read_actions(f, first, count, action));
    GPUR_TRY(evaluate(learner, count, obs, next_obs, action, steps, margin));
    for (int64_t i = 0; i < count; i++) {
        steps[i].reward = (double)reward[i];
        steps[i].discount = (double)discount[i];
        steps[i].truncated = truncated[i];
        steps[i].is_first = previous[i] < 0;
    }
    return GPUR_OK;
}

int64_t returns_fixture_steps(const returns_fixture *f, gpur_learner *learner, ref_step *steps, int64_t *first,
                              int64_t *previous, double *margin)
{
    const gpur_replay_stats stats = replay_fixture_stats(f->replay);
    *first = stats.first_id;
    *margin = INFINITY;
    for (int64_t i = 0; i < stats.visible; i += 64) {
        const int64_t count = stats.visible - i < 64 ? stats.visible - i : 64;
        if (read_steps(f, learner, *first + i, count, steps + i, previous + i, margin) != GPUR_OK)
            return -1;
    }
    return stats.visible;
}

gpur_status returns_fixture_entries(gpur_learner *learner, gpur_cache_entry *entries, int64_t *first)
{
    const gpur_return_cache *const cache = &learner->returns;
    gpur_cache_state state;
    GPUR_TRY(gpur_learner_sync(learner));
    GPUR_TRY(gpur_device_copy(learner->device, &state, cache->state, sizeof state));
    *first = state.first_id;
    return gpur_device_copy(learner->device, entries, cache->entry, cache->size * (int64_t)sizeof *entries);
}
