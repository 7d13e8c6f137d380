/* SPDX-License-Identifier: MIT */
/* Creates and destroys runs of GA3C, and changes their numbers of threads. */
#include "run/ga3c/handle.h"
#include "run/evaluate.h"

#include <stdlib.h>

static void close_slots(gpur_ga3c *run)
{
    for (int32_t i = 0; i < run->slot_count; i++) {
        gpur_agent_slot *const slot = run->slots[i];
        gpur_rollout_give_back(&run->pool, slot->rollout);
        gpur_semaphore_close(&slot->replied);
        gpur_semaphore_close(&slot->waiter.admitted);
        free(slot);
    }
    free(run->slots);
    free(run->predictors);
    free(run->trainers);
}

/* Returns the rollouts that trainers have left in the queue to the pool. */
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

static void destroy(gpur_run *core)
{
    gpur_ga3c *const run = gpur_ga3c_of(core);
    gpur_ga3c_end_threads(run);
    empty_queue(run);
    close_slots(run);
    gpur_queue_close(&run->requests);
    gpur_queue_close(&run->rollouts);
    gpur_rollout_pool_close(&run->pool);
    gpur_mutex_close(&run->set_lock);
    run->model.close(run->model.context);
    gpur_run_close(core);
    free(run);
}

/* Statistics. */

/* The bound of the lag in the queue, section 4.4: the rollouts that were before it in the queue, those of agents that
 * waited, and the batches that trainers had in their hands; each of them is in at most one update. */
static void fill_stats(gpur_run *core, gpur_run_stats *stats)
{
    gpur_ga3c *const run = gpur_ga3c_of(core);
    gpur_ga3c_stats *const s = &stats->ga3c;
    const gpur_queue_stats rollouts = gpur_queue_read(&run->rollouts);
    s->agents = run->numbers.agents, s->predictors = run->numbers.predictors, s->trainers = run->numbers.trainers;
    s->mean_lag = s->trained_rows > 0 ? (double)s->lag_sum / (double)s->trained_rows : 0.0;
    s->queue_lag = rollouts.longest;
    if (run->config.system == GPUR_GA3C)
        s->queue_lag_bound = run->config.queue_room + run->largest.agents + run->largest.trainers;
    s->prediction_queue = gpur_queue_read(&run->requests).mean_length;
    s->training_queue = rollouts.mean_length;
    if (run->evaluator)
        gpur_evaluator_fill_stats(run->evaluator, stats);
}

static double loss(gpur_run *core)
{
    return core->stats.ga3c.policy_loss + core->stats.ga3c.value_loss;
}

static const gpur_run_system run_system = {.advance = gpur_ga3c_advance,
                                           .evaluate = gpur_ga3c_evaluate,
                                           .save = gpur_ga3c_save,
                                           .load = gpur_ga3c_load,
                                           .fill_stats = fill_stats,
                                           .loss = loss,
                                           .destroy = destroy};

static gpur_ga3c_thread *alloc_threads(gpur_ga3c *run, int32_t count)
{
    gpur_ga3c_thread *const threads = calloc((size_t)count, sizeof *threads);
    for (int32_t i = 0; threads && i < count; i++) {
        threads[i].run = run;
        threads[i].number = i;
    }
    return threads;
}

static gpur_status alloc_all(gpur_ga3c *run)
{
    run->slots = calloc(GPUR_GA3C_MAX_AGENTS, sizeof(gpur_agent_slot *));
    run->predictors = alloc_threads(run, GPUR_GA3C_MAX_PREDICTORS);
    run->trainers = alloc_threads(run, GPUR_GA3C_MAX_TRAINERS);
    if (!run->slots || !run->predictors || !run->trainers)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run's threads");
    return gpur_ga3c_make_slots(run, run->numbers.agents);
}

static gpur_status build(gpur_ga3c *run, const gpur_run_config *all, const gpur_ga3c_config *config)
{
    const gpur_ga3c_config *const c = &run->config;
    GPUR_TRY(gpur_run_open(&run->core, &run_system, all));
    GPUR_TRY(gpur_mutex_open(&run->set_lock, "a run of GA3C"));
    GPUR_TRY(gpur_ga3c_configure(run, config));
    GPUR_TRY(gpur_rollout_pool_open(&run->pool, run->obs_bytes, c->t_max));
    /* An agent has one request at a time, so this queue is never full. */
    GPUR_TRY(gpur_queue_open(&run->requests, GPUR_GA3C_MAX_AGENTS, 0, GPUR_QUEUE_WAIT, NULL));
    GPUR_TRY(gpur_queue_open(&run->rollouts, c->queue_room, GPUR_GA3C_MAX_AGENTS, c->when_full, &run->updates));
    const gpur_ga3c_numbers most = {c->max_agents, GPUR_GA3C_MAX_PREDICTORS, GPUR_GA3C_MAX_TRAINERS};
    gpur_tuner_begin(&run->tuner, c->tuner, run->core.config.seed, most);
    run->mark = c->tuner_settling;
    return alloc_all(run);
}

gpur_status gpur_ga3c_create_with(const gpur_ga3c_model *model, const gpur_run_config *all,
                                  const gpur_ga3c_config *config, gpur_run **out)
{
    gpur_ga3c *const run = calloc(1, sizeof *run);
    if (!run) {
        model->close(model->context);
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run of %zu bytes", sizeof *run);
    }
    run->model = *model;
    const gpur_status status = build(run, all, config);
    if (status != GPUR_OK) {
        destroy(&run->core);
        return status;
    }
    *out = &run->core;
    return GPUR_OK;
}

gpur_status gpur_ga3c_set_counts(gpur_run *core, int32_t agents, int32_t predictors, int32_t trainers)
{
    GPUR_REQUIRE(core, "run is NULL");
    GPUR_REQUIRE(core->system == &run_system, "the run is not one of gpur_ga3c_create");
    gpur_ga3c *const run = gpur_ga3c_of(core);
    const gpur_ga3c_numbers numbers = gpur_ga3c_numbers_of(run, agents, predictors, trainers);
    GPUR_TRY(gpur_ga3c_check_numbers(run, numbers));
    gpur_mutex_lock(&run->set_lock);
    const gpur_status status = gpur_ga3c_set(run, numbers);
    gpur_mutex_unlock(&run->set_lock);
    return status;
}
