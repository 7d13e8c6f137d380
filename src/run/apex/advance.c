/* SPDX-License-Identifier: MIT */
/* The learner's side [Horgan et al. 2018, algorithm 2]: what the thread that advances does. */
#include "run/apex/events.h"
#include "run/apex/intake.h"
#include "run/apex/supervisor.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRAIN_SLICE = 32 }; /* train steps between two looks at gpur_apex_stop */
static const double POLL_SECONDS = 0.01;

/* Limits of a call, as counts of the run. */
typedef struct target {
    int64_t env_steps, train_steps;
} target;

static void add_seconds(gpur_apex *apex, double *to, double begin)
{
    gpur_mutex_lock(&apex->core.lock);
    *to += gpur_clock_seconds() - begin;
    gpur_mutex_unlock(&apex->core.lock);
}

static gpur_status broadcast(gpur_apex *apex)
{
    const double begin = gpur_clock_seconds();
    GPUR_TRY(gpur_learner_check_weights(apex->learner, NULL));
    GPUR_TRY(gpur_actor_policies_pull(&apex->policies, apex->learner));
    GPUR_TRY(gpur_actor_policies_get_weights(&apex->policies, apex->weights));
    gpur_shared_broadcast(&apex->shared, apex->weights);
    gpur_mutex_lock(&apex->core.lock);
    apex->counts.broadcasts++;
    gpur_mutex_unlock(&apex->core.lock);
    add_seconds(apex, &apex->broadcast_seconds, begin);
    return GPUR_OK;
}

/* Steps to the next multiple of a period. */
static int64_t left_of(int64_t period, int64_t done)
{
    return period - done % period;
}

/* The train steps that may be done now, up to the next thing to do between two of them. Under the lock. */
static int64_t next_slice(gpur_apex *apex, const target *to)
{
    const gpur_apex_config *const c = &apex->config;
    const int64_t done = apex->core.stats.train_steps;
    int64_t steps = gpur_min(TRAIN_SLICE, to->train_steps - done);
    steps = gpur_min(steps, left_of(c->broadcast_period, done));
    if (c->soft_capacity > 0)
        steps = gpur_min(steps, left_of(c->trim_period, done));
    return gpur_limiter_steps(&apex->limiter, steps);
}

static gpur_status trim(gpur_apex *apex)
{
    GPUR_TRY(gpur_replay_trim(apex->replay, apex->config.soft_capacity));
    gpur_mutex_lock(&apex->core.lock);
    apex->counts.trims++;
    gpur_mutex_unlock(&apex->core.lock);
    return GPUR_OK;
}

/* Trims and broadcasts if it is time, after train step `done`. */
static gpur_status follow(gpur_apex *apex, int64_t done)
{
    const gpur_apex_config *const c = &apex->config;
    if (c->soft_capacity > 0 && done % c->trim_period == 0)
        GPUR_TRY(trim(apex));
    return done % c->broadcast_period == 0 ? broadcast(apex) : GPUR_OK;
}

/* *trained: 0 if the replay has too little for a batch of different transitions, for which min_size does not see. */
static gpur_status train(gpur_apex *apex, int64_t steps, int *trained)
{
    const double begin = gpur_clock_seconds();
    gpur_status status = gpur_learner_train(apex->learner, steps);
    if (status == GPUR_OK)
        status = gpur_learner_sync(apex->learner);
    *trained = status == GPUR_OK;
    if (status == GPUR_TOO_FEW)
        return GPUR_OK;
    GPUR_TRY(status);
    add_seconds(apex, &apex->train_seconds, begin);
    gpur_mutex_lock(&apex->core.lock);
    apex->core.stats.train_steps += steps;
    gpur_limiter_count(&apex->limiter, 0, steps * apex->limiter.batch);
    gpur_intake_notify(apex);
    const int64_t done = apex->core.stats.train_steps;
    gpur_mutex_unlock(&apex->core.lock);
    return follow(apex, done);
}

/* Waits a little for transitions. *waited: how long the limiter has held up the learner without a break. */
static void wait_for_rows(gpur_apex *apex, int is_limited, double *waited)
{
    const double begin = gpur_clock_seconds();
    gpur_mutex_lock(&apex->core.lock);
    if (apex->core.status == GPUR_OK && apex->queue.count == 0)
        gpur_mutex_wait_for(&apex->core.lock, POLL_SECONDS);
    const double spent = gpur_clock_seconds() - begin;
    apex->learner_wait_seconds += spent;
    gpur_mutex_unlock(&apex->core.lock);
    *waited = is_limited ? *waited + spent : 0.0;
}

/* The train steps to do now. After a wait that was too long it is one, whatever the limiter says. */
static int64_t choose_steps(gpur_apex *apex, const target *to, int can_sample, double *waited)
{
    gpur_mutex_lock(&apex->core.lock);
    apex->limiter.has_begun |= can_sample;
    int64_t steps = can_sample ? next_slice(apex, to) : 0;
    if (can_sample && steps == 0 && *waited >= apex->config.limiter_timeout) {
        apex->counts.limiter_timeouts++;
        steps = 1;
    }
    gpur_mutex_unlock(&apex->core.lock);
    return steps;
}

static gpur_status status_of(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    const gpur_status status = apex->core.status;
    gpur_mutex_unlock(&apex->core.lock);
    return status == GPUR_OK ? GPUR_OK : gpur_fail(status, "%s", apex->core.error);
}

static int has_reached(gpur_apex *apex, const target *to)
{
    gpur_mutex_lock(&apex->core.lock);
    const int has = apex->core.stats.env_steps >= to->env_steps || apex->core.stats.train_steps >= to->train_steps;
    gpur_mutex_unlock(&apex->core.lock);
    return has;
}

/* An evaluation that is due while another one is played comes after it. */
static void evaluate_when_due(gpur_apex *apex)
{
    const int64_t period = apex->config.eval_period;
    if (apex->config.eval_episodes == 0 || period == 0)
        return;
    gpur_mutex_lock(&apex->core.lock);
    const int64_t done = apex->core.stats.env_steps;
    const int is_due = apex->next_evaluation > 0 && done >= apex->next_evaluation && !apex->evaluation.is_played;
    if (is_due)
        gpur_apex_ask_to_evaluate(apex, 1);
    if (is_due || apex->next_evaluation == 0)
        apex->next_evaluation = done + left_of(period, done);
    gpur_mutex_unlock(&apex->core.lock);
}

static gpur_status work(gpur_apex *apex, const target *to)
{
    double waited = 0.0;
    while (!has_reached(apex, to) && !gpur_run_is_stopping(&apex->core)) {
        int trained = 0;
        evaluate_when_due(apex);
        gpur_apex_deliver_events(apex);
        GPUR_TRY(status_of(apex));
        const int can_sample = gpur_replay_can_sample(apex->replay);
        const int64_t steps = choose_steps(apex, to, can_sample, &waited);
        if (steps > 0)
            GPUR_TRY(train(apex, steps, &trained));
        if (trained)
            waited = 0.0;
        else
            wait_for_rows(apex, can_sample && steps == 0, &waited);
    }
    return GPUR_OK;
}

/* The first weights, before the first actor. */
static gpur_status begin(gpur_apex *apex)
{
    if (apex->has_begun)
        return GPUR_OK;
    GPUR_TRY(broadcast(apex));
    gpur_mutex_lock(&apex->core.lock);
    apex->has_begun = 1;
    gpur_mutex_unlock(&apex->core.lock);
    gpur_apex_wake(apex);
    return GPUR_OK;
}

/* It closes by itself with so many environment steps. */
static void open_gate(gpur_apex *apex, int64_t most_steps)
{
    gpur_mutex_lock(&apex->core.lock);
    apex->is_open = 1;
    apex->most_steps = most_steps;
    gpur_intake_notify(apex);
    gpur_mutex_unlock(&apex->core.lock);
}

/* Between two calls nothing is appended: an append that has begun ends first. */
static void close_gate(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    apex->is_open = 0;
    gpur_mutex_notify_all(&apex->core.lock); /* a block that the caller brings must not wait for the limiter now */
    while (apex->inserting > 0)
        gpur_mutex_wait(&apex->core.lock);
    gpur_mutex_unlock(&apex->core.lock);
}

/* A failure of the learner's side ends the run. Events that happened before are delivered. */
static gpur_status end(gpur_apex *apex, gpur_status status)
{
    char error[GPUR_APEX_ERROR];
    snprintf(error, sizeof error, "%s", gpur_last_error());
    if (status != GPUR_OK) {
        gpur_mutex_lock(&apex->core.lock);
        gpur_run_end(&apex->core, status, error);
        gpur_mutex_unlock(&apex->core.lock);
        gpur_apex_wake(apex);
    }
    gpur_apex_deliver_events(apex);
    if (status != GPUR_OK)
        return gpur_fail(status, "%s", error);
    if (atomic_exchange(&apex->core.stopping, 0))
        return gpur_fail(GPUR_INTERRUPTED,
                         "the run was stopped after %" PRId64 " environment steps and %" PRId64 " train steps",
                         apex->core.stats.env_steps, apex->core.stats.train_steps);
    return GPUR_OK;
}

static int64_t limit_of(int64_t done, int64_t more)
{
    return more > 0 && more <= INT64_MAX - done ? done + more : INT64_MAX;
}

gpur_status gpur_apex_advance(gpur_apex *apex, int64_t env_steps, int64_t train_steps)
{
    GPUR_TRY(gpur_apex_check_open(apex));
    GPUR_REQUIRE(env_steps >= 0 && train_steps >= 0 && (env_steps > 0 || train_steps > 0),
                 "env_steps is %" PRId64 " and train_steps %" PRId64 "; they must be 0 or more, and one above 0",
                 env_steps, train_steps);
    const double started = gpur_clock_seconds();
    gpur_mutex_lock(&apex->core.lock); /* an actor may be ending */
    const int32_t actors = apex->actors;
    const target to = {limit_of(apex->core.stats.env_steps, env_steps),
                       limit_of(apex->core.stats.train_steps, train_steps)};
    gpur_mutex_unlock(&apex->core.lock);
    GPUR_REQUIRE(train_steps > 0 || actors > 0 || apex->has_remote_actors,
                 "env_steps is %" PRId64
                 ", train_steps 0, and the run has 0 actors and no folder and no remote actors, so "
                 "that no steps would come; give train_steps, or actors by gpur_apex_set_actors",
                 env_steps);
    gpur_status status = begin(apex);
    if (status == GPUR_OK) {
        open_gate(apex, to.env_steps);
        status = work(apex, &to);
        close_gate(apex);
        if (status == GPUR_OK)
            status = gpur_learner_check_weights(apex->learner, NULL);
    }
    add_seconds(apex, &apex->core.stats.seconds, started);
    return end(apex, status);
}

/* 1 if all actors have ended, and so has the last evaluation, unless no evaluator is left. Under the lock. */
static int has_finished(gpur_apex *apex)
{
    gpur_slot *const evaluator = apex->evaluator;
    evaluator->is_wanted &= apex->evaluation.is_played;
    return apex->running == 0 && !evaluator->is_running && !evaluator->is_wanted;
}

/* An evaluation can be stopped. The ends of actors come soon by themselves. */
static gpur_status await_ends(gpur_apex *apex, int32_t evaluates)
{
    for (int is_done = 0; !is_done && !(evaluates && gpur_run_is_stopping(&apex->core));) {
        gpur_apex_deliver_events(apex);
        GPUR_TRY(status_of(apex));
        gpur_mutex_lock(&apex->core.lock);
        is_done = has_finished(apex);
        if (!is_done && apex->queue.count == 0 && apex->core.status == GPUR_OK)
            gpur_mutex_wait_for(&apex->core.lock, POLL_SECONDS);
        gpur_mutex_unlock(&apex->core.lock);
    }
    return GPUR_OK;
}

/* Asks all actors to end. The supervisor would do so later; until then they would act on, since the limiter no longer
 * stops them. */
static void begin_to_finish(gpur_apex *apex, int32_t evaluates)
{
    gpur_slot *const evaluator = apex->evaluator;
    gpur_mutex_lock(&apex->core.lock);
    apex->is_finishing = 1;
    for (int32_t i = 0; i < apex->tables[GPUR_SLOT_OWN].count; i++)
        atomic_store(&gpur_shared_counts(&apex->shared, i)->is_asked, 1);
    evaluator->is_wanted = evaluates;
    evaluator->early_deaths = evaluator->early_failures = 0; /* what was before does not count */
    evaluator->next_start = 0.0;
    gpur_apex_ask_to_evaluate(apex, evaluates);
    gpur_mutex_unlock(&apex->core.lock);
    gpur_apex_wake(apex);
}

gpur_status gpur_apex_finish(gpur_apex *apex, int32_t evaluates)
{
    GPUR_TRY(gpur_apex_check_open(apex));
    GPUR_REQUIRE(evaluates == 0 || (evaluates == 1 && apex->config.eval_episodes > 0),
                 "evaluates is %d and eval_episodes %" PRId64 "; the first must be 0, or 1 if the second is above 0",
                 (int)evaluates, apex->config.eval_episodes);
    GPUR_TRY(gpur_apex_set_actors(apex, 0));
    gpur_status status = !evaluates ? GPUR_OK : apex->has_begun ? broadcast(apex) : begin(apex);
    if (status == GPUR_OK) {
        begin_to_finish(apex, evaluates);
        open_gate(apex, INT64_MAX);
        status = await_ends(apex, evaluates);
        close_gate(apex);
        gpur_mutex_lock(&apex->core.lock);
        apex->is_finishing = 0;
        gpur_mutex_unlock(&apex->core.lock);
    }
    return end(apex, status);
}
