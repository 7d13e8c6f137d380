/* SPDX-License-Identifier: MIT */
/* The public functions of all runs, and what they share. */
#include "run/core.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "env/type.h"
#include "file/safetensors.h"
#include "kernels/lib/random.h"
#include "replay/config.h"
#include "run/single_env.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_EVAL_ENVS = 8, MAX_EVAL_ENVS = 1024 };

static const gpur_run_config defaults = {
    .size = sizeof(gpur_run_config), .eval_period = 250000, .eval_episodes = 30, .eval_epsilon = 0.05f};

gpur_status gpur_run_config_init(gpur_run_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_run_config");
}

/* The error that ends a run. */

void gpur_run_end(gpur_run *run, gpur_status status, const char *error)
{
    if (run->status == GPUR_OK)
        snprintf(run->error, sizeof run->error, "%s", error);
    if (run->status == GPUR_OK)
        run->status = status;
    gpur_mutex_notify_all(&run->lock);
}

void gpur_run_fail(gpur_run *run, gpur_status status)
{
    gpur_mutex_lock(&run->lock);
    gpur_run_end(run, status, gpur_last_error());
    gpur_mutex_unlock(&run->lock);
}

gpur_status gpur_run_fail_loading(gpur_run *run, gpur_status status)
{
    char error[GPUR_RUN_ERROR];
    snprintf(error, sizeof error, "%s", gpur_last_error());
    status = gpur_fail(status, "%s; the run is loaded in part, and has ended", error);
    gpur_run_fail(run, status);
    return status;
}

int gpur_run_has_failed(gpur_run *run)
{
    gpur_mutex_lock(&run->lock);
    const int has = run->status != GPUR_OK;
    gpur_mutex_unlock(&run->lock);
    return has;
}

gpur_status gpur_run_check_open(gpur_run *run)
{
    GPUR_REQUIRE(run, "run is NULL");
    GPUR_REQUIRE(!gpur_run_has_failed(run), "the run has ended by an error, and can only be destroyed: %s", run->error);
    return GPUR_OK;
}

/* Events. */

void gpur_run_add_return(gpur_run *run, double episode_return)
{
    run->returns.values[run->returns.count++ % GPUR_RUN_RECENT] = episode_return;
}

void gpur_run_count_episode(gpur_run *run, double episode_return)
{
    run->stats.episodes++;
    gpur_run_add_return(run, episode_return);
}

static void free_error(const gpur_run_event *event)
{
    if (event->error && event->error[0])
        free((void *)(uintptr_t)event->error);
}

static void free_events(gpur_run_events *events)
{
    for (int64_t i = 0; i < events->count; i++)
        free_error(&events->list[i]);
    free(events->list);
}

/* Sets what all events have. Under the lock. */
static void complete(gpur_run *run, gpur_run_event *event)
{
    event->size = sizeof *event;
    event->run = run;
    event->learner = run->learner;
    event->error = event->error && event->error[0] ? event->error : ""; /* an empty text may be memory of the caller */
    if (event->kind != GPUR_RUN_EVALUATION)                             /* whose loss is that of its weights */
        event->loss = run->system->loss(run);
}

static int make_room(gpur_run_events *events)
{
    const int64_t room = events->room ? 2 * events->room : 16;
    if (events->count < events->room)
        return 1;
    gpur_run_event *const list = realloc(events->list, (size_t)room * sizeof *list);
    if (!list)
        return 0;
    events->list = list;
    events->room = room;
    return 1;
}

void gpur_run_add_event(gpur_run *run, gpur_run_event event)
{
    gpur_run_events *const events = &run->events;
    if (!run->config.on_event)
        return;
    complete(run, &event);
    if (event.error[0])
        event.error = strdup(event.error);
    if (!event.error || !make_room(events)) {
        free_error(&event);
        gpur_run_end(run, GPUR_OUT_OF_MEMORY, "no memory for more events");
        return;
    }
    if (events->count == 0)
        gpur_mutex_notify_all(&run->lock);
    events->list[events->count++] = event;
}

/* The list is taken as a whole, so that the caller's function may take its time. */
void gpur_run_deliver_events(gpur_run *run)
{
    gpur_mutex_lock(&run->lock);
    gpur_run_events taken = run->events;
    run->events = (gpur_run_events){0};
    gpur_mutex_unlock(&run->lock);
    for (int64_t i = 0; i < taken.count; i++)
        run->config.on_event(run->config.user, &taken.list[i]);
    free_events(&taken);
}

void gpur_run_report_evaluation(gpur_run *run, const gpur_run_event *event)
{
    gpur_run_event full = *event;
    gpur_mutex_lock(&run->lock);
    run->stats.evaluations++;
    run->stats.evaluated_steps = event->env_steps;
    run->stats.evaluated_return = event->mean_return;
    complete(run, &full);
    gpur_mutex_unlock(&run->lock);
    if (run->config.on_event)
        run->config.on_event(run->config.user, &full);
    gpur_run_deliver_events(run);
}

/* Environments. */

uint64_t gpur_run_env_seed(uint64_t seed, int32_t index, int64_t made)
{
    const gpur_u32x4 bits = gpur_random_bits(seed, GPUR_RANDOM_ENVIRONMENT, (uint64_t)made, (uint32_t)index);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

int32_t gpur_run_eval_envs(const gpur_run_config *config, int64_t episodes)
{
    return config->eval_envs ? config->eval_envs : (int32_t)gpur_min(episodes, DEFAULT_EVAL_ENVS);
}

gpur_status gpur_run_make_env(const gpur_run_config *config, uint64_t seed, gpur_env_runner *runner,
                              gpur_env_info *info)
{
    const gpur_env_type *const type = runner->type;
    void *env = NULL;
    *info = (gpur_env_info){.size = sizeof *info};
    GPUR_TRY(gpur_env_error(type == &gpur_single_env
                                ? gpur_single_env_init(config->vector, config->env_options, seed, info, &env)
                                : type->init(config->env_options, seed, info, &env)));
    return gpur_env_runner_take_env(runner, env, info);
}

gpur_status gpur_run_read_config(const gpur_run_config *given, gpur_run_config *config)
{
    *config = defaults;
    GPUR_TRY(gpur_sized_read(config, sizeof *config, given, "gpur_run_config"));
    GPUR_REQUIRE(config->type || config->vector, "the type of environment is NULL");
    if (config->type)
        GPUR_TRY(gpur_env_type_check(config->type));
    if (config->vector)
        GPUR_TRY(gpur_vector_env_type_check(config->vector));
    if (!config->env_options)
        config->env_options = "";
    GPUR_TRY(gpur_range_check(config->eval_period, 0, INT64_MAX / 4, "eval_period"));
    GPUR_TRY(gpur_range_check(config->eval_episodes, 0, INT64_MAX / 4, "eval_episodes"));
    GPUR_TRY(gpur_range_check(config->eval_envs, 0, MAX_EVAL_ENVS, "eval_envs"));
    GPUR_REQUIRE(config->eval_epsilon >= 0.0f && config->eval_epsilon <= 1.0f, "eval_epsilon is %g; it must be 0 to 1",
                 (double)config->eval_epsilon);
    return GPUR_OK;
}

gpur_status gpur_run_require_type(const gpur_run_config *config, const char *system)
{
    GPUR_REQUIRE(config->type && !config->vector, "the environments are a vector; %s needs a type that steps one",
                 system);
    return GPUR_OK;
}

gpur_status gpur_run_open(gpur_run *run, const gpur_run_system *system, const gpur_run_config *given)
{
    gpur_run_config config;
    GPUR_TRY(gpur_run_read_config(given, &config));
    run->system = system;
    run->config = config;
    run->stats.evaluated_return = NAN;
    run->config.env_options = strdup(config.env_options);
    if (!run->config.env_options)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the environments' options");
    return gpur_mutex_open(&run->lock, "a run");
}

void gpur_run_close(gpur_run *run)
{
    gpur_mutex_close(&run->lock);
    free_events(&run->events);
    free((void *)(uintptr_t)run->config.env_options);
}

void gpur_run_destroy(gpur_run *run)
{
    if (run)
        run->system->destroy(run);
}

/* Calls. */

/* Returns the error that has ended the run, or the error of the call, or GPUR_INTERRUPTED if the run was stopped. */
static gpur_status end_call(gpur_run *run, gpur_status status)
{
    char error[GPUR_RUN_ERROR];
    snprintf(error, sizeof error, "%s", status == GPUR_OK ? "" : gpur_last_error());
    gpur_run_deliver_events(run);
    if (gpur_run_has_failed(run))
        return gpur_fail(run->status, "%s", run->error);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED)
        return gpur_fail(status, "%s", error);
    if (!atomic_exchange(&run->stopping, 0))
        return status;
    gpur_run_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_run_get_stats(run, &stats));
    return gpur_fail(GPUR_INTERRUPTED,
                     "the run was stopped after %" PRId64 " environment steps and %" PRId64 " train steps",
                     stats.env_steps, stats.train_steps);
}

/* Refuses train steps of a system whose environment steps say them. */
static gpur_status check_train_steps(const gpur_run *run, int64_t train_steps)
{
    GPUR_REQUIRE(train_steps == 0 || run->system->has_free_learner,
                 "train_steps is %" PRId64 "; it must be 0: this run trains as its environment steps say", train_steps);
    GPUR_REQUIRE(train_steps >= 0, "train_steps is %" PRId64 "; it must be 0 or more", train_steps);
    return GPUR_OK;
}

gpur_status gpur_run_advance(gpur_run *run, int64_t env_steps, int64_t train_steps)
{
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_REQUIRE(env_steps >= 0 && env_steps <= INT64_MAX / 4, "env_steps is %" PRId64 "; it must be 0 to %" PRId64,
                 env_steps, INT64_MAX / 4);
    GPUR_TRY(check_train_steps(run, train_steps));
    if (run->system->check_advance)
        GPUR_TRY(run->system->check_advance(run, env_steps, train_steps));
    gpur_mutex_lock(&run->lock);
    run->started = gpur_clock_seconds();
    gpur_mutex_unlock(&run->lock);
    const gpur_status status = run->system->advance(run, env_steps, train_steps);
    gpur_mutex_lock(&run->lock);
    run->stats.seconds += gpur_clock_seconds() - run->started;
    gpur_mutex_unlock(&run->lock);
    if (status != GPUR_OK && status != GPUR_INTERRUPTED)
        gpur_run_fail(run, status);
    return end_call(run, status);
}

gpur_status gpur_run_evaluate(gpur_run *run, int64_t episodes, int32_t greedy, gpur_run_event *result)
{
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_REQUIRE(episodes >= 0 && episodes <= INT64_MAX / 4, "episodes is %" PRId64 "; it must be 0 or more", episodes);
    GPUR_REQUIRE(greedy == 0 || greedy == 1, "greedy is %d; it must be 0 or 1", (int)greedy);
    GPUR_REQUIRE(run->config.eval_episodes > 0, "the run was made with eval_episodes 0");
    gpur_run_event event = {.kind = GPUR_RUN_EVALUATION, .env_index = -1};
    gpur_status status = run->system->evaluate(run, episodes ? episodes : run->config.eval_episodes, greedy, &event);
    if (status == GPUR_OK && !gpur_run_is_stopping(run))
        gpur_run_report_evaluation(run, &event);
    status = end_call(run, status);
    if (status == GPUR_OK && result) {
        event.size = sizeof event, event.run = run, event.learner = run->learner, event.policy = NULL, event.error = "";
        *result = event;
    }
    return status;
}

void gpur_run_end_soon(gpur_run *run)
{
    atomic_store(&run->ends_soon, 1);
    if (!run->system->is_saved_between_periods)
        gpur_run_stop(run);
}

void gpur_run_stop(gpur_run *run)
{
    if (run)
        atomic_store(&run->stopping, 1);
}

gpur_status gpur_run_save(gpur_run *run, const char *folder)
{
    GPUR_REQUIRE(run && folder, "run and folder must not be NULL");
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_TRY(gpur_tensors_available());
    return run->system->save(run, folder);
}

gpur_status gpur_run_load(gpur_run *run, const char *folder, int32_t refill)
{
    GPUR_REQUIRE(run && folder, "run and folder must not be NULL");
    GPUR_TRY(gpur_choice_check(refill, run->system->has_free_learner, "refill",
                               run->system->has_free_learner ? "0 or 1" : "0: a replay is left empty in Ape-X alone"));
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_TRY(gpur_tensors_available());
    return run->system->load(run, folder, refill);
}

/* Statistics. */

static double recent_return(const gpur_run *run)
{
    const gpur_run_returns *const returns = &run->returns;
    const int64_t count = gpur_min(returns->count, GPUR_RUN_RECENT);
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += returns->values[i];
    return count > 0 ? sum / (double)count : (double)NAN;
}

gpur_status gpur_run_get_stats(gpur_run *run, gpur_run_stats *stats)
{
    GPUR_REQUIRE(run && stats, "run and stats must not be NULL");
    gpur_mutex_lock(&run->lock);
    gpur_run_stats known = run->stats;
    known.recent_return = recent_return(run);
    known.loss = run->system->loss(run);
    run->system->fill_stats(run, &known);
    gpur_mutex_unlock(&run->lock);
    return gpur_sized_write(stats, &known, sizeof known, "gpur_run_stats");
}
