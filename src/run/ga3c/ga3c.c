/* SPDX-License-Identifier: MIT */
/* The public run: create, destroy, numbers, statistics. */
#include "run/ga3c/ga3c.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "kernels/lib/random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gpur_status open_slot(gpur_ga3c *run, int32_t i)
{
    gpur_agent_slot *const slot = &run->slots[i];
    slot->run = run;
    slot->number = i;
    if (sem_init(&slot->replied, 0, 0) != 0 || sem_init(&slot->waiter.admitted, 0, 0) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no semaphores for an agent: %s", strerror(errno));
    slot->has_semaphores = 1;
    return GPUR_OK;
}

static gpur_ga3c_thread *alloc_threads(gpur_ga3c *run, int32_t count)
{
    gpur_ga3c_thread *const threads = calloc((size_t)count, sizeof *threads);
    for (int32_t i = 0; threads && i < count; i++) {
        threads[i].run = run;
        threads[i].number = i;
    }
    return threads;
}

static gpur_status open_slots(gpur_ga3c *run)
{
    run->slots = calloc(GPUR_GA3C_MAX_AGENTS, sizeof *run->slots);
    run->predictors = alloc_threads(run, GPUR_GA3C_MAX_PREDICTORS);
    run->trainers = alloc_threads(run, GPUR_GA3C_MAX_TRAINERS);
    if (!run->slots || !run->predictors || !run->trainers)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the slots of %d agents", GPUR_GA3C_MAX_AGENTS);
    for (int32_t i = 0; i < GPUR_GA3C_MAX_AGENTS; i++)
        GPUR_TRY(open_slot(run, i));
    return GPUR_OK;
}

static void begin_tuner(gpur_ga3c *run)
{
    const gpur_ga3c_config *const c = &run->config;
    const gpur_ga3c_numbers most = {c->max_agents, GPUR_GA3C_MAX_PREDICTORS, GPUR_GA3C_MAX_TRAINERS};
    gpur_tuner_begin(&run->tuner, c->tuner, c->seed, most);
    run->mark = c->tuner_settling;
}

static gpur_status build(gpur_ga3c *run, const gpur_ga3c_config *config)
{
    GPUR_TRY(gpur_mutex_open(&run->lock, "a run of GA3C"));
    GPUR_TRY(gpur_mutex_open(&run->set_lock, "a run of GA3C"));
    GPUR_TRY(gpur_ga3c_configure(run, config));
    GPUR_TRY(gpur_rollout_pool_open(&run->pool, run->obs_bytes, run->config.t_max));
    /* An agent has one request at a time, so this queue is never full. */
    GPUR_TRY(gpur_queue_open(&run->requests, GPUR_GA3C_MAX_AGENTS, 0, GPUR_QUEUE_WAIT, NULL));
    GPUR_TRY(gpur_queue_open(&run->rollouts, run->config.queue_room, GPUR_GA3C_MAX_AGENTS, run->config.when_full,
                             &run->updates));
    begin_tuner(run);
    return open_slots(run);
}

gpur_status gpur_ga3c_create_with(const gpur_ga3c_model *model, const gpur_env_type *type,
                                  const gpur_ga3c_config *config, gpur_ga3c **out)
{
    gpur_ga3c *const run = calloc(1, sizeof *run);
    if (!run) {
        model->close(model->context);
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run of %zu bytes", sizeof *run);
    }
    run->model = *model;
    run->type = type;
    const gpur_status status = build(run, config);
    if (status != GPUR_OK) {
        gpur_ga3c_destroy(run);
        return status;
    }
    *out = run;
    return GPUR_OK;
}

static void close_slots(gpur_ga3c *run)
{
    for (int32_t i = 0; run->slots && i < GPUR_GA3C_MAX_AGENTS && run->slots[i].has_semaphores; i++) {
        gpur_rollout_give_back(&run->pool, run->slots[i].rollout);
        sem_destroy(&run->slots[i].replied);
        sem_destroy(&run->slots[i].waiter.admitted);
    }
    free(run->slots);
    free(run->predictors);
    free(run->trainers);
}

/* What trainers have left in the queue. */
static void empty_queue(gpur_ga3c *run)
{
    const _Atomic int goes_on = 0;
    void *rollout;
    if (!run->rollouts.is_open)
        return;
    gpur_queue_flush(&run->rollouts, 1);
    while (gpur_queue_take(&run->rollouts, &rollout, 1, &goes_on, 1) > 0)
        gpur_rollout_give_back(&run->pool, rollout);
}

void gpur_ga3c_destroy(gpur_ga3c *run)
{
    if (!run)
        return;
    gpur_ga3c_end_threads(run);
    empty_queue(run);
    close_slots(run);
    gpur_queue_close(&run->requests);
    gpur_queue_close(&run->rollouts);
    gpur_rollout_pool_close(&run->pool);
    gpur_mutex_close(&run->set_lock);
    gpur_mutex_close(&run->lock);
    run->model.close(run->model.context);
    free(run->events.list);
    free(run->env_options);
    free(run);
}

gpur_status gpur_ga3c_check_open(gpur_ga3c *run)
{
    GPUR_REQUIRE(run, "run is NULL");
    GPUR_REQUIRE(!gpur_ga3c_has_failed(run), "the run has ended by an error, and can only be destroyed: %s",
                 run->error);
    return GPUR_OK;
}

gpur_status gpur_ga3c_set_counts(gpur_ga3c *run, int32_t agents, int32_t predictors, int32_t trainers)
{
    GPUR_REQUIRE(run, "run is NULL");
    const gpur_ga3c_numbers numbers = gpur_ga3c_numbers_of(run, agents, predictors, trainers);
    GPUR_TRY(gpur_ga3c_check_numbers(run, numbers));
    gpur_mutex_lock(&run->set_lock);
    const gpur_status status = gpur_ga3c_set(run, numbers);
    gpur_mutex_unlock(&run->set_lock);
    return status;
}

/* Runners. */

uint64_t gpur_ga3c_env_seed(const gpur_ga3c *run, int64_t incarnation, int32_t number)
{
    const gpur_u32x4 bits =
        gpur_random_bits(run->config.seed, GPUR_RANDOM_ENVIRONMENT, (uint64_t)incarnation, (uint32_t)number);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

gpur_status gpur_ga3c_open_runner(const gpur_ga3c *run, uint64_t seed, gpur_env_runner *runner)
{
    gpur_env_info info = {.size = sizeof info};
    void *env = NULL;
    runner->type = run->type;
    GPUR_TRY(gpur_env_error(run->type->init(run->env_options, seed, &info, &env)));
    GPUR_TRY(gpur_env_runner_take_env(runner, env, &info));
    unsigned char *const obs = calloc(1, (size_t)run->obs_bytes);
    if (!obs)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an observation");
    return gpur_env_runner_open(runner, &run->shape, obs, run->model.check_finite);
}

void gpur_ga3c_close_runner(gpur_env_runner *runner)
{
    gpur_env_runner_close(runner);
    free(runner->obs);
    runner->obs = NULL;
}

/* Statistics. */

static double recent_return(const gpur_ga3c_returns *returns)
{
    const int64_t count = gpur_min(returns->count, GPUR_GA3C_RECENT);
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += returns->values[i];
    return count > 0 ? sum / (double)count : (double)NAN;
}

/* Section 4.4: the rollouts that were before it in the queue, those of agents that waited, and the batches that
 * trainers had in their hands; each of them is in at most one update. */
static int64_t lag_bound(const gpur_ga3c *run)
{
    if (run->config.system != GPUR_GA3C)
        return 0;
    return run->config.queue_room + run->largest.agents + run->largest.trainers;
}

static gpur_ga3c_stats read_stats(const gpur_ga3c *run)
{
    const gpur_ga3c_counts *const c = &run->counts;
    gpur_ga3c_stats stats = {
        .steps = c->steps,
        .episodes = c->episodes,
        .predictions = c->predictions,
        .prediction_batches = c->prediction_batches,
        .train_steps = c->train_steps,
        .trained_rows = c->trained_rows,
        .training_batches = c->training_batches,
        .refused_rollouts = c->refused_rollouts,
        .overwritten_rollouts = c->overwritten_rollouts,
        .left_rollouts = c->left_rollouts,
        .dropped_rows = c->dropped_rows,
        .agents = run->numbers.agents,
        .predictors = run->numbers.predictors,
        .trainers = run->numbers.trainers,
        .mean_lag = c->trained_rows > 0 ? (double)c->lag_sum / (double)c->trained_rows : 0.0,
        .largest_lag = c->largest_lag,
        .queue_lag_bound = lag_bound(run),
        .seconds = run->seconds,
        .environment_seconds = run->environment_seconds,
        .wait_seconds = run->wait_seconds,
        .queue_seconds = run->queue_seconds,
        .predict_seconds = run->predict_seconds,
        .predictor_seconds = run->predictor_seconds,
        .train_seconds = run->train_seconds,
        .recent_return = recent_return(&run->returns),
        .policy_loss = run->losses.policy,
        .value_loss = run->losses.value,
        .entropy = run->losses.entropy,
        .mean_value = run->losses.mean_value,
        .gradient_norm = run->losses.gradient_norm,
        .learning_rate = run->losses.learning_rate,
        .eval_cut = run->eval_cut,
    };
    memcpy(stats.lags, c->lags, sizeof stats.lags);
    return stats;
}

gpur_status gpur_ga3c_get_stats(gpur_ga3c *run, gpur_ga3c_stats *stats)
{
    GPUR_REQUIRE(run && stats, "run and stats must not be NULL");
    gpur_mutex_lock(&run->lock);
    gpur_ga3c_stats known = read_stats(run);
    gpur_mutex_unlock(&run->lock);
    known.prediction_queue = gpur_queue_read(&run->requests).mean_length;
    known.training_queue = gpur_queue_read(&run->rollouts).mean_length;
    known.queue_lag = gpur_queue_read(&run->rollouts).longest;
    return gpur_sized_write(stats, &known, sizeof known, "gpur_ga3c_stats");
}
