/* SPDX-License-Identifier: MIT */
/* Advancing: opens the gate, delivers events and lets the tuner work meanwhile, and ends when all are quiet. */
#include "run/ga3c/ga3c.h"

#include <inttypes.h>

static const double POLL_SECONDS = 0.05; /* seconds between two looks at the tuner's clock */

/* Under the lock. */
static int is_done(const gpur_ga3c *run)
{
    if (run->remaining > 0 && run->status == GPUR_OK && !atomic_load(&run->stopping))
        return 0;
    return run->config.system == GPUR_A2C ? gpur_a2c_is_parked(run) : run->active == 0;
}

static void set_remaining(gpur_ga3c *run, int64_t steps)
{
    gpur_mutex_lock(&run->lock);
    run->remaining = steps;
    gpur_mutex_notify_all(&run->lock);
    gpur_mutex_unlock(&run->lock);
}

/* The tuner. */

/* Judges what was measured, and changes the numbers. If there are no more threads to be had, they stay. */
static gpur_status decide(gpur_ga3c *run, gpur_ga3c_numbers measured, double rate)
{
    const int is_accepted = gpur_tuner_judge(&run->tuner, measured, rate);
    gpur_mutex_lock(&run->lock);
    gpur_ga3c_add_event(run, (gpur_ga3c_event){.kind = GPUR_GA3C_TUNED,
                                               .agents = measured.agents,
                                               .predictors = measured.predictors,
                                               .trainers = measured.trainers,
                                               .accepted = is_accepted,
                                               .rate = rate});
    gpur_mutex_unlock(&run->lock);
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
    gpur_mutex_lock(&run->lock);
    const int64_t batches = run->counts.training_batches;
    const gpur_ga3c_numbers numbers = run->numbers;
    gpur_mutex_unlock(&run->lock);
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
        gpur_mutex_lock(&run->lock);
        if (run->events.count == 0 && !is_done(run))
            gpur_mutex_wait_for(&run->lock, POLL_SECONDS);
        is_over = is_done(run);
        const double now = run->seconds + gpur_clock_seconds() - run->started;
        gpur_mutex_unlock(&run->lock);
        gpur_ga3c_deliver_events(run);
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
    gpur_mutex_lock(&run->lock);
    while (run->untrained > 0)
        gpur_mutex_wait(&run->lock);
    gpur_mutex_unlock(&run->lock);
    gpur_queue_flush(&run->rollouts, 0);
}

static void wait_until_parked(gpur_ga3c *run)
{
    set_remaining(run, 0);
    gpur_mutex_lock(&run->lock);
    while (!is_done(run))
        gpur_mutex_wait(&run->lock);
    gpur_mutex_unlock(&run->lock);
    drain(run);
}

/* The learner may have been trained or loaded since the last call. */
static gpur_status begin(gpur_ga3c *run)
{
    gpur_mutex_lock(&run->lock);
    run->started = gpur_clock_seconds();
    gpur_mutex_unlock(&run->lock);
    atomic_store(&run->updates, run->model.steps(run->model.context));
    GPUR_TRY(run->model.publish(run->model.context));
    return gpur_ga3c_begin(run);
}

static gpur_status result_of(gpur_ga3c *run)
{
    gpur_mutex_lock(&run->lock);
    const gpur_status status = run->status;
    const int64_t steps = run->counts.steps, trained = run->counts.train_steps;
    gpur_mutex_unlock(&run->lock);
    if (status != GPUR_OK)
        return gpur_fail(status, "%s", run->error);
    if (atomic_exchange(&run->stopping, 0))
        return gpur_fail(GPUR_INTERRUPTED,
                         "the run was stopped after %" PRId64 " environment steps and %" PRId64 " train steps", steps,
                         trained);
    return GPUR_OK;
}

gpur_status gpur_ga3c_advance(gpur_ga3c *run, int64_t steps)
{
    GPUR_TRY(gpur_ga3c_check_open(run));
    GPUR_REQUIRE(steps >= 1, "steps is %" PRId64 "; it must be 1 or more", steps);
    gpur_status status = begin(run);
    if (status == GPUR_OK) {
        set_remaining(run, steps);
        status = work(run);
    }
    if (status != GPUR_OK)
        gpur_ga3c_fail(run, status);
    wait_until_parked(run);
    if (!gpur_ga3c_has_failed(run)) {
        status = run->model.check(run->model.context);
        if (status != GPUR_OK)
            gpur_ga3c_fail(run, status);
    }
    gpur_mutex_lock(&run->lock);
    run->seconds += gpur_clock_seconds() - run->started;
    gpur_mutex_unlock(&run->lock);
    gpur_ga3c_deliver_events(run);
    return result_of(run);
}

void gpur_ga3c_stop(gpur_ga3c *run)
{
    if (run)
        atomic_store(&run->stopping, 1);
}
