/* SPDX-License-Identifier: MIT */
/* The public run: create, destroy, advance, statistics. */
#include "run/fast_dqn/fast_dqn.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "kernels/lib/random.h"
#include "env/type.h"
#include "gpureplay/policy.h"
#include "learn/dqn/dqn.h"
#include "replay/config.h"
#include "replay/view.h"
#include "run/single_env.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_THREADS = GPUR_MAX_POLICY_STREAMS, /* that step environments by default, and that infer at all */
    TRAIN_SLICE = 32,                      /* train steps between two looks at gpur_run_stop */
};

static const gpur_run_config defaults = {
    .size = sizeof(gpur_run_config),
    .num_envs = 8,
    .concurrent = 1,
    .synchronized = 1,
    .act = GPUR_ACT_LATEST,
    .target_period = 10000,
    .train_period = 4,
    .prepopulation = 50000,
    .eval_period = 250000,
    .eval_episodes = 30,
    .eval_epsilon = 0.05f,
};

gpur_status gpur_run_config_init(gpur_run_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_run_config");
}

uint64_t gpur_run_env_seed(uint64_t seed, int32_t slot, int64_t taken)
{
    const gpur_u32x4 bits = gpur_random_bits(seed, GPUR_RANDOM_ENVIRONMENT, (uint64_t)taken, (uint32_t)slot);
    return (uint64_t)bits.v[1] << 32 | bits.v[0];
}

static int is_stopping(gpur_run *run)
{
    return atomic_load_explicit(&run->stopping, memory_order_relaxed);
}

static void delay(gpur_run *run, gpur_run_phase part, int64_t step)
{
    if (run->delay)
        run->delay(run->delay_context, part, step);
}

/* Acting. */

/* The random action of a slot's next step, or -1: it acts greedily. A pure function of the seed, the slot and its
 * number of steps, so that no timing of threads changes it. */
static int32_t explore(const gpur_run *run, int32_t slot, uint64_t steps, float epsilon)
{
    const gpur_u32x4 bits = gpur_random_bits(run->config.seed, GPUR_RANDOM_RUN_EXPLORE, steps, (uint32_t)slot);
    return gpur_random_uniform(bits.v[2]) < epsilon
               ? (int32_t)gpur_random_below(bits, (uint64_t)run->info.action.num_actions)
               : -1;
}

static gpur_status infer(gpur_run *run, int64_t count, const unsigned char *obs, int32_t *actions)
{
    const double begin = gpur_clock_seconds();
    delay(run, GPUR_PHASE_INFER, 0);
    const gpur_status status = run->work.infer(run->work.context, count, obs, actions);
    gpur_meter_add(&run->meter, GPUR_PHASE_INFER, count, begin);
    return status;
}

static gpur_status take_step(gpur_run *run, gpur_env_slot *slot, int64_t step)
{
    int ended;
    int32_t action = explore(run, slot->index, slot->steps, gpur_learner_epsilon(run->learner, step));
    if (action < 0 && run->shape.synchronized)
        action = run->greedy[slot->index];
    else if (action < 0)
        GPUR_TRY(infer(run, 1, slot->runner.obs, &action));
    const double begin = gpur_clock_seconds();
    delay(run, GPUR_PHASE_ENV, step);
    const gpur_status status = gpur_env_slot_step(slot, step, action, &ended);
    gpur_meter_add(&run->meter, GPUR_PHASE_ENV, 1, begin);
    return status;
}

/* One step of a vector environment: the global steps `first` to first + W - 1. */
static gpur_status take_vector_step(gpur_run *run, int64_t first, int64_t *transitions, int *ended)
{
    const double begin = gpur_clock_seconds();
    const int32_t slots = run->shape.envs;
    for (int32_t i = 0; i < slots; i++) {
        const float epsilon = first > 0 ? gpur_learner_epsilon(run->learner, first + i) : 1.0f;
        const int32_t action = explore(run, i, run->slots[i].steps, epsilon);
        if (action >= 0)
            run->greedy[i] = action;
    }
    delay(run, GPUR_PHASE_ENV, first);
    GPUR_TRY(gpur_vector_step(&run->vector, run->slots, slots, first, run->greedy, transitions, ended));
    if (first > 0)
        gpur_meter_add(&run->meter, GPUR_PHASE_ENV, slots, begin);
    return GPUR_OK;
}

static gpur_status step_vector(gpur_run *run, int64_t first, int64_t last)
{
    int64_t transitions;
    int ended;
    for (int64_t step = first; step <= last && !is_stopping(run); step += run->shape.envs)
        GPUR_TRY(take_vector_step(run, step, &transitions, &ended));
    return GPUR_OK;
}

static gpur_status step_slots(void *context, int64_t first, int64_t last)
{
    const gpur_env_thread *const thread = context;
    gpur_run *const run = thread->run;
    if (run->vector.type)
        return step_vector(run, first, last);
    for (int64_t step = first; step <= last && !is_stopping(run); step++) {
        const int32_t slot = gpur_sequence_env_of(&run->shape, step);
        if (slot % run->threads == thread->index)
            GPUR_TRY(gpur_env_slot_name_error(&run->slots[slot], step, take_step(run, &run->slots[slot], step)));
    }
    return GPUR_OK;
}

static gpur_status train(void *context, int64_t first, int64_t last)
{
    gpur_run *const run = context;
    for (int64_t at = first, steps; at <= last && !is_stopping(run); at += steps) {
        const double begin = gpur_clock_seconds();
        steps = gpur_min(TRAIN_SLICE, last + 1 - at);
        delay(run, GPUR_PHASE_TRAIN, at);
        if (at == run->refresh_at)
            GPUR_TRY(run->work.refresh(run->work.context));
        GPUR_TRY(run->work.train(run->work.context, steps));
        gpur_meter_add(&run->meter, GPUR_PHASE_TRAIN, steps, begin);
    }
    return GPUR_OK;
}

/* Evaluation. */

static gpur_status evaluate_step(gpur_run *run, gpur_env_result *result)
{
    gpur_evaluator *const e = &run->evaluator;
    int32_t action = explore(run, run->shape.envs, e->steps++, run->config.eval_epsilon);
    if (action < 0)
        GPUR_TRY(run->work.infer_for_evaluation(run->work.context, e->runner.obs, &action));
    GPUR_TRY(gpur_env_runner_step(&e->runner, &action, result));
    if ((result->terminated || result->truncated) && result->continues)
        GPUR_TRY(gpur_env_runner_reset(&e->runner));
    return GPUR_OK;
}

/* One game. Its time is counted at its end, and the evaluation by finish_evaluation. */
static gpur_status evaluate_episode(gpur_run *run, double *sum, int64_t *length)
{
    const double begin = gpur_clock_seconds();
    gpur_env_result result = {0};
    *sum = 0.0;
    GPUR_TRY(gpur_env_runner_reset(&run->evaluator.runner));
    for (int ended = 0; !ended && !is_stopping(run);) {
        GPUR_TRY(evaluate_step(run, &result));
        ended = (result.terminated || result.truncated) && !result.continues;
        *sum += (double)result.reward;
        ++*length;
    }
    atomic_store(&run->evaluator.cut, run->evaluator.runner.cut);
    gpur_meter_add(&run->meter, GPUR_PHASE_EVALUATE, 0, begin);
    return GPUR_OK;
}

/* Adds up the returns of all episodes, and their squares. */
static gpur_status evaluate_episodes(gpur_run *run, double *sum, double *squares)
{
    for (int64_t i = 0; i < run->config.eval_episodes && !is_stopping(run); i++) {
        double found;
        atomic_store(&run->evaluator.episode, i + 1);
        GPUR_TRY(evaluate_episode(run, &found, &run->evaluator.result.length));
        *sum += found;
        *squares += found * found;
    }
    return GPUR_OK;
}

/* The mean and the deviation are computed from the sums of the returns and of their squares. */
static gpur_status evaluate(void *context, int64_t first, int64_t last)
{
    gpur_run *const run = context;
    gpur_run_event *const result = &run->evaluator.result;
    const int64_t episodes = run->config.eval_episodes;
    double sum = 0.0, squares = 0.0;
    (void)first, (void)last; /* the next is begun when this one has been reported */
    result->length = 0;
    const gpur_status status = evaluate_episodes(run, &sum, &squares);
    atomic_store(&run->evaluator.episode, 0);
    GPUR_TRY(gpur_prefix_error(status, "the evaluation"));
    const double mean = sum / (double)episodes, variance = squares / (double)episodes - mean * mean;
    result->mean_return = mean;
    result->return_deviation = variance > 0.0 ? sqrt(variance) : 0.0;
    return GPUR_OK;
}

static void report(gpur_run *run, const gpur_run_event *event)
{
    if (run->config.on_event)
        run->config.on_event(run->config.user, event);
}

/* Waits for the evaluation that runs, if there is one, and reports it. */
static gpur_status finish_evaluation(gpur_run *run)
{
    gpur_evaluator *const e = &run->evaluator;
    if (e->reported == e->begun)
        return GPUR_OK;
    GPUR_TRY(gpur_job_thread_join(&e->worker));
    e->reported = e->begun;
    if (is_stopping(run))
        return GPUR_OK; /* it has not played all its episodes */
    atomic_fetch_add(&run->meter.items[GPUR_PHASE_EVALUATE], 1);
    gpur_mutex_lock(&run->stats_lock);
    run->evaluated_return = e->result.mean_return;
    gpur_mutex_unlock(&run->stats_lock);
    report(run, &e->result);
    return GPUR_OK;
}

static gpur_status begin_evaluation(gpur_run *run)
{
    gpur_evaluator *const e = &run->evaluator;
    GPUR_TRY(finish_evaluation(run));
    GPUR_TRY(run->work.copy_for_evaluation(run->work.context));
    e->result = (gpur_run_event){.size = sizeof e->result,
                                 .kind = GPUR_RUN_EVALUATION,
                                 .env_index = -1,
                                 .step = run->step,
                                 .episodes = run->config.eval_episodes};
    gpur_job_thread_want(&e->worker, ++e->begun);
    return GPUR_OK;
}

/* The order of work. */

static void count_episode(void *context, const gpur_run_event *episode)
{
    gpur_run *const run = context;
    gpur_mutex_lock(&run->stats_lock);
    run->recent[run->episodes++ % GPUR_RECENT_EPISODES] = episode->mean_return;
    gpur_mutex_unlock(&run->stats_lock);
    report(run, episode);
}

gpur_status gpur_fast_dqn_flush(gpur_run *run)
{
    const double begin = gpur_clock_seconds();
    delay(run, GPUR_PHASE_FLUSH, run->step);
    for (int32_t i = 0; i < run->shape.envs; i++)
        GPUR_TRY(gpur_env_slot_flush(&run->slots[i], run->config.whole_episodes, count_episode, run));
    gpur_meter_add(&run->meter, GPUR_PHASE_FLUSH, run->shape.envs, begin);
    return GPUR_OK;
}

/* Lets the slots take the steps that were dispatched. Steps in a row are passed on together. A thread that has none of
 * them sleeps on: waking it costs more than a short step. */
static void release_slots(gpur_run *run)
{
    const int64_t last_round = run->step - run->shape.envs; /* in which each slot has a step */
    for (int64_t step = gpur_max(run->dispatched, last_round) + 1; step <= run->step; step++) {
        const int32_t slot = gpur_sequence_env_of(&run->shape, step);
        gpur_job_thread_want(&run->env_threads[slot % run->threads].worker, run->step);
    }
    run->dispatched = run->step;
}

static void wait_for_slots(gpur_run *run)
{
    release_slots(run);
    for (int32_t i = 0; i < run->threads; i++)
        gpur_job_thread_wait(&run->env_threads[i].worker);
}

static gpur_status join_slots(gpur_run *run)
{
    wait_for_slots(run);
    for (int32_t i = 0; i < run->threads; i++)
        GPUR_TRY(gpur_job_thread_join(&run->env_threads[i].worker));
    return GPUR_OK;
}

static gpur_status copy(gpur_run *run)
{
    const double begin = gpur_clock_seconds();
    delay(run, GPUR_PHASE_COPY, run->step);
    GPUR_TRY(run->work.copy(run->work.context, run->shape.acts_by_target));
    gpur_meter_add(&run->meter, GPUR_PHASE_COPY, 1, begin);
    return GPUR_OK;
}

static gpur_status perform(gpur_run *run, const gpur_sequence_op *op)
{
    if (op->task == GPUR_TASK_DISPATCH) {
        run->step++;
        return GPUR_OK;
    }
    release_slots(run);
    switch (op->task) {
    case GPUR_TASK_JOIN_TRAINER:
        return gpur_job_thread_join(&run->trainer);
    case GPUR_TASK_JOIN_ENVS:
        return join_slots(run);
    case GPUR_TASK_FLUSH:
        return gpur_fast_dqn_flush(run);
    case GPUR_TASK_COPY:
        return copy(run);
    case GPUR_TASK_EVALUATE:
        return begin_evaluation(run);
    case GPUR_TASK_REFRESH:
        run->refresh_at = run->train_steps + 1;
        return GPUR_OK;
    case GPUR_TASK_TRAIN:
        run->train_steps += op->count;
        gpur_job_thread_want(&run->trainer, run->train_steps);
        return GPUR_OK;
    case GPUR_TASK_INFER:
        return infer(run, run->shape.envs, run->obs, run->greedy);
    default:
        return GPUR_OK;
    }
}

/* A random step before step 1: of slot 0, or of a whole vector. *taken: the transitions that it made. */
static gpur_status take_random_step(gpur_run *run, int64_t number, int64_t *taken, int *ended)
{
    gpur_env_slot *const slot = &run->slots[0];
    const int64_t step = gpur_min(number - run->config.prepopulation, 0);
    gpur_status status;
    *taken = 1;
    if (run->vector.type) {
        status = take_vector_step(run, gpur_min(step, 1 - run->shape.envs), taken, ended);
    } else {
        const int32_t action = explore(run, 0, slot->steps, 1.0f);
        status = gpur_env_slot_name_error(slot, step, gpur_env_slot_step(slot, step, action, ended));
    }
    return gpur_prefix_error(status, "a random step before training");
}

/* Random steps, and on to the end of a game, but no more than as many again, in case it has no end. They are published
 * now and then, so that the logs stay small. */
static gpur_status prepopulate(gpur_run *run)
{
    const int64_t wanted = run->config.prepopulation, every = 1000;
    int64_t taken = 0;
    int ended = 0;
    for (int64_t i = 0; (i < wanted || (!ended && i < 2 * wanted)) && !is_stopping(run); i += taken) {
        GPUR_TRY(take_random_step(run, i + 1, &taken, &ended));
        if (i / every != (i + taken) / every)
            GPUR_TRY(gpur_fast_dqn_flush(run));
        gpur_mutex_lock(&run->stats_lock);
        run->prepopulated += taken;
        gpur_mutex_unlock(&run->stats_lock);
    }
    return gpur_fast_dqn_flush(run);
}

static gpur_status begin_slots(gpur_run *run)
{
    if (run->vector.type)
        return gpur_vector_begin(&run->vector, run->slots, run->shape.envs, run->step);
    for (int32_t i = 0; i < run->shape.envs; i++) {
        gpur_env_slot *const slot = &run->slots[i];
        GPUR_TRY(gpur_env_slot_name_error(slot, run->step, gpur_env_slot_begin(slot, run->step)));
    }
    return GPUR_OK;
}

/* Training begins right after the prepopulation. */
static gpur_status check_prepopulated(gpur_run *run)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_replay_get_stats(run->learner->replay, &stats));
    if (is_stopping(run) || gpur_replay_can_sample(run->learner->replay))
        return GPUR_OK;
    return gpur_fail(GPUR_TOO_FEW,
                     "after %" PRId64 " steps at random (prepopulation is %" PRId64 ") the replay has %" PRId64
                     " transitions; training needs min_size, %" PRId64 ", and at least 1%s",
                     run->prepopulated, run->config.prepopulation, stats.appended,
                     gpur_replay_settings(run->learner->replay)->min_size,
                     run->config.whole_episodes
                         ? ": whole_episodes is 1, so that it gets only those of episodes that have ended"
                         : "");
}

static gpur_status begin(gpur_run *run)
{
    run->has_begun = 1;
    GPUR_TRY(begin_slots(run));
    GPUR_TRY(prepopulate(run));
    return check_prepopulated(run);
}

int64_t gpur_fast_dqn_steps_taken(gpur_run *run)
{
    return atomic_load(&run->meter.items[GPUR_PHASE_ENV]);
}

gpur_status gpur_fast_dqn_join(gpur_run *run)
{
    wait_for_slots(run);
    gpur_job_thread_wait(&run->trainer);
    gpur_job_thread_wait(&run->evaluator.worker);
    GPUR_TRY(join_slots(run));
    GPUR_TRY(gpur_job_thread_join(&run->trainer));
    return finish_evaluation(run);
}

/* Why the run stops: the error of a thread, or gpur_run_stop. */
static gpur_status why_stopping(gpur_run *run)
{
    GPUR_TRY(gpur_fast_dqn_join(run));
    return gpur_fail(GPUR_INTERRUPTED, "the run was stopped after %" PRId64 " steps", gpur_fast_dqn_steps_taken(run));
}

static gpur_status take_steps(gpur_run *run, int64_t last)
{
    gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS];
    if (!run->has_begun)
        GPUR_TRY(begin(run));
    while (run->step < last && !is_stopping(run)) {
        const int32_t count = gpur_sequence_ops(&run->shape, run->step + 1, ops);
        for (int32_t i = 0; i < count && !is_stopping(run); i++)
            GPUR_TRY(perform(run, &ops[i]));
    }
    GPUR_TRY(join_slots(run));
    GPUR_TRY(gpur_job_thread_join(&run->trainer));
    if (is_stopping(run))
        return why_stopping(run);
    GPUR_TRY(gpur_learner_check_weights(run->learner, NULL));
    /* as the next period would first of all */
    return run->step % run->shape.target_period == 0 ? gpur_fast_dqn_flush(run) : GPUR_OK;
}

/* After an error every thread is stopped and waited for. Of several errors one is reported: a slot's, before the
 * trainer's and the evaluation's. A run that was stopped publishes what it has done. */
static gpur_status end(gpur_run *run, gpur_status status)
{
    char error[GPUR_JOB_ERROR];
    snprintf(error, sizeof error, "%s", gpur_last_error());
    run->has_ended = 1;
    atomic_store(&run->stopping, 1);
    (void)gpur_fast_dqn_join(run);
    if (status == GPUR_INTERRUPTED)
        GPUR_TRY(gpur_fast_dqn_flush(run));
    return gpur_fail(status, "%s", error);
}

gpur_status gpur_run_check_open(const gpur_run *run)
{
    GPUR_REQUIRE(run, "run is NULL");
    GPUR_REQUIRE(!run->has_ended, "the run has ended by an error or by gpur_run_stop; it can only be destroyed");
    return GPUR_OK;
}

gpur_status gpur_run_advance(gpur_run *run, int64_t steps)
{
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_REQUIRE(steps >= 0 && steps <= INT64_MAX / 4 - run->step,
                 "steps is %" PRId64 "; it must be 0 to %" PRId64 ", after the %" PRId64 " steps that were taken",
                 steps, INT64_MAX / 4 - run->step, run->step);
    GPUR_REQUIRE(!run->vector.type || steps % run->shape.envs == 0,
                 "steps is %" PRId64
                 " and num_envs is %d; a vector environment steps all at once, so the first must be "
                 "a multiple of the second",
                 steps, (int)run->shape.envs);
    const double begin = gpur_clock_seconds();
    const gpur_status status = take_steps(run, run->step + steps);
    gpur_mutex_lock(&run->stats_lock);
    run->seconds += gpur_clock_seconds() - begin;
    gpur_mutex_unlock(&run->stats_lock);
    return status == GPUR_OK ? GPUR_OK : end(run, status);
}

gpur_status gpur_run_evaluate(gpur_run *run)
{
    GPUR_TRY(gpur_run_check_open(run));
    GPUR_REQUIRE(run->evaluator.runner.env, "the run was made with eval_episodes 0");
    gpur_status status = begin_evaluation(run);
    if (status == GPUR_OK)
        status = finish_evaluation(run);
    if (status == GPUR_OK && is_stopping(run))
        status = why_stopping(run);
    return status == GPUR_OK ? GPUR_OK : end(run, status);
}

void gpur_run_stop(gpur_run *run)
{
    if (run)
        atomic_store(&run->stopping, 1);
}

gpur_status gpur_run_get_stats(gpur_run *run, gpur_run_stats *stats)
{
    gpur_run_stats known = {.recent_return = NAN};
    GPUR_REQUIRE(run && stats, "run and stats must not be NULL");
    const gpur_meter *const meter = &run->meter;
    gpur_mutex_lock(&run->stats_lock);
    const int64_t recent = gpur_min(run->episodes, GPUR_RECENT_EPISODES);
    double sum = 0.0;
    for (int64_t i = 0; i < recent; i++)
        sum += run->recent[i];
    if (recent > 0)
        known.recent_return = sum / (double)recent;
    known.evaluated_return = run->evaluated_return;
    known.prepopulated = run->prepopulated;
    known.episodes = run->episodes;
    known.seconds = run->seconds;
    gpur_mutex_unlock(&run->stats_lock);
    known.steps = gpur_fast_dqn_steps_taken(run);
    known.train_steps = atomic_load(&meter->items[GPUR_PHASE_TRAIN]);
    known.inferences = atomic_load(&meter->calls[GPUR_PHASE_INFER]);
    known.inferred = atomic_load(&meter->items[GPUR_PHASE_INFER]);
    known.evaluations = atomic_load(&meter->items[GPUR_PHASE_EVALUATE]);
    known.eval_episode = atomic_load(&run->evaluator.episode);
    known.eval_cut = atomic_load(&run->evaluator.cut);
    known.env_seconds = gpur_meter_seconds(meter, GPUR_PHASE_ENV);
    known.infer_seconds = gpur_meter_seconds(meter, GPUR_PHASE_INFER);
    known.train_seconds = gpur_meter_seconds(meter, GPUR_PHASE_TRAIN);
    known.publish_seconds = gpur_meter_seconds(meter, GPUR_PHASE_FLUSH);
    known.copy_seconds = gpur_meter_seconds(meter, GPUR_PHASE_COPY);
    known.eval_seconds = gpur_meter_seconds(meter, GPUR_PHASE_EVALUATE);
    return gpur_sized_write(stats, &known, sizeof known, "gpur_run_stats");
}

/* Create and destroy. */

static gpur_status check(const gpur_run *run)
{
    const gpur_run_config *const c = &run->config;
    const gpur_dqn_config *const learner = &gpur_dqn_of(run->learner)->config;
    const int64_t min_size = gpur_replay_settings(run->learner->replay)->min_size;
    const int64_t trained = gpur_learner_steps_enqueued(run->learner);
    GPUR_TRY(gpur_choice_check(c->concurrent, 1, "concurrent", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->synchronized, 1, "synchronized", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->whole_episodes, 1, "whole_episodes", "0 or 1"));
    GPUR_TRY(gpur_choice_check(c->burst, 1, "burst", "0 or 1"));
    GPUR_TRY(gpur_sequence_check(&run->shape));
    GPUR_REQUIRE(c->threads >= 0 && c->threads <= c->num_envs,
                 "threads is %d and num_envs is %d; the first must be 0 (as many) or 1 to the second", (int)c->threads,
                 (int)c->num_envs);
    GPUR_REQUIRE(c->synchronized || c->threads <= MAX_THREADS,
                 "threads is %d and synchronized is 0; without `synchronized` the first must be at most %d",
                 (int)c->threads, MAX_THREADS);
    GPUR_REQUIRE(c->act == GPUR_ACT_LATEST || c->act == GPUR_ACT_TARGET,
                 "act is %d; it must be GPUR_ACT_LATEST (0) or GPUR_ACT_TARGET (2)", (int)c->act);
    GPUR_REQUIRE(run->shape.has_cache || learner->target_period == c->target_period / c->train_period,
                 "the learner's target_period is %" PRId64 " train steps; it must be target_period / train_period = "
                 "%" PRId64 " / %" PRId64,
                 learner->target_period, c->target_period, c->train_period);
    GPUR_REQUIRE(run->shape.has_cache || trained % learner->target_period == 0,
                 "the learner has done %" PRId64 " train steps and its target_period is %" PRId64
                 "; the first must be a multiple of the second, so that the target network is copied between periods",
                 trained, learner->target_period);
    GPUR_REQUIRE(!learner->target_copy_first, "the learner's target_copy_first is 1; it must be 0 in a run");
    GPUR_REQUIRE(c->prepopulation >= gpur_max(min_size, 1),
                 "prepopulation is %" PRId64 "; it must be at least 1 and the replay's min_size, %" PRId64
                 ", because training begins right after it",
                 c->prepopulation, min_size);
    GPUR_REQUIRE(c->eval_episodes >= 0 && (c->eval_episodes > 0 || c->eval_period == 0),
                 "eval_episodes is %" PRId64 "; it must be 1 or more, or 0 if eval_period is 0", c->eval_episodes);
    GPUR_REQUIRE(c->eval_epsilon >= 0.0f && c->eval_epsilon <= 1.0f, "eval_epsilon is %g; it must be 0 to 1",
                 (double)c->eval_epsilon);
    return GPUR_OK;
}

static const char *options_of(const gpur_run *run)
{
    return run->config.env_options ? run->config.env_options : "";
}

static uint64_t seed_of(const gpur_run *run, int32_t slot)
{
    return gpur_run_env_seed(run->config.seed, slot, run->prepopulated + run->step);
}

static gpur_status init_env(const gpur_run *run, int32_t slot, gpur_env_info *info, gpur_env_runner *runner)
{
    const gpur_env_type *const type = runner->type;
    void *env = NULL;
    *info = (gpur_env_info){.size = sizeof *info};
    const uint64_t seed = seed_of(run, slot);
    GPUR_TRY(gpur_env_error(type == &gpur_single_env
                                ? gpur_single_env_init(run->vector.type, options_of(run), seed, info, &env)
                                : type->init(options_of(run), seed, info, &env)));
    return gpur_env_runner_take_env(runner, env, info);
}

/* `slot` W: the environment of the evaluation. */
static gpur_status make_env(const gpur_run *run, int32_t slot, gpur_env_info *info, gpur_env_runner *runner)
{
    const gpur_status status = init_env(run, slot, info, runner);
    return slot == run->shape.envs ? gpur_prefix_error(status, "the evaluation")
                                   : gpur_prefix_error(status, "environment %d", (int)slot);
}

static gpur_status make_vector(gpur_run *run, gpur_env_info *info)
{
    const gpur_vector_env_type *const type = run->vector.type;
    void *env = NULL;
    *info = (gpur_env_info){.size = sizeof *info};
    GPUR_TRY(gpur_prefix_error(
        gpur_env_error(type->init(options_of(run), seed_of(run, 0), run->shape.envs, info, &env)), "%s", type->name));
    run->vector.env = env;
    GPUR_REQUIRE(env, "init of %s returned no environment", type->name);
    info->save_bytes = 0;
    return GPUR_OK;
}

/* Refuses an environment that shows or takes something else than the first one: memory is as large as that needs. */
static gpur_status check_same(const gpur_run *run, const gpur_env_info *info, int32_t slot)
{
    const gpur_space *const first = &run->info.obs, *const obs = &info->obs;
    const int is_same = obs->dtype == first->dtype && memcmp(obs->shape, first->shape, sizeof obs->shape) == 0;
    GPUR_REQUIRE(is_same && info->action.num_actions == run->info.action.num_actions,
                 "environment %d (%d: the evaluation's) has other observations or actions than environment 0; all must "
                 "have the same",
                 (int)slot, (int)run->shape.envs);
    GPUR_REQUIRE(run->vector.type || info->save_bytes == run->info.save_bytes,
                 "environment %d saves %" PRId64 " bytes and environment 0 %" PRId64 "; they must be the same",
                 (int)slot, info->save_bytes, run->info.save_bytes);
    return GPUR_OK;
}

/* The environments of the slots, in their order, and that of the evaluation. The first one tells what all are like. */
static gpur_status make_envs(gpur_run *run)
{
    const int32_t slots = run->shape.envs;
    const int is_first = run->info.size == 0;
    gpur_env_info info;
    for (int32_t i = 0; i <= slots; i++) {
        gpur_env_runner *const runner = i < slots ? &run->slots[i].runner : &run->evaluator.runner;
        if (runner->type)
            GPUR_TRY(make_env(run, i, &info, runner));
        else if (i == 0)
            GPUR_TRY(make_vector(run, &info));
        else
            continue;
        if (i == 0 && is_first)
            run->info = info;
        GPUR_TRY(check_same(run, &info, i));
    }
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_remake_envs(gpur_run *run)
{
    for (int32_t i = 0; i < run->shape.envs; i++)
        gpur_env_runner_close_env(&run->slots[i].runner);
    gpur_env_runner_close_env(&run->evaluator.runner);
    gpur_vector_close_env(&run->vector);
    GPUR_TRY(make_envs(run));
    return begin_slots(run);
}

static gpur_status open_slots(gpur_run *run, gpur_run_types types)
{
    const int32_t slots = run->shape.envs;
    gpur_replay *const replay = run->learner->replay;
    run->vector.type = types.vector;
    for (int32_t i = 0; i < slots; i++)
        run->slots[i].runner.type = types.vector ? NULL : types.env;
    if (run->config.eval_episodes > 0)
        run->evaluator.runner = (gpur_env_runner){.type = types.env ? types.env : &gpur_single_env, .evaluates = 1};
    GPUR_TRY(make_envs(run));
    GPUR_TRY(gpur_actions_check(&run->info.action, gpur_dqn_of(run->learner)->config.network.num_actions));
    GPUR_TRY(
        gpur_obs_shape_find(&run->info.obs, gpur_replay_schema(replay), gpur_replay_settings(replay), &run->obs_shape));
    const int64_t bytes = gpur_obs_bytes(&run->obs_shape);
    run->obs = calloc((size_t)slots + 1, (size_t)bytes);
    if (!run->obs)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d observations of %" PRId64 " bytes", (int)slots + 1,
                         bytes);
    for (int32_t i = 0; i <= slots; i++) {
        gpur_env_runner *const runner = i < slots ? &run->slots[i].runner : &run->evaluator.runner;
        GPUR_TRY(gpur_env_runner_open(runner, &run->obs_shape, run->obs + i * bytes,
                                      gpur_replay_settings(replay)->check_finite));
    }
    for (int32_t i = 0; i < slots; i++) {
        run->slots[i].index = i;
        GPUR_TRY(gpur_env_slot_open(&run->slots[i], replay));
    }
    return types.vector ? gpur_vector_open(&run->vector, &run->obs_shape, slots) : GPUR_OK;
}

static gpur_status open_threads(gpur_run *run)
{
    for (int32_t i = 0; i < run->threads; i++) {
        gpur_env_thread *const thread = &run->env_threads[i];
        thread->run = run;
        thread->index = i;
        GPUR_TRY(gpur_job_thread_open(&thread->worker, step_slots, thread, &run->stopping, "environments"));
    }
    GPUR_TRY(gpur_job_thread_open(&run->trainer, train, run, &run->stopping, "the trainer"));
    if (run->config.eval_episodes == 0)
        return GPUR_OK;
    return gpur_job_thread_open(&run->evaluator.worker, evaluate, run, &run->stopping, "the evaluation");
}

/* Blocks have successive transitions of one environment. The first refresh comes right after the prepopulation, and
 * needs an environment with as many steps as a block; in later ones the environments share the replay. */
static gpur_status check_cache(const gpur_run *run, gpur_run_types types)
{
    const gpur_run_config *const c = &run->config;
    const int32_t envs = types.vector ? c->num_envs : 1;
    const int64_t block = gpur_dqn_of(run->learner)->config.returns.block_length;
    const int64_t capacity = gpur_replay_settings(run->learner->replay)->capacity;
    if (!run->shape.has_cache)
        return GPUR_OK;
    GPUR_REQUIRE(c->prepopulation / envs > block,
                 "prepopulation is %" PRId64 ", the steps of %d environment%s, and the learner's returns.block_length "
                 "is %" PRId64 "; each of them must take more steps than a block has",
                 c->prepopulation, (int)envs, envs == 1 ? "" : "s", block);
    GPUR_REQUIRE(capacity / c->num_envs >= 2 * block,
                 "the replay's capacity is %" PRId64 " and num_envs is %d, which is %" PRId64
                 " transitions of each environment; with a cache of returns it must be at least 2 x block_length = "
                 "%" PRId64 " of each",
                 capacity, (int)c->num_envs, capacity / c->num_envs, 2 * block);
    return GPUR_OK;
}

static gpur_status check_types(const gpur_run *run, gpur_run_types types)
{
    const gpur_run_config *const c = &run->config;
    GPUR_REQUIRE(types.env || types.vector, "the type of environment is NULL");
    if (types.env)
        GPUR_TRY(gpur_env_type_check(types.env));
    if (types.vector)
        GPUR_TRY(gpur_vector_env_type_check(types.vector));
    GPUR_REQUIRE(!types.vector || c->synchronized,
                 "synchronized is 0; a vector environment, which steps all at once, needs synchronized 1");
    GPUR_REQUIRE(types.vector || !c->synchronized || c->num_envs >= 2,
                 "synchronized is 1 and num_envs is %d; it needs 2 or more, or a vector environment", (int)c->num_envs);
    GPUR_REQUIRE(!types.vector || c->concurrent || c->burst || c->train_period % c->num_envs == 0,
                 "train_period is %" PRId64 " and num_envs is %d; for a vector environment without `concurrent` and "
                 "`burst` the first must be a multiple of the second",
                 c->train_period, (int)c->num_envs);
    return GPUR_OK;
}

static int32_t threads_of(const gpur_run_config *c, gpur_run_types types)
{
    return types.vector ? 1 : c->threads > 0 ? c->threads : (int32_t)gpur_min(c->num_envs, MAX_THREADS);
}

static gpur_status alloc_slots(gpur_run *run)
{
    const size_t slots = (size_t)run->shape.envs;
    run->slots = calloc(slots, sizeof *run->slots);
    run->env_threads = calloc((size_t)run->threads, sizeof *run->env_threads);
    run->greedy = calloc(slots, sizeof *run->greedy);
    if (!run->slots || !run->env_threads || !run->greedy)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu slots", slots);
    return GPUR_OK;
}

static gpur_status build(gpur_run *run, gpur_run_types types, const gpur_run_config *given,
                         const gpur_fast_dqn_work *work)
{
    gpur_run_config *const c = &run->config;
    *c = defaults;
    GPUR_TRY(gpur_sized_read(c, sizeof *c, given, "gpur_run_config"));
    const int has_cache = gpur_dqn_of(run->learner)->config.returns.cache_size > 0;
    run->shape = (gpur_sequence_shape){.target_period = c->target_period,
                                       .train_period = c->train_period,
                                       .eval_period = c->eval_period,
                                       .envs = c->num_envs,
                                       .concurrent = c->concurrent,
                                       .synchronized = c->synchronized,
                                       .burst = c->burst,
                                       .has_cache = has_cache,
                                       .acts_by_target = (c->concurrent && !has_cache) || c->act == GPUR_ACT_TARGET};
    GPUR_TRY(check(run));
    GPUR_TRY(check_types(run, types));
    GPUR_TRY(check_cache(run, types));
    run->threads = threads_of(c, types);
    run->evaluated_return = NAN;
    GPUR_TRY(gpur_mutex_open(&run->stats_lock, "a run"));
    GPUR_TRY(alloc_slots(run));
    if (work)
        run->work = *work;
    else
        GPUR_TRY(gpur_learner_work_open(&run->learner_work, run->learner, c->synchronized ? 1 : run->threads,
                                        c->synchronized ? c->num_envs : 1, c->eval_episodes > 0, &run->work));
    GPUR_TRY(open_slots(run, types));
    return open_threads(run);
}

gpur_status gpur_run_create_with(gpur_learner *learner, gpur_run_types types, const gpur_run_config *config,
                                 const gpur_fast_dqn_work *work, gpur_run **out)
{
    GPUR_REQUIRE(out, "run, which gets the handle, is NULL");
    *out = NULL;
    GPUR_TRY(gpur_learner_require(learner, &gpur_algorithm_dqn, "gpur_run_create"));
    gpur_run *const run = calloc(1, sizeof *run);
    if (!run)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a run of %zu bytes", sizeof *run);
    run->learner = learner;
    const gpur_status status = build(run, types, config, work);
    if (status != GPUR_OK) {
        gpur_run_destroy(run);
        return status;
    }
    *out = run;
    return GPUR_OK;
}

gpur_status gpur_run_create(gpur_learner *learner, const gpur_env_type *type, const gpur_run_config *config,
                            gpur_run **out)
{
    return gpur_run_create_with(learner, (gpur_run_types){type, NULL}, config, NULL, out);
}

gpur_status gpur_run_create_vector(gpur_learner *learner, const gpur_vector_env_type *type,
                                   const gpur_env_type *eval_type, const gpur_run_config *config, gpur_run **out)
{
    if (out)
        *out = NULL;
    GPUR_REQUIRE(type, "type is NULL; it must be a type of vector environment");
    return gpur_run_create_with(learner, (gpur_run_types){eval_type, type}, config, NULL, out);
}

void gpur_run_destroy(gpur_run *run)
{
    if (!run)
        return;
    atomic_store(&run->stopping, 1);
    for (int32_t i = 0; run->env_threads && i < run->threads; i++)
        gpur_job_thread_close(&run->env_threads[i].worker);
    gpur_job_thread_close(&run->trainer);
    gpur_job_thread_close(&run->evaluator.worker);
    for (int32_t i = 0; run->slots && i < run->shape.envs; i++)
        gpur_env_slot_close(&run->slots[i]);
    gpur_env_runner_close(&run->evaluator.runner);
    gpur_vector_close(&run->vector);
    gpur_learner_work_close(&run->learner_work);
    gpur_mutex_close(&run->stats_lock);
    free(run->env_threads);
    free(run->slots);
    free(run->greedy);
    free(run->obs);
    free(run);
}
