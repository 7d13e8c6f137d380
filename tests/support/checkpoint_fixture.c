/* SPDX-License-Identifier: MIT */
#include "support/checkpoint_fixture.h"

#include "base/status.h"
#include "support/replay_fixture.h"

#include <string.h>

static int is_prioritized(int variant)
{
    return variant == 4 || variant == 5 || variant >= 8;
}

static int evicts_by_priority(int variant)
{
    return variant >= 10;
}

static int has_frames(int variant)
{
    return variant >= 7 && !evicts_by_priority(variant);
}

/* Variants that evict by priority cannot have it. */
static int has_previous(int variant)
{
    return variant >= 4 && !evicts_by_priority(variant);
}

static void set_kind(gpur_replay_config *config, int variant)
{
    config->prioritized = is_prioritized(variant);
    if (config->prioritized) {
        config->index_source = variant % 2 ? GPUR_PRIORITIZED_INDEPENDENT : GPUR_PRIORITIZED_STRATIFIED;
        config->weight_norm = variant == 5 ? GPUR_WEIGHT_NORM_BATCH : GPUR_WEIGHT_NORM_MEMORY;
        config->beta.last = 1.0f;
        config->beta.steps = 40;
    }
    config->eviction = evicts_by_priority(variant) ? GPUR_EVICT_BY_PRIORITY : GPUR_EVICT_OLDEST;
    config->n_step = variant == 6 || variant >= 8 ? 3 : 1;
    if (has_frames(variant)) {
        config->layout = GPUR_LAYOUT_FRAMES;
        config->frame_stack = CHECKPOINT_STACK;
        config->stack_pad = variant == 9 ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
        config->extra_frames = config->capacity / 5;
    }
}

static gpur_status open_replay(checkpoint_fixture *s)
{
    const int variant = s->variant;
    gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {CHECKPOINT_FEATURES}},
        {"action", GPUR_INT32, {0}},
        {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {CHECKPOINT_FEATURES}},
        {"terminated", GPUR_BOOL, {0}},
        {"truncated", GPUR_BOOL, {0}},
        {"discount", GPUR_FLOAT32, {0}},
        {"previous", GPUR_INT64, {0}},
    };
    for (int f = 0; f < 4 && has_frames(variant); f += 3)
        fields[f].shape[0] = CHECKPOINT_STACK, fields[f].shape[1] = CHECKPOINT_FEATURES;
    gpur_replay_config config =
        replay_fixture_config(fields, variant < 4 ? 6 : 7 + has_previous(variant), s->capacity, 8, 32);
    config.flush = variant % 2 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
    config.upload = variant == 2 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
    config.index_source = variant == 3 ? GPUR_UNIFORM_DISTINCT : GPUR_UNIFORM;
    config.reward_clip = 1.5f;
    config.seed = 7;
    set_kind(&config, variant);
    return gpur_replay_create(s->device, &config, &s->replay);
}

static gpur_status open_learner(checkpoint_fixture *s, int variant)
{
    static const int32_t acts[] = {GPUR_ACT_LATEST, GPUR_ACT_PREVIOUS, GPUR_ACT_TARGET, GPUR_ACT_LATEST};
    gpur_dqn_config config;
    GPUR_TRY(gpur_dqn_config_init(&config, sizeof config));
    config.network.trunk_count = 1;
    config.network.trunk[0].units = 16;
    config.network.head = variant % 2 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q;
    config.network.hidden = variant % 2 ? 12 : 0;
    config.network.num_actions = 3;
    config.batch_size = 16;
    config.target_period = 7;
    config.seed = 11;
    config.act = acts[variant % 4];
    if (variant == 3 || variant == 5 || variant == 11) /* by chance or by priority */
        config.step_kernel = GPUR_STEP_FUSED;
    if (is_prioritized(variant))
        config.index_source = variant % 2 ? GPUR_PRIORITIZED_STRATIFIED : GPUR_PRIORITIZED_INDEPENDENT;
    if (variant == 2) {
        config.optimizer.kind = GPUR_RMSPROP_TORCH;
        config.optimizer.centered = 1;
        config.optimizer.momentum = 0.5f;
    }
    return gpur_dqn_create(s->replay, &config, &s->learner);
}

gpur_status checkpoint_fixture_open_with(checkpoint_fixture *s, gpur_device *device, int variant, int64_t capacity,
                                         int learns)
{
    memset(s, 0, sizeof *s);
    s->device = device;
    s->variant = variant;
    s->capacity = capacity;
    s->stack = has_frames(variant) ? CHECKPOINT_STACK : 1;
    GPUR_TRY(open_replay(s));
    return learns ? open_learner(s, variant) : GPUR_OK;
}

gpur_status checkpoint_fixture_open(checkpoint_fixture *s, gpur_device *device, int variant)
{
    return checkpoint_fixture_open_with(s, device, variant, 100, 1);
}

gpur_status checkpoint_fixture_start(checkpoint_fixture *s, gpur_device *device, int variant, int steps)
{
    GPUR_TRY(checkpoint_fixture_open(s, device, variant));
    GPUR_TRY(checkpoint_fixture_begin(s, 0));
    return checkpoint_fixture_run(s, 0, steps);
}

void checkpoint_fixture_close(checkpoint_fixture *s)
{
    gpur_writer_destroy(s->writer);
    gpur_learner_destroy(s->learner);
    gpur_replay_destroy(s->replay);
}

/* Numbers in [-1, 1) that depend on step, environment and place alone. */
static void make_obs(int step, int env, float *obs)
{
    uint64_t state = 1 + (uint64_t)(step * CHECKPOINT_ENVS + env);
    for (int i = 0; i < CHECKPOINT_FEATURES; i++)
        obs[i] = (float)xorshift_below(&state, 2000) / 1000.0f - 1.0f;
}

gpur_status checkpoint_fixture_begin(checkpoint_fixture *s, int resumed)
{
    float obs[CHECKPOINT_ENVS * CHECKPOINT_FEATURES];
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = CHECKPOINT_ENVS;
    config.observations = has_frames(s->variant) ? GPUR_OBSERVATIONS_FRAMES : GPUR_OBSERVATIONS_STACKS;
    GPUR_TRY(gpur_writer_open(s->replay, &config, &s->writer));
    for (int env = 0; env < CHECKPOINT_ENVS; env++)
        make_obs(-1, env, obs + env * CHECKPOINT_FEATURES);
    return resumed ? GPUR_OK : gpur_writer_reset(s->writer, -1, obs);
}

static void leave_trace(checkpoint_fixture *s, const void *values, int64_t bytes)
{
    const int count = (int)(bytes / (int64_t)sizeof *s->trace);
    if (s->traced + count > CHECKPOINT_TRACE)
        return;
    memcpy(s->trace + s->traced, values, (size_t)bytes);
    s->traced += count;
}

/* Any observations do for acting. */
static gpur_status choose(checkpoint_fixture *s, int step, int32_t *actions)
{
    float obs[CHECKPOINT_ENVS * CHECKPOINT_STACK * CHECKPOINT_FEATURES], q[3];
    for (int env = 0; env < CHECKPOINT_ENVS && !s->learner; env++)
        actions[env] = (step + env) % 3;
    if (!s->learner)
        return GPUR_OK;
    for (int i = 0; i < CHECKPOINT_ENVS * s->stack; i++)
        make_obs(step + i / CHECKPOINT_ENVS, i % CHECKPOINT_ENVS, obs + i * CHECKPOINT_FEATURES);
    GPUR_TRY(gpur_learner_act(s->learner, CHECKPOINT_ENVS, obs, 0.5f, actions, NULL));
    leave_trace(s, actions, CHECKPOINT_ENVS * (int64_t)sizeof *actions);
    GPUR_TRY(gpur_learner_q_values(s->learner, 1, obs, q, NULL));
    leave_trace(s, q, sizeof q);
    return GPUR_OK;
}

static gpur_status take_step(checkpoint_fixture *s, int step)
{
    float obs[CHECKPOINT_ENVS * CHECKPOINT_FEATURES], reward[CHECKPOINT_ENVS];
    uint8_t terminated[CHECKPOINT_ENVS], truncated[CHECKPOINT_ENVS];
    int32_t actions[CHECKPOINT_ENVS];
    for (int env = 0; env < CHECKPOINT_ENVS; env++) {
        make_obs(step, env, obs + env * CHECKPOINT_FEATURES);
        reward[env] = 3.0f * obs[env * CHECKPOINT_FEATURES];
        terminated[env] = (step + 3 * env) % 11 == 10;
        truncated[env] = !terminated[env] && (step + env) % 17 == 16;
    }
    GPUR_TRY(choose(s, step, actions));
    GPUR_TRY(gpur_writer_step(s->writer, actions, reward, obs, terminated, truncated));
    for (int env = 0; env < CHECKPOINT_ENVS; env++)
        if (terminated[env] || truncated[env])
            GPUR_TRY(gpur_writer_reset(s->writer, env, obs + (env + 1) % CHECKPOINT_ENVS * CHECKPOINT_FEATURES));
    return GPUR_OK;
}

/* Leaves the arrays of a sample of 8 in the trace; "previous" has ids, which a loaded replay must go on counting.
 * Without a learner, which does that itself, the sampled transitions get new priorities. */
static gpur_status sample(checkpoint_fixture *s)
{
    const struct {
        const char *name;
        int64_t row_bytes;
    } arrays[] = {
        {"id", 8}, {"next_obs", 4 * s->stack * CHECKPOINT_FEATURES}, {"weight", 4}, {"discount", 4}, {"previous", 8}};
    float values[8 * CHECKPOINT_STACK * CHECKPOINT_FEATURES], priorities[8];
    int64_t ids[8];
    gpur_batch *batch = NULL;
    GPUR_TRY(gpur_replay_sample(s->replay, 8, NULL, &batch));
    gpur_status status = gpur_batch_read(batch, "id", ids, sizeof ids);
    for (int i = 0; i < 4 + has_previous(s->variant) && status == GPUR_OK; i++) {
        status = gpur_batch_read(batch, arrays[i].name, values, 8 * arrays[i].row_bytes);
        leave_trace(s, values, 8 * arrays[i].row_bytes);
    }
    gpur_batch_release(batch);
    if (status != GPUR_OK || s->learner || !is_prioritized(s->variant))
        return status;
    for (int i = 0; i < 8; i++)
        priorities[i] = (float)(ids[i] % 13);
    return gpur_replay_update_priorities(s->replay, 8, ids, priorities, NULL);
}

static gpur_status train(checkpoint_fixture *s)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_learner_train(s->learner, 2));
    GPUR_TRY(gpur_learner_sync(s->learner));
    GPUR_TRY(gpur_learner_get_stats(s->learner, &stats));
    leave_trace(s, &stats.loss, sizeof stats.loss);
    leave_trace(s, &stats.gradient_norm, sizeof stats.gradient_norm);
    return GPUR_OK;
}

gpur_status checkpoint_fixture_run(checkpoint_fixture *s, int first, int last)
{
    for (int step = first; step < last; step++) {
        if (step == 20 && is_prioritized(s->variant)) /* a run that goes on later knows it from the file alone */
            GPUR_TRY(gpur_replay_set_alpha(s->replay, 0.8f));
        if (step == 20 && s->variant == 5)
            GPUR_TRY(gpur_replay_set_beta(s->replay, 0.9f));
        GPUR_TRY(take_step(s, step));
        if (s->learner && step >= 12 && step % 3 == 0)
            GPUR_TRY(train(s));
        if (step >= 12 && step % 4 == 0)
            GPUR_TRY(sample(s));
    }
    return GPUR_OK;
}

static gpur_status leave_priorities(checkpoint_fixture *s)
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

gpur_status checkpoint_fixture_finish(checkpoint_fixture *s)
{
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= GPUR_WEIGHTS_TARGET; which++)
        for (int32_t i = 0; i < gpur_learner_weight_count(s->learner); i++) {
            gpur_weight_info info = {.size = sizeof info};
            float values[256];
            GPUR_TRY(gpur_learner_get_weight_info(s->learner, i, &info));
            GPUR_TRY(gpur_learner_read_weights(s->learner, which, info.name, values, info.count));
            leave_trace(s, values, info.count * (int64_t)sizeof *values);
        }
    GPUR_TRY(sample(s));
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_learner_stats learned = {.size = sizeof learned};
    GPUR_TRY(gpur_replay_get_stats(s->replay, &stats));
    GPUR_TRY(gpur_learner_get_stats(s->learner, &learned));
    const int64_t counts[] = {stats.first_id,      stats.visible, stats.appended,           stats.published,
                              stats.evicted,       stats.blocks,  stats.truncated_on_close, stats.sampled,
                              stats.frames_stored, learned.steps, learned.steps_enqueued,   learned.target_copies,
                              learned.actions};
    leave_trace(s, counts, sizeof counts);
    return leave_priorities(s);
}
