/* SPDX-License-Identifier: MIT */
#include "support/returns_fixture.h"

#include "base/status.h"
#include "replay/view.h"
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

/* Lanes beside a model that keeps all steps. */

enum { LANE_OBS, LANE_NEXT_OBS, LANE_ACTION, LANE_REWARD, LANE_TERMINATED, LANE_TRUNCATED, LANE_FIELDS };

static gpur_status open_lanes(returns_fixture *f)
{
    static const int64_t bytes[LANE_FIELDS] = {4 * RETURNS_NUMBERS, 4 * RETURNS_NUMBERS, 4, 4, 1, 1};
    const gpur_field fields[LANE_FIELDS] = {{"obs", GPUR_FLOAT32, {RETURNS_NUMBERS}},
                                            {"next_obs", GPUR_FLOAT32, {RETURNS_NUMBERS}},
                                            {"action", GPUR_INT32, {0}},
                                            {"reward", GPUR_FLOAT32, {0}},
                                            {"terminated", GPUR_BOOL, {0}},
                                            {"truncated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    f->lane_rows = calloc(RETURNS_MAX_ROWS, sizeof *f->lane_rows);
    if (!f->lane_rows)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the model of lanes");
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = LANE_FIELDS, config.layout = GPUR_LAYOUT_LANES;
    config.lanes = f->setting.envs;
    config.capacity = f->setting.capacity / f->setting.envs * f->setting.envs;
    config.lane_autoreset = f->setting.autoreset, config.gamma = RETURNS_GAMMA, config.max_batch = 64;
    for (int i = 0; i < LANE_FIELDS; i++)
        GPUR_TRY(gpur_device_alloc(f->device, RETURNS_MAX_ENVS * bytes[i], &f->lane_arrays[i]));
    return gpur_replay_create(f->device, &config, &f->replay);
}

/* The observation that a lane's step begins with, and whether it resets. `before` NULL: it is the first one. */
static void begin_lane_row(returns_fixture *f, returns_lane_row *before, returns_lane_row *row)
{
    const int resets_later = f->setting.autoreset == GPUR_AUTORESET_NEXT_STEP;
    const int has_ended = before && !before->is_reset && (before->terminated || before->truncated);
    row->is_reset = has_ended && resets_later;
    row->is_first = !before || before->is_reset || (has_ended && !resets_later);
    random_floats(xorshift_next(&f->random), row->obs, RETURNS_NUMBERS);
    if (!before || before->is_complete)
        return;
    memcpy(before->next_obs, row->obs, sizeof row->obs);
    before->is_complete = !before->is_reset && (resets_later || !has_ended);
}

/* Of 12 steps one ends its episode. Without final observations in this step, what was truncated is lost. */
static void end_lane_row(returns_fixture *f, int has_finals, returns_lane_row *row)
{
    const int64_t end = xorshift_below(&f->random, 24);
    const int resets_later = f->setting.autoreset == GPUR_AUTORESET_NEXT_STEP;
    row->action = (int32_t)xorshift_below(&f->random, RETURNS_ACTIONS);
    row->reward = (float)xorshift_below(&f->random, 2001) / 1000.0f - 1.0f;
    row->terminated = end == 0 || end == 2, row->truncated = end == 1 || end == 2;
    row->final = -1;
    random_floats(xorshift_next(&f->random), row->next_obs, RETURNS_NUMBERS);
    if (resets_later || !(row->terminated || row->truncated))
        return;
    row->final = has_finals ? f->lane_finals++ : -1;
    row->is_complete = has_finals || row->terminated;
}

static gpur_status step_lanes(returns_fixture *f)
{
    const int32_t envs = f->setting.envs;
    const int has_finals = f->setting.autoreset != GPUR_AUTORESET_NEXT_STEP && f->lane_steps % 5 != 4;
    float obs[RETURNS_MAX_ENVS][RETURNS_NUMBERS], final_obs[RETURNS_MAX_ENVS][RETURNS_NUMBERS];
    float reward[RETURNS_MAX_ENVS];
    int32_t action[RETURNS_MAX_ENVS];
    uint8_t terminated[RETURNS_MAX_ENVS], truncated[RETURNS_MAX_ENVS];
    for (int32_t i = 0; i < envs; i++) {
        returns_lane_row *const row = &f->lane_rows[f->lane_steps * envs + i];
        begin_lane_row(f, f->lane_steps > 0 ? row - envs : NULL, row);
        end_lane_row(f, has_finals, row);
        memcpy(obs[i], row->obs, sizeof obs[i]);
        memcpy(final_obs[i], row->next_obs, sizeof final_obs[i]);
        action[i] = row->action, reward[i] = row->reward;
        terminated[i] = row->terminated, truncated[i] = row->truncated;
    }
    const void *const from[LANE_FIELDS] = {obs, final_obs, action, reward, terminated, truncated};
    const size_t bytes[LANE_FIELDS] = {sizeof *obs,    sizeof *final_obs,  sizeof *action,
                                       sizeof *reward, sizeof *terminated, sizeof *truncated};
    const void *given[LANE_FIELDS];
    for (int field = 0; field < LANE_FIELDS; field++) {
        GPUR_TRY(gpur_device_copy(f->device, f->lane_arrays[field], from[field], envs * (int64_t)bytes[field]));
        given[field] = field == LANE_NEXT_OBS && !has_finals ? NULL : f->lane_arrays[field];
    }
    f->lane_steps++;
    return gpur_replay_add_lanes(f->replay, given, NULL);
}

/* What the field `previous` of the row would be. */
static int64_t lane_previous(const returns_fixture *f, int64_t id)
{
    const returns_lane_row *const row = &f->lane_rows[id];
    const int64_t room = gpur_replay_lanes(f->replay)->lanes.finals;
    const int is_lost = row->final >= 0 && f->lane_finals - row->final > room;
    const int passes_a_reset = row->is_first && f->setting.autoreset == GPUR_AUTORESET_NEXT_STEP;
    const int64_t before = id - (passes_a_reset ? 2 : 1) * f->setting.envs;
    if (!row->is_complete || is_lost)
        return RETURNS_NO_TRANSITION;
    return before < 0 ? -1 : row->is_first ? -2 - before : before;
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
    if (setting->is_lanes)
        return open_lanes(f);
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
    for (int i = 0; i < LANE_FIELDS; i++)
        gpur_device_free(f->device, f->lane_arrays[i]);
    free(f->lane_rows);
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
    for (int64_t i = 0; i < steps && f->setting.is_lanes; i++)
        GPUR_TRY(step_lanes(f));
    for (int64_t i = 0; i < steps && !f->setting.is_lanes; i++)
        GPUR_TRY(f->setting.schema == RETURNS_DISCOUNTS ? append(f) : step(f));
    return GPUR_OK;
}

gpur_dqn_config returns_fixture_config(const returns_fixture *f, int64_t size, int64_t length)
{
    gpur_dqn_config config = learner_fixture_config(f->setting.seed % 2 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q, 1);
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

/* The same from the model of lanes. */
static gpur_status model_steps(const returns_fixture *f, gpur_learner *learner, int64_t first, int64_t count,
                               ref_step *steps, int64_t *previous, double *margin)
{
    static float obs[64][RETURNS_NUMBERS], next_obs[64][RETURNS_NUMBERS];
    int64_t action[64] = {0};
    for (int64_t i = 0; i < count; i++) {
        const returns_lane_row *const row = &f->lane_rows[first + i];
        memcpy(obs[i], row->obs, sizeof obs[i]);
        memcpy(next_obs[i], row->next_obs, sizeof next_obs[i]);
        action[i] = row->action;
        previous[i] = lane_previous(f, first + i);
    }
    GPUR_TRY(evaluate(learner, count, obs, next_obs, action, steps, margin));
    for (int64_t i = 0; i < count; i++) {
        const returns_lane_row *const row = &f->lane_rows[first + i];
        steps[i].reward = (double)row->reward;
        steps[i].discount = row->terminated ? 0 : (double)RETURNS_GAMMA;
        steps[i].truncated = row->truncated;
        steps[i].is_first = row->is_first;
    }
    return GPUR_OK;
}

int64_t returns_fixture_steps(const returns_fixture *f, gpur_learner *learner, ref_step *steps, int64_t *first,
                              int64_t *previous, double *margin)
{
    const int64_t envs = f->setting.envs, kept = f->setting.capacity / envs;
    const int64_t oldest = f->lane_steps > kept ? f->lane_steps - kept : 0;
    gpur_replay_stats stats = {.visible = (f->lane_steps - oldest) * envs, .first_id = oldest * envs};
    if (!f->setting.is_lanes)
        stats = replay_fixture_stats(f->replay);
    *first = stats.first_id;
    *margin = INFINITY;
    for (int64_t i = 0; i < stats.visible; i += 64) {
        const int64_t count = stats.visible - i < 64 ? stats.visible - i : 64;
        if ((f->setting.is_lanes ? model_steps : read_steps)(f, learner, *first + i, count, steps + i, previous + i,
                                                             margin) != GPUR_OK)
            return -1;
    }
    return stats.visible;
}

gpur_status returns_fixture_entries(gpur_learner *learner, gpur_cache_entry *entries, int64_t *first)
{
    const gpur_return_cache *const cache = &gpur_dqn_of(learner)->returns;
    gpur_cache_state state;
    GPUR_TRY(gpur_learner_sync(learner));
    GPUR_TRY(gpur_device_copy(learner->device, &state, cache->state, sizeof state));
    *first = state.first_id;
    return gpur_device_copy(learner->device, entries, cache->entry, cache->size * (int64_t)sizeof *entries);
}
