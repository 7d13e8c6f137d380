/* SPDX-License-Identifier: MIT */
#include "support/kill_run.h"

#include "base/status.h"
#include "support/replay_kit.h"

#include <string.h>

enum { ENVS = 3, FEATURES = 8, STACK = 2, DRAWN = 16, MANY = 15000, FEW = 1500 };

const char *const kill_names[KILL_KINDS] = {"packed", "prioritized", "n-step", "linked", "all together", "learner"};

static int is_linked(int kind)
{
    return kind == KILL_LINKED || kind == KILL_ALL;
}

static int64_t capacity_of(int kind)
{
    return kind == KILL_PACKED ? MANY : FEW;
}

static void set_kind(gpur_replay_config *config, int kind)
{
    config->prioritized = kind == KILL_PRIORITIZED || kind == KILL_ALL;
    config->index_source = config->prioritized ? GPUR_PRIORITIZED : GPUR_UNIFORM;
    config->n_step = kind == KILL_N_STEP || kind == KILL_ALL ? 3 : 1;
    if (is_linked(kind)) {
        config->layout = GPUR_LINKED;
        config->frame_stack = STACK;
        config->frame_slack = 200;
    }
}

static gpur_status open_replay(kill_run *run)
{
    gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {FEATURES}},      {"action", GPUR_INT32, {0}},    {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {FEATURES}}, {"terminated", GPUR_BOOL, {0}}, {"truncated", GPUR_BOOL, {0}},
        {"discount", GPUR_FLOAT32, {0}},        {"previous", GPUR_INT64, {0}},
    };
    for (int f = 0; f < 4 && is_linked(run->kind); f += 3)
        fields[f].shape[0] = STACK, fields[f].shape[1] = FEATURES;
    gpur_replay_config config = kit_config(fields, 8, capacity_of(run->kind), 32, 64);
    config.seed = 3;
    set_kind(&config, run->kind);
    return gpur_replay_create(run->device, &config, &run->replay);
}

static gpur_status open_writer(kill_run *run)
{
    gpur_writer_config config;
    GPUR_TRY(gpur_writer_config_init(&config, sizeof config));
    config.num_envs = ENVS;
    config.input = is_linked(run->kind) ? GPUR_INPUT_FRAMES : GPUR_INPUT_STACKS;
    return gpur_writer_open(run->replay, &config, &run->writer);
}

static gpur_status open_learner(kill_run *run)
{
    gpur_learner_config config;
    GPUR_TRY(gpur_learner_config_init(&config, sizeof config));
    config.network.outputs = 3;
    config.target_period = 7;
    config.seed = 11;
    return gpur_learner_create(run->replay, &config, &run->learner);
}

/* Numbers in [-1, 1) that depend on step and environment alone. */
static void make_obs(int64_t step, float *obs)
{
    uint64_t state = 1 + (uint64_t)(step + 1);
    for (int i = 0; i < ENVS * FEATURES; i++)
        obs[i] = (float)kit_below(&state, 2000) / 1000.0f - 1.0f;
}

static gpur_status play(const kill_run *run, int64_t step)
{
    float obs[ENVS * FEATURES], reward[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
    int32_t actions[ENVS];
    make_obs(step, obs);
    for (int64_t env = 0; env < ENVS; env++) {
        actions[env] = (int32_t)((step + env) % 3);
        reward[env] = obs[env * FEATURES];
        terminated[env] = (step + 3 * env) % 11 == 10;
        truncated[env] = !terminated[env] && (step + env) % 17 == 16;
    }
    GPUR_TRY(gpur_writer_step(run->writer, actions, reward, obs, terminated, truncated));
    for (int32_t env = 0; env < ENVS; env++)
        if (terminated[env] || truncated[env])
            GPUR_TRY(gpur_writer_reset(run->writer, env, obs + (env + 1) % ENVS * FEATURES));
    return GPUR_OK;
}

/* More rows than there is room for, so that the ring has come round. */
static gpur_status fill(const kill_run *run)
{
    const int64_t plays = capacity_of(run->kind) * 5 / 4 / ENVS;
    float obs[ENVS * FEATURES];
    make_obs(-plays - 1, obs);
    GPUR_TRY(gpur_writer_reset(run->writer, -1, obs));
    for (int64_t step = -plays; step < 0; step++)
        GPUR_TRY(play(run, step));
    return GPUR_OK;
}

gpur_status kill_run_open(kill_run *run, gpur_device *device, int kind)
{
    memset(run, 0, sizeof *run);
    run->device = device;
    run->kind = kind;
    GPUR_TRY(open_replay(run));
    GPUR_TRY(open_writer(run));
    if (kind != KILL_LEARNER)
        return GPUR_OK;
    GPUR_TRY(fill(run)); /* what it learns from is in no file */
    return open_learner(run);
}

void kill_run_close(kill_run *run)
{
    gpur_learner_destroy(run->learner);
    gpur_writer_destroy(run->writer);
    gpur_replay_destroy(run->replay);
}

gpur_status kill_run_begin(kill_run *run)
{
    return run->kind == KILL_LEARNER ? GPUR_OK : fill(run);
}

/* Some of the drawn transitions get new priorities. */
static gpur_status draw(const kill_run *run)
{
    gpur_batch *batch = NULL;
    int64_t ids[DRAWN];
    float priorities[DRAWN];
    for (int i = 0; i < DRAWN; i++)
        priorities[i] = (float)((run->steps + i) % 13);
    GPUR_TRY(gpur_replay_sample(run->replay, DRAWN, NULL, &batch));
    const gpur_status status = gpur_batch_read(batch, "id", ids, sizeof ids);
    gpur_batch_release(batch);
    if (status != GPUR_OK || (run->kind != KILL_PRIORITIZED && run->kind != KILL_ALL))
        return status;
    return gpur_replay_update_priorities(run->replay, DRAWN, ids, priorities, NULL);
}

static gpur_status learn(const kill_run *run)
{
    float obs[ENVS * FEATURES];
    int32_t actions[ENVS];
    make_obs(run->steps, obs);
    GPUR_TRY(gpur_learner_train(run->learner, 1));
    return gpur_learner_act(run->learner, ENVS, obs, 0.5f, actions, NULL);
}

gpur_status kill_run_step(kill_run *run)
{
    if (run->kind == KILL_LEARNER) {
        GPUR_TRY(learn(run));
    } else {
        GPUR_TRY(play(run, run->steps));
        GPUR_TRY(draw(run));
    }
    run->steps++;
    return GPUR_OK;
}

gpur_status kill_run_save(const kill_run *run, const char *path, const gpur_checkpoint_options *options)
{
    return run->kind == KILL_LEARNER ? gpur_learner_save(run->learner, path, options)
                                     : gpur_replay_save(run->replay, path, options);
}

gpur_status kill_run_load(kill_run *run, const char *path, int64_t steps)
{
    run->steps = steps;
    return run->kind == KILL_LEARNER ? gpur_learner_load(run->learner, path, NULL)
                                     : gpur_replay_load(run->replay, path, NULL);
}
