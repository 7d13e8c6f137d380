/* SPDX-License-Identifier: MIT */
/* An agent: steps an environment by the actions that it asks for, and fills rollouts with what happens. */
#include "run/ga3c/handle.h"

#include <inttypes.h>
#include <math.h>

typedef struct agent {
    gpur_ga3c *run;
    gpur_agent_slot *slot;
    int32_t system; /* of the run, GPUR_GA3C and so on */
    gpur_env_runner runner;
    gpur_rollout *rollout;     /* open; NULL: none */
    int32_t has_action;        /* 1: the action of the next step is there already */
    gpur_local_model *local;   /* A3C: its copy of the model */
    int64_t pulled;            /* A3C: updates that the copy has */
    gpur_training_batch batch; /* A3C */
    int64_t length;            /* of the game so far */
    double episode_return;
    gpur_agent_report report;
} agent;

/* Opens the environment, and what the network sees of it. */
static gpur_status open_runner(agent *a, int64_t incarnation)
{
    const gpur_ga3c *const run = a->run;
    gpur_env_info info;
    a->runner.type = run->core.config.type;
    GPUR_TRY(gpur_run_make_env(
        &run->core.config, gpur_run_env_seed(run->core.config.seed, a->slot->number, incarnation), &a->runner, &info));
    return gpur_env_runner_open(&a->runner, &run->shape, NULL, run->model.check_finite);
}

static gpur_status open_agent(agent *a, int64_t incarnation)
{
    gpur_ga3c *const run = a->run;
    const gpur_ga3c_model *const model = &run->model;
    GPUR_TRY(open_runner(a, incarnation));
    if (a->system == GPUR_A3C) {
        GPUR_TRY(gpur_training_batch_open(run, &a->batch));
        GPUR_TRY(model->local_open(model->context, &a->local));
    }
    return gpur_env_runner_reset(&a->runner);
}

static void close_agent(agent *a)
{
    if (a->rollout && a->rollout->count > 0) {
        gpur_mutex_lock(&a->run->core.lock);
        a->run->core.stats.ga3c.left_rollouts++;
        a->run->core.stats.ga3c.dropped_rows += a->rollout->count;
        gpur_mutex_unlock(&a->run->core.lock);
    }
    gpur_rollout_give_back(&a->run->pool, a->rollout);
    if (a->local)
        a->run->model.local_close(a->local);
    gpur_training_batch_close(&a->batch);
    gpur_env_runner_close(&a->runner);
}

/* Reports to the run. */

static void take_episode(const gpur_agent_slot *slot, const gpur_agent_report *report)
{
    gpur_run *const core = &slot->run->core;
    gpur_run_count_episode(core, report->episode_return);
    gpur_run_add_event(core, (gpur_run_event){.kind = GPUR_RUN_EPISODE,
                                              .env_index = slot->number,
                                              .env_steps = core->stats.env_steps,
                                              .train_steps = core->stats.train_steps,
                                              .length = report->length,
                                              .episodes = 1,
                                              .mean_return = report->episode_return});
}

/* Adds the report to the run's counts, and empties it. Under the lock. */
static void take_report(gpur_agent_slot *slot, gpur_agent_report *report)
{
    gpur_run_stats *const stats = &slot->run->core.stats;
    stats->env_steps += report->steps;
    stats->ga3c.dropped_rows += report->dropped_rows;
    stats->env_seconds += report->environment_seconds;
    stats->ga3c.wait_seconds += report->wait_seconds;
    stats->ga3c.queue_seconds += report->queue_seconds;
    if (report->has_ended)
        take_episode(slot, report);
    *report = (gpur_agent_report){0};
}

/* The gate. */

/* A2C has no gate: its scheduler says who takes a step. */
static int may_step(const agent *a)
{
    return a->system == GPUR_A2C || gpur_ga3c_has_steps(a->run);
}

/* Waits until the agent may take a step; 0: it is asked to end. */
static int pass_gate(agent *a)
{
    gpur_ga3c *const run = a->run;
    const _Atomic int *const must_end = &a->slot->must_end;
    gpur_mutex_lock(&run->core.lock);
    take_report(a->slot, &a->report);
    if (!may_step(a) && !atomic_load(must_end)) {
        if (--run->active == 0)
            gpur_mutex_notify_all(&run->core.lock);
        while (!may_step(a) && !atomic_load(must_end))
            gpur_mutex_wait(&run->core.lock);
        run->active++;
    }
    const int passes = !atomic_load(must_end);
    if (passes && a->system != GPUR_A2C)
        run->remaining--;
    gpur_mutex_unlock(&run->core.lock);
    return passes;
}

/* Actions and values. */

/* Agents of A2C wait for their next step here, so they report what they have done before. */
static void ask_others(agent *a, int32_t asks)
{
    if (a->system == GPUR_A2C) {
        gpur_mutex_lock(&a->run->core.lock);
        take_report(a->slot, &a->report);
        gpur_a2c_ask(a->slot, asks);
        gpur_mutex_unlock(&a->run->core.lock);
    } else {
        (void)gpur_queue_put(&a->run->requests, a->slot, NULL);
    }
    gpur_semaphore_wait(&a->slot->replied);
}

static gpur_status ask_local(agent *a)
{
    gpur_agent_slot *const slot = a->slot;
    slot->version = a->pulled;
    return a->run->model.local_predict(a->local, a->runner.obs, (uint32_t)slot->number, slot->steps, &slot->action,
                                       &slot->value);
}

/* Gets the action, the value and the version of the weights for the present observation. GPUR_INTERRUPTED: the agent
 * must end. */
static gpur_status ask(agent *a, int32_t asks)
{
    gpur_status status = GPUR_OK;
    const double begin = gpur_clock_seconds();
    a->slot->obs = a->runner.obs;
    if (a->system == GPUR_A3C)
        status = ask_local(a);
    else
        ask_others(a, asks);
    a->report.wait_seconds += gpur_clock_seconds() - fmax(begin, a->slot->since);
    if (a->slot->is_dismissed)
        return GPUR_INTERRUPTED;
    GPUR_TRY(status);
    if (!isfinite(a->slot->value))
        return a->run->model.diverged(a->run->model.context, a->slot->version);
    return GPUR_OK;
}

/* Rollouts. */

/* A3C's agents act with the weights of its beginning [Mnih et al. 2016, algorithm S3]. */
static gpur_status begin_rollout(agent *a)
{
    GPUR_TRY(gpur_rollout_take(&a->run->pool, &a->rollout));
    if (a->system != GPUR_A3C)
        return GPUR_OK;
    a->pulled = atomic_load(&a->run->updates);
    return a->run->model.local_pull(a->local);
}

static void count_dropped(agent *a, gpur_rollout *dropped, int64_t *rollouts)
{
    gpur_ga3c *const run = a->run;
    gpur_mutex_lock(&run->core.lock);
    ++*rollouts;
    run->core.stats.ga3c.dropped_rows += dropped->count;
    run->untrained--;
    gpur_mutex_unlock(&run->core.lock);
    gpur_rollout_give_back(&run->pool, dropped);
}

static void put_in_queue(agent *a, gpur_rollout *rollout)
{
    gpur_ga3c *const run = a->run;
    const double begin = gpur_clock_seconds();
    gpur_mutex_lock(&run->core.lock);
    run->untrained++;
    gpur_mutex_unlock(&run->core.lock);
    gpur_rollout *const dropped = gpur_queue_put(&run->rollouts, rollout, &a->slot->waiter);
    if (dropped)
        count_dropped(a, dropped,
                      dropped == rollout ? &run->core.stats.ga3c.refused_rollouts
                                         : &run->core.stats.ga3c.overwritten_rollouts);
    gpur_rollout *const left = gpur_queue_wait(&run->rollouts, &a->slot->waiter, &a->slot->must_end);
    if (left)
        count_dropped(a, left, &run->core.stats.ga3c.left_rollouts);
    a->report.queue_seconds += gpur_clock_seconds() - begin;
}

static void train_local(agent *a, gpur_rollout *rollout)
{
    gpur_mutex_lock(&a->run->core.lock);
    a->run->untrained++;
    gpur_mutex_unlock(&a->run->core.lock);
    a->batch.rollouts[0] = rollout;
    a->batch.count = 1;
    gpur_ga3c_train(a->run, &a->batch, a->local);
}

/* Hands over the rollout; returns it to the pool if it has become empty. */
static void hand_over(agent *a)
{
    gpur_rollout *const rollout = a->rollout;
    a->rollout = NULL;
    if (rollout->count == 0)
        gpur_rollout_give_back(&a->run->pool, rollout);
    else if (a->system == GPUR_A3C)
        train_local(a, rollout);
    else if (a->system == GPUR_A2C)
        gpur_a2c_hand_over(a->slot, rollout);
    else
        put_in_queue(a, rollout);
}

/* The episode ends in a terminal state, whose value is 0. */
static void close_terminal(agent *a)
{
    if (a->run->config.drop_terminal) {
        a->rollout->count--;
        a->report.dropped_rows++;
    }
    gpur_rollout_close(a->rollout, a->run->config.discount, 0.0f);
}

/* Closes the rollout with V of the present observation. In GA3C, unless the episode is cut off, the same reply also has
 * the action of the next rollout's first step. */
static gpur_status close_with_value(agent *a, int is_cut_off)
{
    const int has_action = a->system == GPUR_GA3C && !is_cut_off;
    GPUR_TRY(ask(a, has_action ? GPUR_ASK_ACTION : GPUR_ASK_VALUE));
    gpur_rollout_close(a->rollout, a->run->config.discount, a->slot->value);
    a->has_action = has_action;
    return GPUR_OK;
}

/* Ends the segment or the rollout if the step does so. */
static gpur_status settle(agent *a, const gpur_env_result *result, int cuts)
{
    const int is_over = result->terminated || result->truncated, is_a2c = a->system == GPUR_A2C;
    const int is_full = is_a2c ? cuts : a->rollout->count == a->run->config.t_max;
    if (result->terminated)
        close_terminal(a);
    else if (is_over || is_full)
        GPUR_TRY(close_with_value(a, is_over));
    if (is_full || (is_over && !is_a2c))
        hand_over(a);
    return is_over ? gpur_env_runner_reset(&a->runner) : GPUR_OK;
}

/* A loss of a life ends an episode of the learner's, and not the game. */
static void count_step(agent *a, const gpur_env_result *result)
{
    a->slot->steps++;
    a->report.steps++;
    a->length++;
    a->episode_return += (double)result->reward;
    if (!(result->terminated || result->truncated) || result->continues)
        return;
    a->report.has_ended = 1;
    a->report.length = a->length;
    a->report.episode_return = a->episode_return;
    a->length = 0;
    a->episode_return = 0.0;
}

static gpur_status take_step(agent *a)
{
    gpur_ga3c *const run = a->run;
    gpur_agent_slot *const slot = a->slot;
    gpur_env_result result;
    if (!a->rollout)
        GPUR_TRY(begin_rollout(a));
    if (!a->has_action)
        GPUR_TRY(ask(a, GPUR_ASK_ACTION));
    a->has_action = 0;
    const int cuts = slot->cuts;
    gpur_rollout_add(a->rollout, a->runner.obs, run->obs_bytes, slot->action, slot->version);
    const double begin = gpur_clock_seconds();
    GPUR_TRY(gpur_env_runner_step(&a->runner, &slot->action, &result));
    a->report.environment_seconds += gpur_clock_seconds() - begin;
    gpur_rollout_set_reward(a->rollout, result.reward, run->config.reward_clip);
    count_step(a, &result);
    return settle(a, &result, cuts);
}

static gpur_status act(agent *a)
{
    gpur_mutex_lock(&a->run->core.lock);
    const int64_t incarnation = a->slot->incarnation++;
    gpur_mutex_unlock(&a->run->core.lock);
    GPUR_TRY(gpur_prefix_error(open_agent(a, incarnation), "agent %d", (int)a->slot->number));
    while (pass_gate(a)) {
        const uint64_t step = a->slot->steps;
        const gpur_status status = take_step(a);
        if (status == GPUR_INTERRUPTED)
            return GPUR_OK;
        GPUR_TRY(gpur_prefix_error(status, "agent %d, step %" PRIu64, (int)a->slot->number, step));
    }
    return GPUR_OK;
}

void *gpur_ga3c_agent(void *context)
{
    gpur_agent_slot *const slot = context;
    gpur_ga3c *const run = slot->run;
    agent a = {.run = run, .slot = slot, .system = run->config.system};
    slot->is_dismissed = 0;
    const gpur_status status = act(&a);
    if (status != GPUR_OK)
        gpur_run_fail(&run->core, status);
    close_agent(&a);
    gpur_mutex_lock(&run->core.lock);
    take_report(slot, &a.report);
    run->running--;
    run->active--;
    gpur_mutex_notify_all(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
    return NULL;
}
