/* SPDX-License-Identifier: MIT */
#include "support/file_scene.h"

#include "base/status.h"
#include "support/replay_kit.h"

#include <string.h>

/* What the variants from 4 on have. */
static int is_prioritized(int variant)
{
    return variant == 4 || variant == 5 || variant >= 8;
}

static int32_t steps_of(int variant)
{
    return variant == 6 || variant >= 8 ? 3 : 1;
}

static int is_linked(int variant)
{
    return variant >= 7;
}

static void set_kind(gpur_replay_config *config, int variant)
{
    config->prioritized = is_prioritized(variant);
    if (config->prioritized) {
        config->index_source = variant % 2 ? GPUR_PRIORITIZED_PLAIN : GPUR_PRIORITIZED;
        config->weight_norm = variant == 5 ? GPUR_WEIGHT_NORM_BATCH : GPUR_WEIGHT_NORM_MEMORY;
        config->beta.last = 1.0f;
        config->beta.steps = 40;
    }
    config->n_step = steps_of(variant);
    if (is_linked(variant)) {
        config->layout = GPUR_LINKED;
        config->frame_stack = SCENE_STACK;
        config->stack_pad = variant == 9 ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
        config->frame_slack = config->capacity / 5;
    }
}

static gpur_status open_replay(file_scene *s, int variant)
{
    gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {SCENE_FEATURES}}, {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}},           {"next_obs", GPUR_FLOAT32, {SCENE_FEATURES}},
        {"terminated", GPUR_BOOL, {0}},          {"truncated", GPUR_BOOL, {0}},
        {"discount", GPUR_FLOAT32, {0}},         {"previous", GPUR_INT64, {0}},
    };
    for (int f = 0; f < 4 && is_linked(variant); f += 3)
        fields[f].shape[0] = SCENE_STACK, fields[f].shape[1] = SCENE_FEATURES;
    gpur_replay_config config = kit_config(fields, variant < 4 ? 6 : 8, s->capacity, 8, 32);
    config.flush = variant % 2 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
    config.feed = variant == 2 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
    config.index_source = variant == 3 ? GPUR_UNIFORM_DISTINCT : GPUR_UNIFORM;
    config.reward_clip = 1.5f;
    config.seed = 7;
    set_kind(&config, variant);
    return gpur_replay_create(s->device, &config, &s->replay);
}

static gpur_status open_learner(file_scene *s, int variant)
{
    static const int32_t acts[] = {GPUR_ACT_LATEST, GPUR_ACT_PREVIOUS, GPUR_ACT_TARGET, GPUR_ACT_LATEST};
    gpur_learner_config config;
    GPUR_TRY(gpur_learner_config_init(&config, sizeof config));
    config.network.trunk_count = 1;
    config.network.trunk[0].units = 16;
    config.network.head = variant % 2 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q;
    config.network.hidden = variant % 2 ? 12 : 0;
    config.network.outputs = 3;
    config.batch_size = 16;
    config.target_period = 7;
    config.seed = 11;
    config.act = acts[variant % 4];
    if (variant == 3 || variant == 5) /* by chance or by priority */
        config.step_kernel = GPUR_STEP_ONE_KERNEL;
    if (is_prioritized(variant))
        config.index_source = variant % 2 ? GPUR_PRIORITIZED : GPUR_PRIORITIZED_PLAIN;
    if (variant == 2) {
        config.optimizer.kind = GPUR_RMSPROP_TORCH;
        config.optimizer.centered = 1;
        config.optimizer.momentum = 0.5f;
    }
    return gpur_learner_create(s->replay, &config, &s->learner);
}

gpur_status scene_open_with(file_scene *s, gpur_device *device, int variant, int64_t capacity, int learns)
{
    memset(s, 0, sizeof *s);
    s->device = device;
    s->variant = variant;
    s->capacity = capacity;
    s->stack = is_linked(variant) ? SCENE_STACK : 1;
    GPUR_TRY(open_replay(s, variant));
    return learns ? open_learner(s, variant) : GPUR_OK;
}

gpur_status scene_open(file_scene *s, gpur_device *device, int variant)
{
    return scene_open_with(s, device, variant, 100, 1);
}

gpur_status scene_play(file_scene *s, gpur_device *device, int variant, int steps)
{
    GPUR_TRY(scene_open(s, device, variant));
    GPUR_TRY(scene_begin(s, 0));
    return scene_run(s, 0, steps);
}

void scene_close(file_scene *s)
{
    gpur_writer_destroy(s->writer);
    gpur_learner_destroy(s->learner);
    gpur_replay_destroy(s->replay);
}

/* Numbers in [-1, 1) that depend on step, environment and place alone. */
static void make_obs(int step, int env, float *obs)
{
    uint64_t state = 1 + (uint64_t)(step * SCENE_ENVS + env);
    for (int i = 0; i < SCENE_FEATURES; i++)
        obs[i] = (float)kit_below(&state, 2000) / 1000.0f - 1.0f;
}

gpur_status scene_begin(file_scene *s, int resumed)
{
    float obs[SCENE_ENVS * SCENE_FEATURES];
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = SCENE_ENVS;
    config.input = is_linked(s->variant) ? GPUR_INPUT_FRAMES : GPUR_INPUT_STACKS;
    GPUR_TRY(gpur_writer_open(s->replay, &config, &s->writer));
    for (int env = 0; env < SCENE_ENVS; env++)
        make_obs(-1, env, obs + env * SCENE_FEATURES);
    return resumed ? GPUR_OK : gpur_writer_reset(s->writer, -1, obs);
}

static void leave_trace(file_scene *s, const void *values, int64_t bytes)
{
    const int count = (int)(bytes / (int64_t)sizeof *s->trace);
    if (s->traced + count > SCENE_TRACE)
        return;
    memcpy(s->trace + s->traced, values, (size_t)bytes);
    s->traced += count;
}

/* Any observations do for acting. */
static gpur_status choose(file_scene *s, int step, int32_t *actions)
{
    float obs[SCENE_ENVS * SCENE_STACK * SCENE_FEATURES], q[3];
    for (int env = 0; env < SCENE_ENVS && !s->learner; env++)
        actions[env] = (step + env) % 3;
    if (!s->learner)
        return GPUR_OK;
    for (int i = 0; i < SCENE_ENVS * s->stack; i++)
        make_obs(step + i / SCENE_ENVS, i % SCENE_ENVS, obs + i * SCENE_FEATURES);
    GPUR_TRY(gpur_learner_act(s->learner, SCENE_ENVS, obs, 0.5f, actions, NULL));
    leave_trace(s, actions, SCENE_ENVS * (int64_t)sizeof *actions);
    GPUR_TRY(gpur_learner_q_values(s->learner, 1, obs, q, NULL));
    leave_trace(s, q, sizeof q);
    return GPUR_OK;
}

static gpur_status play(file_scene *s, int step)
{
    float obs[SCENE_ENVS * SCENE_FEATURES], reward[SCENE_ENVS];
    uint8_t terminated[SCENE_ENVS], truncated[SCENE_ENVS];
    int32_t actions[SCENE_ENVS];
    for (int env = 0; env < SCENE_ENVS; env++) {
        make_obs(step, env, obs + env * SCENE_FEATURES);
        reward[env] = 3.0f * obs[env * SCENE_FEATURES];
        terminated[env] = (step + 3 * env) % 11 == 10;
        truncated[env] = !terminated[env] && (step + env) % 17 == 16;
    }
    GPUR_TRY(choose(s, step, actions));
    GPUR_TRY(gpur_writer_step(s->writer, actions, reward, obs, terminated, truncated));
    for (int env = 0; env < SCENE_ENVS; env++)
        if (terminated[env] || truncated[env])
            GPUR_TRY(gpur_writer_reset(s->writer, env, obs + (env + 1) % SCENE_ENVS * SCENE_FEATURES));
    return GPUR_OK;
}

/* By ids, which a loaded replay must go on counting. */
static gpur_status leave_links(file_scene *s, gpur_batch *batch)
{
    int64_t previous[8];
    if (s->variant < 4)
        return GPUR_OK;
    GPUR_TRY(gpur_batch_read(batch, "previous", previous, sizeof previous));
    leave_trace(s, previous, sizeof previous);
    return GPUR_OK;
}

/* What a learner does else: some of the drawn transitions get new priorities. */
static gpur_status update(file_scene *s, int64_t ids[8])
{
    float priorities[8];
    if (s->learner || !is_prioritized(s->variant))
        return GPUR_OK;
    for (int i = 0; i < 8; i++)
        priorities[i] = (float)(ids[i] % 13);
    return gpur_replay_update_priorities(s->replay, 8, ids, priorities, NULL);
}

static gpur_status draw(file_scene *s)
{
    gpur_batch *batch = NULL;
    int64_t ids[8];
    float obs[8 * SCENE_STACK * SCENE_FEATURES], weights[8], discounts[8];
    const int64_t obs_bytes = 8 * s->stack * SCENE_FEATURES * (int64_t)sizeof *obs;
    GPUR_TRY(gpur_replay_sample(s->replay, 8, NULL, &batch));
    gpur_status status = gpur_batch_read(batch, "id", ids, sizeof ids);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, "next_obs", obs, obs_bytes);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, "weight", weights, sizeof weights);
    if (status == GPUR_OK)
        status = gpur_batch_read(batch, "discount", discounts, sizeof discounts);
    if (status == GPUR_OK)
        status = leave_links(s, batch);
    gpur_batch_release(batch);
    if (status == GPUR_OK) {
        leave_trace(s, ids, sizeof ids);
        leave_trace(s, obs, obs_bytes);
        leave_trace(s, weights, sizeof weights);
        leave_trace(s, discounts, sizeof discounts);
        status = update(s, ids);
    }
    return status;
}

static gpur_status train(file_scene *s)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_learner_train(s->learner, 2));
    GPUR_TRY(gpur_learner_sync(s->learner));
    GPUR_TRY(gpur_learner_get_stats(s->learner, &stats));
    leave_trace(s, &stats.loss, sizeof stats.loss);
    leave_trace(s, &stats.gradient_norm, sizeof stats.gradient_norm);
    return GPUR_OK;
}

/* What only the file can tell a run that goes on: step 20 is before it. */
static gpur_status turn_knobs(file_scene *s, int step)
{
    if (step != 20 || !is_prioritized(s->variant))
        return GPUR_OK;
    GPUR_TRY(gpur_replay_set_alpha(s->replay, 0.8f));
    return s->variant == 5 ? gpur_replay_set_beta(s->replay, 0.9f) : GPUR_OK;
}

gpur_status scene_run(file_scene *s, int first, int last)
{
    for (int step = first; step < last; step++) {
        GPUR_TRY(turn_knobs(s, step));
        GPUR_TRY(play(s, step));
        if (s->learner && step >= 12 && step % 3 == 0)
            GPUR_TRY(train(s));
        if (step >= 12 && step % 4 == 0)
            GPUR_TRY(draw(s));
    }
    return GPUR_OK;
}

static gpur_status leave_priorities(file_scene *s)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    if (!is_prioritized(s->variant))
        return GPUR_OK;
    GPUR_TRY(gpur_replay_get_priority_stats(s->replay, &stats));
    GPUR_TRY(gpur_replay_check_priorities(s->replay, &wrong));
    leave_trace(s, &stats, sizeof stats);
    leave_trace(s, &wrong, sizeof wrong);
    return wrong == 0 ? GPUR_OK : GPUR_DEVICE_ERROR;
}

gpur_status scene_finish(file_scene *s)
{
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++)
        for (int32_t i = 0; i < gpur_learner_weight_count(s->learner); i++) {
            gpur_weight_info info = {.size = sizeof info};
            float values[256];
            GPUR_TRY(gpur_learner_weight(s->learner, i, &info));
            GPUR_TRY(gpur_learner_read_weights(s->learner, which, info.name, values, info.count));
            leave_trace(s, values, info.count * (int64_t)sizeof *values);
        }
    GPUR_TRY(draw(s));
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_learner_stats learned = {.size = sizeof learned};
    GPUR_TRY(gpur_replay_get_stats(s->replay, &stats));
    GPUR_TRY(gpur_learner_get_stats(s->learner, &learned));
    const int64_t counts[] = {stats.first_id,      stats.visible, stats.appended,         stats.published,
                              stats.evicted,       stats.blocks,  stats.episodes_cut,     stats.draws,
                              stats.frames_stored, learned.steps, learned.steps_enqueued, learned.target_copies,
                              learned.acts};
    leave_trace(s, counts, sizeof counts);
    return leave_priorities(s);
}
