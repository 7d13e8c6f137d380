/* SPDX-License-Identifier: MIT */
/* Advancing: opens the gate, delivers events and lets the tuner work meanwhile, and returns when nobody does
 * anything. */
#include "run/ga3c/handle.h"

#include "base/numbers.h"

static const double POLL_SECONDS = 0.05; /* between two looks at the tuner's clock */

/* Under the lock. */
static int is_done(const gpur_ga3c *run)
{
    if (gpur_ga3c_has_steps(run))
        return 0;
    return run->config.system == GPUR_A2C ? gpur_a2c_is_parked(run) : run->active == 0;
}

static void set_remaining(gpur_ga3c *run, int64_t steps)
{
    gpur_mutex_lock(&run->core.lock);
    run->remaining = steps;
    gpur_mutex_notify_all(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
}

/* The tuner. */

/* Judges what was measured, and changes the numbers. If there are no more threads to be had, they stay. */
static gpur_status decide(gpur_ga3c *run, gpur_ga3c_numbers measured, double rate)
{
    const int is_accepted = gpur_tuner_judge(&run->tuner, measured, rate);
    gpur_mutex_lock(&run->core.lock);
    gpur_run_add_event(&run->core, (gpur_run_event){.kind = GPUR_RUN_TUNED,
                                                    .env_index = -1,
                                                    .env_steps = run->core.stats.env_steps,
                                                    .train_steps = run->core.stats.train_steps,
                                                    .agents = measured.agents,
                                                    .predictors = measured.predictors,
                                                    .trainers = measured.trainers,
                                                    .accepted = is_accepted,
                                                    .rate = rate});
    gpur_mutex_unlock(&run->core.lock);
    gpur_mutex_lock(&run->set_lock);
    gpur_status status = gpur_ga3c_set(run, gpur_tuner_propose(&run->tuner));
    if (status != GPUR_OK)
        status = gpur_ga3c_set(run, run->tuner.accepted);
    gpur_mutex_unlock(&run->set_lock);
    return status;
}

gpur_status gpur_ga3c_tune(gpur_ga3c *run, double now)
{
    const gpur_ga3c_config *const c = &run->config;
    if (c->tuner == GPUR_TUNER_NONE || now < run->mark)
        return GPUR_OK;
    gpur_mutex_lock(&run->core.lock);
    const int64_t batches = run->core.stats.ga3c.training_batches;
    const gpur_ga3c_numbers numbers = run->numbers;
    gpur_mutex_unlock(&run->core.lock);
    const double spent = now - run->window;
    if (run->is_measuring)
        GPUR_TRY(decide(run, numbers, (double)(batches - run->marked_batches) / spent));
    run->is_measuring = !run->is_measuring;
    run->window = now;
    run->marked_batches = batches;
    run->mark = now + (run->is_measuring ? c->tuner_period : c->tuner_settling);
    return GPUR_OK;
}

/* The call. */

static gpur_status work(gpur_ga3c *run)
{
    int is_over = 0;
    while (!is_over) {
        gpur_mutex_lock(&run->core.lock);
        if (run->core.events.count == 0 && !is_done(run))
            gpur_mutex_wait_for(&run->core.lock, POLL_SECONDS);
        is_over = is_done(run);
        const double now = run->core.stats.seconds + gpur_clock_seconds() - run->core.started;
        gpur_mutex_unlock(&run->core.lock);
        gpur_run_deliver_events(&run->core);
        if (!is_over)
            GPUR_TRY(gpur_ga3c_tune(run, now));
    }
    return GPUR_OK;
}

/* Trainers train on all that is in the queue, also if it is too little for a batch. */
static void drain(gpur_ga3c *run)
{
    if (run->config.system != GPUR_GA3C)
        return;
    gpur_queue_flush(&run->rollouts, 1);
    gpur_mutex_lock(&run->core.lock);
    while (run->untrained > 0)
        gpur_mutex_wait(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
    gpur_queue_flush(&run->rollouts, 0);
}

static void wait_until_parked(gpur_ga3c *run)
{
    set_remaining(run, 0);
    gpur_mutex_lock(&run->core.lock);
    while (!is_done(run))
        gpur_mutex_wait(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
    drain(run);
}

/* The learner may have been trained or loaded since the last call. */
static gpur_status begin(gpur_ga3c *run)
{
    atomic_store(&run->updates, run->model.steps(run->model.context));
    GPUR_TRY(run->model.broadcast(run->model.context));
    return gpur_ga3c_begin(run);
}

static gpur_status take_steps(gpur_ga3c *run, int64_t steps)
{
    gpur_run *const core = &run->core;
    gpur_status status = begin(run);
    if (status == GPUR_OK) {
        set_remaining(run, steps);
        status = work(run);
    }
    if (status != GPUR_OK)
        gpur_run_fail(core, status);
    wait_until_parked(run);
    if (gpur_run_has_failed(core))
        return status;
    return run->model.check(run->model.context);
}

/* Reads them under the lock: an agent that starts reports at once that it has taken none. */
static int64_t steps_taken(gpur_run *core)
{
    gpur_mutex_lock(&core->lock);
    const int64_t steps = core->stats.env_steps;
    gpur_mutex_unlock(&core->lock);
    return steps;
}

/* Steps to the next evaluation after `done`; INT64_MAX: there is none. */
static int64_t steps_left(const gpur_run *core, int64_t done)
{
    const int64_t period = core->config.eval_episodes > 0 ? core->config.eval_period : 0;
    return period > 0 ? period - done % period : INT64_MAX;
}

/* An evaluation that was stopped is played anew. */
static gpur_status evaluate_if_due(gpur_run *core)
{
    gpur_run_event event = {.kind = GPUR_RUN_EVALUATION, .env_index = -1};
    const int64_t done = steps_taken(core);
    if (done == 0 || steps_left(core, done) != core->config.eval_period || core->evaluated_at == done ||
        gpur_run_is_stopping(core) || gpur_run_has_failed(core))
        return GPUR_OK;
    GPUR_TRY(gpur_ga3c_evaluate(core, core->config.eval_episodes, 0, &event));
    if (gpur_run_is_stopping(core))
        return GPUR_OK;
    core->evaluated_at = done;
    gpur_run_report_evaluation(core, &event);
    return GPUR_OK;
}

/* While an evaluation is played, the agents take no steps. */
gpur_status gpur_ga3c_advance(gpur_run *core, int64_t steps, int64_t train_steps)
{
    int64_t done = steps_taken(core);
    const int64_t end = done + steps;
    (void)train_steps;
    GPUR_TRY(evaluate_if_due(core));
    do {
        GPUR_TRY(take_steps(gpur_ga3c_of(core), gpur_min(end - done, steps_left(core, done))));
        GPUR_TRY(evaluate_if_due(core));
        done = steps_taken(core);
    } while (done < end && !gpur_run_is_stopping(core) && !gpur_run_has_failed(core));
    return GPUR_OK;
}
