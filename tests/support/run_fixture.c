/* SPDX-License-Identifier: MIT */
#include "support/run_fixture.h"

#include "base/sized.h"
#include "learn/dqn/dqn.h"
#include "support/dpg_fixture.h"
#include "support/learner_fixture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* SplitMix64's finalizer [Steele, Lea & Flood 2014]. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a + 0x9e3779b97f4a7c15u) ^ (b * 0xbf58476d1ce4e5b9u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *const x = data;
    for (size_t i = 0; i < bytes; i++)
        hash = mix(hash, x[i]);
    return hash;
}

const float run_fixture_lows[RUN_NUMBERS] = {-2, 0}, run_fixture_highs[RUN_NUMBERS] = {2, 3};

static int has_vectors(const char *options)
{
    return strstr(options, "vectors") != NULL;
}

static int is_in_bounds(const float *action)
{
    return action[0] >= run_fixture_lows[0] && action[0] <= run_fixture_highs[0] && action[1] >= run_fixture_lows[1] &&
           action[1] <= run_fixture_highs[1];
}

/* The environment. Its state is a hash of all that has happened. */
typedef struct hash_env {
    uint64_t state;
    int64_t steps, fail_at, endless_at, bad_at;
    int32_t has_frames, has_lives, has_vectors;
} hash_env;

static void show(const hash_env *e, void *obs)
{
    for (int i = 0; i < RUN_FRAME && e->has_frames; i++)
        ((unsigned char *)obs)[i] = (unsigned char)mix(e->state, (uint64_t)i);
    for (int i = 0; i < RUN_FEATURES && !e->has_frames; i++)
        ((float *)obs)[i] = (float)(mix(e->state, (uint64_t)i) % 1000) / 1000.0f;
}

static const char *env_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    hash_env *const e = calloc(1, sizeof *e);
    const char *const fail = strstr(options, "fail="), *const endless = strstr(options, "endless="),
                      *const bad = strstr(options, "bad=");
    if (!e)
        return "no memory";
    *e = (hash_env){.state = mix(seed, 1),
                    .fail_at = fail ? atoll(fail + 5) : -1,
                    .endless_at = endless ? atoll(endless + 8) : INT64_MAX,
                    .bad_at = bad ? atoll(bad + 4) : -1,
                    .has_frames = strstr(options, "frames") != NULL,
                    .has_lives = strstr(options, "lives") != NULL,
                    .has_vectors = has_vectors(options)};
    info->obs = (gpur_space){.dtype = e->has_frames ? GPUR_UINT8 : GPUR_FLOAT32,
                             .shape = {e->has_frames ? 3 : RUN_FEATURES, e->has_frames ? RUN_FRAME / 3 : 0}};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = RUN_ACTIONS};
    if (e->has_vectors)
        info->action = (gpur_space){
            .dtype = GPUR_FLOAT32, .shape = {RUN_NUMBERS}, .lows = run_fixture_lows, .highs = run_fixture_highs};
    info->save_bytes = strstr(options, "unsaved") ? 0 : (int64_t)sizeof *e;
    info->max_steps = strstr(options, "limit=") ? atoi(strstr(options, "limit=") + 6) : 0;
    *env = e;
    return NULL;
}

static const char *env_reset(void *env, void *obs)
{
    hash_env *const e = env;
    e->state = mix(e->state, 2);
    show(e, obs);
    return NULL;
}

static const char *env_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    hash_env *const e = env;
    if (e->steps++ == e->fail_at)
        return "the motor is broken";
    if (e->has_vectors && !is_in_bounds(action))
        return "the action is out of its bounds";
    e->state = mix(e->state, 3 + (e->has_vectors ? hash_bytes(0, action, RUN_NUMBERS * sizeof(float))
                                                 : (uint64_t) * (const int32_t *)action));
    show(e, obs);
    if (e->steps == e->bad_at + 1)
        ((float *)obs)[0] = NAN;
    result->reward = (float)(e->state % 7) - 3.0f;
    const int is_endless = e->steps > e->endless_at;
    result->terminated = is_endless || e->state >> 8 & 15 ? 0 : 1;
    result->truncated = is_endless || e->state >> 12 & 31 ? 0 : 1;
    result->continues = e->has_lives && result->terminated && !result->truncated && e->state >> 20 & 1;
    return NULL;
}

static const char *env_save(void *env, void *state)
{
    memcpy(state, env, sizeof(hash_env));
    return NULL;
}

static const char *env_load(void *env, const void *state)
{
    memcpy(env, state, sizeof(hash_env));
    return NULL;
}

const gpur_env_type run_fixture_env = {
    .size = sizeof run_fixture_env,
    .name = "hashes",
    .init = env_init,
    .reset = env_reset,
    .step = env_step,
    .close = free,
    .save = env_save,
    .load = env_load,
};

typedef struct hash_vector {
    void *env[16];
    int32_t count, frame_bytes, action_bytes, awaits_reset[16];
} hash_vector;

static const char *vector_init(const char *options, uint64_t seed, int32_t num_envs, gpur_env_info *info, void **env)
{
    hash_vector *const v = calloc(1, sizeof *v);
    const uint64_t of_run = run_fixture_config(2, 1, 1).all.seed, first = gpur_run_env_seed(of_run, 0, 0);
    v->count = num_envs;
    for (int32_t i = 0; i < num_envs; i++)
        env_init(options, gpur_run_env_seed(of_run, i, 0) ^ seed ^ first, info, &v->env[i]);
    v->frame_bytes = strstr(options, "frames") ? RUN_FRAME : RUN_FEATURES * (int32_t)sizeof(float);
    v->action_bytes = has_vectors(options) ? RUN_NUMBERS * (int32_t)sizeof(float) : (int32_t)sizeof(int32_t);
    *env = v;
    return NULL;
}

static const char *vector_reset(void *env, void *obs)
{
    hash_vector *const v = env;
    for (int32_t i = 0; i < v->count; i++)
        env_reset(v->env[i], (char *)obs + i * v->frame_bytes);
    return NULL;
}

static const char *step_one(hash_vector *v, int32_t i, const void *action, const gpur_vector_result *r,
                            int is_same_step)
{
    char *const next = (char *)r->next_obs + i * v->frame_bytes, *const final =
                                                                     (char *)r->final_obs + i * v->frame_bytes;
    gpur_env_result result = {0};
    if (v->awaits_reset[i]) {
        v->awaits_reset[i] = 0;
        env_reset(v->env[i], next);
    } else {
        const char *const error = env_step(v->env[i], action, next, &result);
        const int is_over = result.terminated || result.truncated;
        if (error)
            return error;
        memcpy(final, next, (size_t)v->frame_bytes);
        v->awaits_reset[i] = is_over && !is_same_step;
        if (is_over && is_same_step)
            env_reset(v->env[i], next);
    }
    r->reward[i] = result.reward;
    r->terminated[i] = result.terminated;
    r->truncated[i] = result.truncated;
    r->continues[i] = result.continues;
    return NULL;
}

static const char *step_all(void *env, const void *actions, const gpur_vector_result *result, int is_same_step)
{
    hash_vector *const v = env;
    const char *error = NULL;
    for (int32_t i = 0; i < v->count && !error; i++)
        error = step_one(v, i, (const char *)actions + i * v->action_bytes, result, is_same_step);
    return error;
}

static const char *step_same(void *env, const void *actions, const gpur_vector_result *result)
{
    return step_all(env, actions, result, 1);
}

static const char *step_next(void *env, const void *actions, const gpur_vector_result *result)
{
    return step_all(env, actions, result, 0);
}

static void vector_close(void *env)
{
    hash_vector *const v = env;
    for (int32_t i = 0; i < v->count; i++)
        free(v->env[i]);
    free(v);
}

#define VECTOR(mode, step_function)                                                                                    \
    {                                                                                                                  \
        .size = sizeof(gpur_vector_env_type), .name = "vector of hashes", .autoreset = (mode), .init = vector_init,    \
        .reset = vector_reset, .step = (step_function), .close = vector_close                                          \
    }
const gpur_vector_env_type run_fixture_same_step = VECTOR(GPUR_AUTORESET_SAME_STEP, step_same);
const gpur_vector_env_type run_fixture_next_step = VECTOR(GPUR_AUTORESET_NEXT_STEP, step_next);

run_settings run_fixture_config(int32_t num_envs, int concurrent, int synchronized)
{
    run_settings config;
    (void)gpur_run_config_init(&config.all, sizeof config.all);
    config.all.eval_envs = 1;
    (void)gpur_fast_dqn_config_init(&config.run, sizeof config.run);
    config.run.num_envs = num_envs;
    config.run.concurrent = concurrent;
    config.run.synchronized = synchronized;
    config.run.target_period = 48;
    config.run.train_period = 4;
    config.run.prepopulation = 60;
    config.all.eval_period = 96;
    config.all.eval_episodes = 2;
    config.all.seed = 5;
    return config;
}

gpur_status run_fixture_create(gpur_learner *learner, const gpur_env_type *type, const gpur_vector_env_type *vector,
                               const run_settings *settings, gpur_run **run)
{
    gpur_run_config all = settings->all;
    all.type = type, all.vector = vector;
    return gpur_fast_dqn_create(learner, &all, &settings->run, run);
}

static void on_event(void *user, const gpur_run_event *event)
{
    run_fixture *const f = user;
    *(event->kind == GPUR_RUN_EPISODE ? &f->episodes : &f->evaluations) += 1;
    gpur_run_event plain = *event;
    plain.run = NULL, plain.policy = NULL, plain.learner = NULL;
    f->events += mix((uint64_t)(event->kind == GPUR_RUN_EPISODE ? f->episodes : f->evaluations),
                     hash_bytes(0, &plain, sizeof plain)); /* the order within a kind counts, that between kinds not */
}

static int has_cache(const char *options)
{
    return strstr(options, "cache") != NULL;
}

static gpur_status open_replay(run_fixture *f, const char *options)
{
    const int has_frames = strstr(options, "frames") != NULL, is_last = strstr(options, "last") != NULL;
    gpur_replay_config config;
    const gpur_field numbers = {"obs", GPUR_FLOAT32, {RUN_FEATURES}};
    const gpur_field first = {"obs", GPUR_UINT8, {RUN_STACK, 3, RUN_FRAME / 3}};
    const gpur_field last = {"obs", GPUR_UINT8, {3, RUN_FRAME / 3, RUN_STACK}};
    const gpur_field obs = !has_frames ? numbers : is_last ? last : first;
    gpur_field fields[] = {obs,
                           {"action", GPUR_INT64, {0}},
                           {"reward", GPUR_FLOAT32, {0}},
                           obs,
                           {"terminated", GPUR_BOOL, {0}},
                           {"truncated", GPUR_BOOL, {0}},
                           {"previous", GPUR_INT64, {0}}};
    fields[3].name = "next_obs";
    if (has_vectors(options))
        fields[1] = (gpur_field){"action", GPUR_FLOAT32, {RUN_NUMBERS}};
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 250; /* so that it is overwritten */
    config.fields = fields;
    config.field_count = (int32_t)(sizeof fields / sizeof *fields) - !has_cache(options);
    config.min_size = 50;
    config.block_rows = 16;
    config.max_batch = 32;
    if (has_frames) {
        config.layout = GPUR_LAYOUT_FRAMES;
        config.frame_stack = RUN_STACK;
        config.stack_axis = is_last ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
        config.stack_pad = strstr(options, "repeat") ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
        config.extra_frames = 200;
    }
    return gpur_replay_create(f->device, &config, &f->replay);
}

static gpur_status open_dpg(run_fixture *f)
{
    gpur_dpg_config config = dpg_fixture_config();
    config.actor.num_actions = RUN_NUMBERS;
    config.batch_size = 8;
    config.target_period = 5; /* no part of a period of the run */
    return gpur_dpg_create(f->replay, &config, &f->learner);
}

gpur_status run_fixture_open(run_fixture *f, const gpur_device_config *device, const char *name,
                             const run_settings *config, const gpur_vector_env_type *vector)
{
    run_settings settings = *config;
    gpur_dqn_config learner = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    const char *const options = settings.all.env_options ? settings.all.env_options : "";
    *f = (run_fixture){0};
    learner.network.num_actions = RUN_ACTIONS;
    learner.network.input_scale = strstr(options, "frames") ? 1.0f / 255.0f : 1.0f;
    learner.batch_size = 8;
    learner.target_period = 12 * settings.run.train_steps; /* 48 / 4 x train_steps */
    learner.exploration = (gpur_schedule){.first = 1.0f, .last = 0.1f, .steps = 150};
    if (has_cache(options)) {
        const char *const block = strstr(options, "cache=");
        const int64_t length = block ? atoll(block + 6) : 6;
        learner.returns.cache_size = (95 / length + 1) * length; /* 96: the 48 / 4 batches of 8 of a period */
        learner.returns.block_length = length;
        learner.returns.lambda = 0.75f;
        learner.double_dqn = 0;
    }
    settings.all.on_event = on_event;
    settings.all.user = f;
    GPUR_TRY(gpur_device_open(name, device, &f->device));
    GPUR_TRY(open_replay(f, options));
    GPUR_TRY(has_vectors(options) ? open_dpg(f) : gpur_dqn_create(f->replay, &learner, &f->learner));
    return run_fixture_create(f->learner, &run_fixture_env, vector, &settings, &f->run);
}

void run_fixture_close(run_fixture *f)
{
    gpur_run_destroy(f->run);
    gpur_learner_destroy(f->learner);
    gpur_replay_destroy(f->replay);
    gpur_device_close(f->device);
    *f = (run_fixture){0};
}

/* Every field of every visible row. */
static uint64_t hash_rows(gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_field_info field = {.size = sizeof field};
    unsigned char values[256];
    uint64_t hash = 1;
    if (gpur_replay_get_stats(replay, &stats) != GPUR_OK)
        return 0;
    for (int64_t id = stats.first_id; id < stats.first_id + stats.visible; id++) {
        gpur_batch *batch = NULL;
        if (gpur_replay_gather(replay, 1, &id, NULL, &batch) != GPUR_OK)
            return 0;
        for (int32_t i = 0; gpur_replay_get_field(replay, i, &field) == GPUR_OK; i++) {
            if (gpur_batch_read(batch, field.name, values, field.bytes) != GPUR_OK)
                return 0;
            hash = hash_bytes(hash, values, (size_t)field.bytes);
        }
        gpur_batch_release(batch);
    }
    return mix(hash, (uint64_t)stats.appended);
}

run_hashes run_fixture_hashes(run_fixture *f)
{
    static float weights[100000];
    run_hashes hashes = {.events = f->events, .replay = hash_rows(f->replay)};
    const int has_dqn = f->learner->algorithm == &gpur_algorithm_dqn;
    const int32_t last =
        has_dqn && gpur_dqn_of(f->learner)->config.returns.cache_size > 0 ? GPUR_WEIGHTS_ONLINE : GPUR_WEIGHTS_TARGET;
    for (int32_t which = GPUR_WEIGHTS_ONLINE; which <= last; which++) {
        const int64_t count = learner_fixture_weights(f->learner, which, weights, 100000);
        if (count <= 0)
            return (run_hashes){0};
        hashes.weights = hash_bytes(hashes.weights, weights, (size_t)count * sizeof *weights);
    }
    return hashes;
}

static void delay(void *context, gpur_run_phase part, int64_t step)
{
    const uint64_t hash = mix(mix((uint64_t)(uintptr_t)context, (uint64_t)part), (uint64_t)step);
    const struct timespec time = {0, (long)(hash >> 16) % 300000};
    if (hash % 4 == 0)
        nanosleep(&time, NULL);
}

void run_fixture_delay(run_fixture *f, uint64_t schedule)
{
    gpur_fast_dqn_of(f->run)->delay = schedule ? delay : NULL;
    gpur_fast_dqn_of(f->run)->delay_context = (void *)(uintptr_t)schedule;
}
