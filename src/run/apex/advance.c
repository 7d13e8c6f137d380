/* SPDX-License-Identifier: MIT */
/* The learner's side [Horgan et al. 2018, algorithm 2]: what the thread that advances does. */
#include "run/apex/intake.h"

#include "base/clock.h"

#include <inttypes.h>

enum { TRAIN_SLICE = 32 }; /* train steps between two looks at gpur_run_stop */

/* Limits of a call, as counts of the run. */
typedef struct target {
    int64_t env_steps, train_steps;
} target;

/* Copies the learner's weights to apex->weights. */
static gpur_status read_weights(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->policies_lock);
    gpur_status status = gpur_actor_policies_pull(&apex->policies, apex->learner);
    if (status == GPUR_OK)
        status = gpur_actor_policies_get_weights(&apex->policies, apex->weights);
    gpur_mutex_unlock(&apex->policies_lock);
    return status;
}

static gpur_status broadcast(gpur_apex *apex)
{
    const double begin = gpur_clock_seconds();
    GPUR_TRY(gpur_learner_check_weights(apex->learner, NULL));
    GPUR_TRY(read_weights(apex));
    gpur_shared_broadcast(&apex->shared, apex->weights);
    gpur_mutex_lock(&apex->core.lock);
    apex->counts.broadcasts++;
    apex->broadcast_seconds += gpur_clock_seconds() - begin;
    gpur_mutex_unlock(&apex->core.lock);
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
    gpur_mutex_lock(&apex->core.lock);
    apex->core.stats.train_seconds += gpur_clock_seconds() - begin;
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
    if (apex->core.status == GPUR_OK && apex->core.events.count == 0)
        gpur_mutex_wait_for(&apex->core.lock, GPUR_APEX_POLL_SECONDS);
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

static int has_reached(gpur_apex *apex, const target *to)
{
    gpur_mutex_lock(&apex->core.lock);
    const int has = apex->core.stats.env_steps >= to->env_steps || apex->core.stats.train_steps >= to->train_steps;
    gpur_mutex_unlock(&apex->core.lock);
    return has;
}

/* The gate. */

/* The environment steps with which the next evaluation is due: the multiple of the period after the last one that was
 * begun. INT64_MAX: there is none. Under the lock. */
static int64_t next_evaluation(const gpur_apex *apex)
{
    const gpur_run_config *const c = &apex->core.config;
    const int has = c->eval_episodes > 0 && c->eval_period > 0 && !apex->has_lost_evaluator;
    return has ? apex->core.evaluated_at - apex->core.evaluated_at % c->eval_period + c->eval_period : INT64_MAX;
}

/* It closes by itself with so many environment steps, or when an evaluation is due: so none is left out, however long
 * this thread is busy. */
static void open_gate(gpur_apex *apex, gpur_apex_gate gate, int64_t most_steps)
{
    gpur_mutex_lock(&apex->core.lock);
    most_steps = gpur_min(most_steps, next_evaluation(apex));
    const int has_changed = apex->gate != gate || apex->most_steps != most_steps;
    apex->gate = gate;
    apex->most_steps = most_steps;
    if (has_changed)
        gpur_intake_notify(apex);
    gpur_mutex_unlock(&apex->core.lock);
}

/* Between two calls nothing is appended: an append that has begun ends first. */
static void close_gate(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    apex->gate = GPUR_APEX_CLOSED;
    gpur_mutex_notify_all(&apex->core.lock); /* a block that the caller brings must not wait for the limiter now */
    while (apex->inserting > 0)
        gpur_mutex_wait(&apex->core.lock);
    gpur_mutex_unlock(&apex->core.lock);
}

/* Evaluations. */

static int is_due(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    const int is = apex->core.stats.env_steps >= next_evaluation(apex);
    gpur_mutex_unlock(&apex->core.lock);
    return is;
}

static gpur_status begin_evaluation(gpur_apex *apex)
{
    GPUR_TRY(gpur_apex_begin_evaluation(apex, apex->core.config.eval_episodes, 0, 0));
    apex->core.evaluated_at = apex->evaluation.event.env_steps;
    return GPUR_OK;
}

/* Begins an evaluation that is due. If another one is still played, the run waits for it, with a closed gate. */
static gpur_status evaluate_when_due(gpur_apex *apex)
{
    gpur_apex_report_evaluation(apex);
    if (!is_due(apex))
        return GPUR_OK;
    GPUR_TRY(gpur_apex_await_evaluation(apex));
    return gpur_run_is_stopping(&apex->core) ? GPUR_OK : begin_evaluation(apex);
}

/* Evaluations that are due, or are played, when the steps were taken. The gate is closed. */
static gpur_status finish_evaluations(gpur_apex *apex)
{
    for (;;) {
        GPUR_TRY(gpur_apex_await_evaluation(apex));
        if (gpur_run_is_stopping(&apex->core) || !is_due(apex))
            return GPUR_OK;
        GPUR_TRY(begin_evaluation(apex));
    }
}

/* The call. */

static gpur_status work(gpur_apex *apex, const target *to)
{
    double waited = 0.0;
    while (!has_reached(apex, to) && !gpur_run_is_stopping(&apex->core)) {
        int trained = 0;
        GPUR_TRY(evaluate_when_due(apex));
        open_gate(apex, GPUR_APEX_OPEN, to->env_steps);
        gpur_run_deliver_events(&apex->core);
        if (gpur_run_has_failed(&apex->core))
            return GPUR_INTERRUPTED;
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
    gpur_supervisor_wake(apex);
    return GPUR_OK;
}

/* 1 if no actor runs that is to end: they end soon by themselves, and till then send what they have. Under the lock. */
static int have_all_ended(const gpur_apex *apex)
{
    const gpur_slot_table *const own = &apex->tables[GPUR_SLOT_OWN];
    for (int32_t i = 0; i < own->count; i++)
        if (own->slots[i]->is_running && !own->slots[i]->is_wanted)
            return 0;
    return 1;
}

static int64_t limit_of(int64_t done, int64_t more)
{
    return more > 0 && more <= INT64_MAX - done ? done + more : INT64_MAX;
}

gpur_status gpur_apex_check_advance(gpur_run *core, int64_t env_steps, int64_t train_steps)
{
    gpur_apex *const apex = gpur_apex_of(core);
    gpur_mutex_lock(&core->lock); /* an actor may be ending */
    const int32_t actors = apex->actors;
    gpur_mutex_unlock(&core->lock);
    GPUR_REQUIRE(env_steps == 0 || train_steps > 0 || actors > 0 || apex->has_remote_actors,
                 "env_steps is %" PRId64
                 ", train_steps 0, and the run has 0 actors and no folder and no remote actors, so "
                 "that no steps would come; give train_steps, or actors by gpur_apex_set_actors",
                 env_steps);
    return GPUR_OK;
}

static gpur_status take_steps(gpur_apex *apex, const target *to)
{
    GPUR_TRY(begin(apex));
    gpur_status status = work(apex, to);
    close_gate(apex);
    if (status == GPUR_OK)
        status = finish_evaluations(apex);
    return status == GPUR_OK ? gpur_learner_check_weights(apex->learner, NULL) : status;
}

gpur_status gpur_apex_advance(gpur_run *core, int64_t env_steps, int64_t train_steps)
{
    gpur_apex *const apex = gpur_apex_of(core);
    gpur_mutex_lock(&core->lock);
    const target to = {limit_of(core->stats.env_steps, env_steps), limit_of(core->stats.train_steps, train_steps)};
    gpur_mutex_unlock(&core->lock);
    if (env_steps > 0 || train_steps > 0)
        return take_steps(apex, &to);
    open_gate(apex, GPUR_APEX_LETS_END, INT64_MAX);
    const gpur_status status = gpur_apex_await(apex, have_all_ended);
    close_gate(apex);
    return status;
}
