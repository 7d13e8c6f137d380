/* SPDX-License-Identifier: MIT */
#include "support/ga3c_fixture.h"

#include "base/status.h"

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

static void sleep_for(int64_t microseconds)
{
    const struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    if (microseconds > 0)
        nanosleep(&time, NULL);
}

/* The environment. */

int32_t ga3c_env_length(const char *options, int32_t id, int32_t episode)
{
    const char *const length = strstr(options, "length=");
    return length ? (int32_t)atoi(length + 7) : 1 + (int32_t)(mix((uint64_t)id, (uint64_t)episode) % 12);
}

int ga3c_env_is_cut_off(const char *options, int32_t episode)
{
    return strstr(options, "truncate") != NULL && episode % 2 == 1;
}

float ga3c_env_reward(const char *options, int32_t id, int32_t total, int is_last)
{
    if (strstr(options, "sparse"))
        return is_last ? 1.0f : 0.0f;
    return 0.5f * (float)(mix((uint64_t)id, 1000u + (uint64_t)total) % 9) - 2.0f;
}

typedef struct fake_env {
    char options[64];
    int32_t id, episode, t, total, fail_at, nan_at, has_frames;
} fake_env;

static void show(const fake_env *e, void *obs)
{
    const float numbers[] = {(float)e->id, (float)e->episode, (float)e->t, (float)e->total};
    const unsigned char bytes[] = {
        (unsigned char)e->id,   (unsigned char)(e->id >> 8), (unsigned char)e->episode, (unsigned char)e->t, 0,
        (unsigned char)e->total};
    if (e->has_frames)
        memcpy(obs, bytes, sizeof bytes);
    else
        memcpy(obs, numbers, sizeof numbers);
}

static const char *env_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    fake_env *const e = calloc(1, sizeof *e);
    const char *const fail = strstr(options, "fail="), *const nan = strstr(options, "nan=");
    if (!e)
        return "no memory";
    strncpy(e->options, options, sizeof e->options - 1);
    e->has_frames = strstr(options, "frames") != NULL;
    e->id = (int32_t)(seed & (e->has_frames ? 0xffff : 0xfffff));
    e->episode = -1;
    e->fail_at = fail ? (int32_t)atoi(fail + 5) : -1;
    e->nan_at = nan ? (int32_t)atoi(nan + 4) : -1;
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {GA3C_FEATURES}};
    if (e->has_frames)
        info->obs = (gpur_space){.dtype = GPUR_UINT8, .shape = {2, 3}};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = GA3C_ACTIONS};
    *env = e;
    return NULL;
}

static const char *env_reset(void *env, void *obs)
{
    fake_env *const e = env;
    e->episode++;
    e->t = 0;
    show(e, obs);
    return NULL;
}

static void take_time(const fake_env *e)
{
    static _Atomic uint64_t chance;
    if (strstr(e->options, "slow"))
        sleep_for(2000);
    if (strstr(e->options, "delay"))
        sleep_for((int64_t)(mix(atomic_fetch_add(&chance, 1), (uint64_t)clock()) % 200));
}

static const char *env_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    fake_env *const e = env;
    const int32_t taken = *(const int32_t *)action;
    if (e->total == e->fail_at)
        return "the motor is broken";
    if (taken < 0 || taken >= GA3C_ACTIONS)
        return "an action out of range";
    take_time(e);
    const int is_last = ++e->t == ga3c_env_length(e->options, e->id, e->episode);
    result->reward = e->total == e->nan_at ? NAN : ga3c_env_reward(e->options, e->id, e->total, is_last);
    e->total++;
    const int is_cut_off = ga3c_env_is_cut_off(e->options, e->episode);
    result->terminated = is_last && !is_cut_off;
    result->truncated = is_last && is_cut_off;
    result->continues = result->terminated && strstr(e->options, "lives") && e->episode % 2 == 0;
    show(e, obs);
    return NULL;
}

const gpur_env_type ga3c_fixture_env = {
    .size = sizeof ga3c_fixture_env,
    .name = "counts",
    .init = env_init,
    .reset = env_reset,
    .step = env_step,
    .close = free,
};

/* The model. */

float ga3c_fake_value(int32_t id, int32_t episode, int32_t t)
{
    return (float)(mix((uint64_t)id, (uint64_t)(episode * 1000 + t)) % 64) / 16.0f - 2.0f;
}

int32_t ga3c_fake_action(uint32_t lane, uint64_t step)
{
    return (int32_t)(mix(lane, step) % GA3C_ACTIONS);
}

static int64_t obs_bytes(const ga3c_fake *fake)
{
    return fake->has_frames ? GA3C_STACK * GA3C_FRAME : (int64_t)sizeof(float) * GA3C_FEATURES;
}

/* What an observation says of its environment. */
static void read_obs(const ga3c_fake *fake, const void *obs, ga3c_row *row)
{
    if (fake->has_frames) {
        const unsigned char *const last = (const unsigned char *)obs + (GA3C_STACK - 1) * GA3C_FRAME;
        memcpy(row->stack, obs, sizeof row->stack);
        row->id = last[0] | last[1] << 8;
        row->episode = last[2], row->t = last[3], row->total = last[5];
        return;
    }
    float numbers[GA3C_FEATURES];
    memcpy(numbers, obs, sizeof numbers);
    row->id = (int32_t)numbers[0], row->episode = (int32_t)numbers[1];
    row->t = (int32_t)numbers[2], row->total = (int32_t)numbers[3];
}

int64_t ga3c_count_entries(gpur_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const int64_t count = queue->count;
    pthread_mutex_unlock(&queue->lock);
    return count;
}

static int64_t count_rollouts(gpur_ga3c *run)
{
    gpur_mutex_lock(&run->core.lock);
    const int64_t dropped = run->core.stats.ga3c.refused_rollouts + run->core.stats.ga3c.overwritten_rollouts;
    gpur_mutex_unlock(&run->core.lock);
    return dropped + ga3c_count_entries(&run->rollouts);
}

static int64_t count_requests(gpur_ga3c *run)
{
    return ga3c_count_entries(&run->requests);
}

static int64_t count_left(gpur_ga3c *run)
{
    gpur_mutex_lock(&run->core.lock);
    const int64_t left = run->core.stats.ga3c.left_rollouts;
    gpur_mutex_unlock(&run->core.lock);
    return left;
}

/* Once, until there are so many; for 20 s at most. */
static void await(ga3c_fake *fake, int64_t (*count)(gpur_ga3c *), _Atomic int64_t *awaited)
{
    for (int i = 0; i < 20000 && count(gpur_ga3c_of(*fake->run)) < *awaited; i++)
        sleep_for(1000);
    fake->waited_in_vain |= count(gpur_ga3c_of(*fake->run)) < *awaited;
    *awaited = 0;
}

static gpur_status predict(void *context, int64_t count, const void *obs, const uint32_t *lanes, const uint64_t *steps,
                           int32_t greedy, int32_t *actions, float *values, int64_t *version)
{
    ga3c_fake *const fake = context;
    *version = atomic_load(&fake->steps);
    await(fake, count_requests, &fake->awaited_requests);
    if (atomic_fetch_add(&fake->predictions, 1) + 1 == fake->predict_fails_at)
        return gpur_fail(GPUR_DEVICE_ERROR, "the network is broken");
    for (int64_t i = 0; i < count; i++) {
        ga3c_row row = {0};
        read_obs(fake, (const unsigned char *)obs + i * obs_bytes(fake), &row);
        actions[i] = ga3c_fake_action(lanes[i], steps[i]);
        values[i] = ga3c_fake_value(row.id, row.episode, row.t);
        if (fake->diverges_at > 0 && *version >= fake->diverges_at)
            values[i] = INFINITY;
    }
    atomic_fetch_add(&fake->greedy, greedy);
    if (count > atomic_load(&fake->largest_prediction))
        atomic_store(&fake->largest_prediction, count);
    return GPUR_OK;
}

static void keep(ga3c_fake *fake, const gpur_actor_critic_batch *batch, int64_t number)
{
    if (fake->count + batch->count > fake->room) {
        fake->room = 2 * fake->room + batch->count;
        fake->rows = realloc(fake->rows, (size_t)fake->room * sizeof *fake->rows);
    }
    for (int64_t i = 0; i < batch->count && fake->rows; i++) {
        ga3c_row *const row = &fake->rows[fake->count++];
        *row = (ga3c_row){.action = batch->actions[i], .returned = batch->returns[i], .batch = number, .at = i};
        read_obs(fake, (const unsigned char *)batch->obs + i * obs_bytes(fake), row);
    }
}

static gpur_status train(void *context, const gpur_actor_critic_batch *batch, gpur_actor_critic_losses *losses)
{
    ga3c_fake *const fake = context;
    gpur_status status = GPUR_OK;
    pthread_mutex_lock(&fake->lock);
    await(fake, count_rollouts, &fake->awaited_rollouts);
    await(fake, count_left, &fake->awaited_left);
    const int64_t number = atomic_load(&fake->steps) + 1;
    if (batch->count < 1 || batch->count > fake->max_batch)
        status = gpur_fail(GPUR_INVALID_ARGUMENT, "a batch of %lld", (long long)batch->count);
    else if (number == fake->train_fails_at)
        status = gpur_fail(GPUR_DEVICE_ERROR, "the optimizer is broken");
    else
        keep(fake, batch, number);
    if (status == GPUR_OK)
        atomic_store(&fake->steps, number);
    pthread_mutex_unlock(&fake->lock);
    losses->step = number;
    losses->value = 0.25;
    return status;
}

static gpur_status diverged(void *context, int64_t step)
{
    (void)context;
    return gpur_fail(
        GPUR_INVALID_ARGUMENT,
        "the learner has diverged: after train step %lld its numbers are not finite (weights), and the "
        "loss before was 0.25; lower learning_rate, now 7, to limit the gradient by clip_norm, now 0 (none)",
        (long long)step);
}

static gpur_status check(void *context)
{
    (void)context;
    return GPUR_OK;
}

static gpur_status broadcast(void *context)
{
    ga3c_fake *const fake = context;
    atomic_fetch_add(&fake->published, 1);
    return GPUR_OK;
}

typedef struct fake_local {
    ga3c_fake *fake;
    int64_t agent; /* whose copy it is; -1: it has not been used */
} fake_local;

static gpur_status local_open(void *context, gpur_local_model **local)
{
    ga3c_fake *const fake = context;
    fake_local *const made = malloc(sizeof *made);
    *local = (gpur_local_model *)(void *)made;
    if (!made)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory");
    *made = (fake_local){fake, -1};
    atomic_fetch_add(&fake->locals, 1);
    return GPUR_OK;
}

static void local_close(gpur_local_model *local)
{
    fake_local *const l = (void *)local;
    atomic_fetch_add(&l->fake->locals, -1);
    free(l);
}

static gpur_status local_pull(gpur_local_model *local)
{
    const fake_local *const l = (const void *)local;
    atomic_fetch_add(&l->fake->pulls, 1);
    return GPUR_OK;
}

static gpur_status local_predict(gpur_local_model *local, const void *obs, uint32_t lane, uint64_t step,
                                 int32_t *action, float *value)
{
    fake_local *const l = (void *)local;
    int64_t version;
    if (l->agent < 0)
        l->agent = lane;
    if (l->agent != lane)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "the copy of another agent");
    return predict(l->fake, 1, obs, &lane, &step, 0, action, value, &version);
}

static gpur_status local_train(gpur_local_model *local, const gpur_actor_critic_batch *batch,
                               gpur_actor_critic_losses *losses)
{
    const fake_local *const l = (const void *)local;
    return train(l->fake, batch, losses);
}

static int64_t steps_of(void *context)
{
    ga3c_fake *const fake = context;
    return atomic_load(&fake->steps);
}

static gpur_status save(void *context, const char *path)
{
    ga3c_fake *const fake = context;
    FILE *const file = fopen(path, "w");
    if (!file)
        return gpur_fail(GPUR_FILE_ERROR, "cannot write %s", path);
    fprintf(file, "%lld", (long long)atomic_load(&fake->steps));
    return fclose(file) == 0 ? GPUR_OK : gpur_fail(GPUR_FILE_ERROR, "cannot write %s", path);
}

static gpur_status load(void *context, const char *path, int64_t trained)
{
    ga3c_fake *const fake = context;
    FILE *const file = fopen(path, "r");
    long long steps = -1;
    if (!file)
        return gpur_fail(GPUR_FILE_ERROR, "cannot read %s", path);
    const int has_number = fscanf(file, "%lld", &steps) == 1;
    fclose(file);
    if (!has_number || steps != trained)
        return gpur_fail(GPUR_FILE_ERROR, "%s: %lld train steps", path, steps);
    atomic_store(&fake->steps, steps);
    return GPUR_OK;
}

static void close_model(void *context)
{
    ga3c_fake *const fake = context;
    atomic_store(&fake->is_closed, 1);
}

/* The run. */

static void note(void *user, const gpur_run_event *event)
{
    ga3c_fixture *const f = user;
    if (event->kind == GPUR_RUN_EPISODE) {
        f->episodes++;
        f->lengths += event->length;
        f->returns += event->mean_return;
        if (f->changes_numbers && f->changed == GPUR_OK)
            f->changed =
                gpur_ga3c_set_counts(f->run, 1 + (int32_t)(f->episodes % 6), 1 + (int32_t)(f->episodes % 2), 1);
    } else {
        f->tuned++;
        if (f->on_tuned)
            f->on_tuned(event);
    }
}

ga3c_settings ga3c_fixture_config(const char *env_options)
{
    ga3c_settings config = {0};
    (void)gpur_ga3c_config_init(&config.run, sizeof config.run);
    config.run.agents = 4;
    config.run.predictors = config.run.trainers = 1;
    (void)gpur_run_config_init(&config.all, sizeof config.all);
    config.all.type = &ga3c_fixture_env;
    config.all.env_options = env_options;
    config.all.eval_envs = 1;
    config.all.seed = 7;
    return config;
}

gpur_status ga3c_fixture_open(ga3c_fixture *f, const ga3c_settings *config)
{
    ga3c_fake *const fake = &f->fake;
    ga3c_settings known = *config;
    known.all.on_event = note;
    known.all.user = f;
    f->run = NULL;
    if (!f->device)
        GPUR_TRY(gpur_device_open("cpu", NULL, &f->device));
    pthread_mutex_init(&fake->lock, NULL);
    fake->device = f->device;
    fake->run = &f->run;
    fake->has_frames = strstr(config->all.env_options, "frames") != NULL;
    if (fake->max_batch == 0)
        fake->max_batch = 6000;
    gpur_ga3c_model model = {.context = fake,
                             .obs = {"obs", GPUR_FLOAT32, {GA3C_FEATURES}},
                             .check_finite = 1,
                             .num_actions = GA3C_ACTIONS,
                             .max_batch = fake->max_batch,
                             .device = f->device,
                             .predict = predict,
                             .train = train,
                             .diverged = diverged,
                             .check = check,
                             .broadcast = broadcast,
                             .local_open = local_open,
                             .local_close = local_close,
                             .local_pull = local_pull,
                             .local_predict = local_predict,
                             .local_train = local_train,
                             .steps = steps_of,
                             .save = save,
                             .load = load,
                             .close = close_model};
    if (fake->has_frames)
        model.obs = (gpur_field){"obs", GPUR_UINT8, {GA3C_STACK, 2, 3}};
    return gpur_ga3c_create_with(&model, &known.all, &known.run, &f->run);
}

void ga3c_fixture_close(ga3c_fixture *f)
{
    gpur_run_destroy(f->run);
    gpur_device_close(f->device);
    f->run = NULL;
    f->device = NULL;
}

void ga3c_fixture_free(ga3c_fixture *f)
{
    free(f->fake.rows);
    *f = (ga3c_fixture){0};
}

gpur_run_stats ga3c_fixture_stats(const ga3c_fixture *f)
{
    gpur_run_stats stats = {.size = sizeof stats};
    (void)gpur_run_get_stats(f->run, &stats);
    return stats;
}

uint64_t ga3c_fixture_hash(const ga3c_fixture *f)
{
    uint64_t hash = 1;
    for (int64_t i = 0; i < f->fake.count; i++) {
        const ga3c_row *const row = &f->fake.rows[i];
        uint32_t bits;
        memcpy(&bits, &row->returned, sizeof bits);
        hash = mix(mix(hash, (uint64_t)row->id << 32 | (uint32_t)row->total),
                   (uint64_t)row->batch << 8 | (uint64_t)row->at);
        hash = mix(hash, (uint64_t)row->action << 32 | bits);
    }
    return hash;
}
