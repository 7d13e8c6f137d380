/* SPDX-License-Identifier: MIT */
/*
 * Carries out the order of work (sequence.h), one operation after another. gpur_run_stop interrupts it between two
 * operations, or while an operation waits for threads, which pause between two jobs. What was begun and not finished is
 * kept: `next_op` is the operation to go on with, and threads keep the jobs that they have not done. So the run goes on
 * as if it had not been stopped.
 */
#include "run/fast_dqn/handle.h"

#include "base/numbers.h"
#include "replay/view.h"

#include <inttypes.h>
#include <stdio.h>

/* The environment threads. */

/* Waking a thread and waiting for it takes tens of microseconds. Steps of all environments together that take less are
 * taken by the thread that advances. */
static const double SHORT_SECONDS = 50e-6;

static double mean_seconds(const gpur_meter *meter, gpur_run_phase phase)
{
    const int64_t calls = atomic_load(&meter->calls[phase]);
    return calls > 0 ? gpur_meter_seconds(meter, phase) / (double)calls : 1.0;
}

/* 1: the steps that were dispatched and not released are known to be short, and no thread takes a step now. */
static int are_short(const gpur_fast_dqn *run)
{
    const int64_t calls = run->vector.type ? 1 : run->step - run->released;
    double step = mean_seconds(&run->meter, GPUR_PHASE_ENV);
    if (!run->shape.synchronized)
        step += mean_seconds(&run->meter, GPUR_PHASE_INFER);
    return run->released == run->joined && (double)calls * step < SHORT_SECONDS;
}

/* Lets the threads take the steps that were dispatched, or takes them `here`. Steps in a row are passed on together. A
 * thread that has none of them sleeps on: waking it costs more than a short step. */
static void release_steps(gpur_fast_dqn *run, int here)
{
    const int64_t last_round = run->step - run->shape.envs; /* in which each environment has a step */
    for (int64_t step = gpur_max(run->released, last_round) + 1; step <= run->step; step++) {
        gpur_job_thread *const jobs = &run->env_threads[gpur_sequence_env_of(&run->shape, step) % run->threads].jobs;
        if (!here)
            gpur_job_thread_want(jobs, run->step);
        else if (jobs->wanted != run->step)
            gpur_job_thread_run_here(jobs, run->step);
    }
    run->released = run->step;
}

static int wait_for_envs(gpur_fast_dqn *run)
{
    int are_done = 1;
    for (int32_t i = 0; i < run->threads; i++)
        are_done &= gpur_job_thread_wait(&run->env_threads[i].jobs);
    return are_done;
}

static gpur_status check_envs(const gpur_fast_dqn *run)
{
    for (int32_t i = 0; i < run->threads; i++)
        GPUR_TRY(gpur_job_thread_check(&run->env_threads[i].jobs));
    return GPUR_OK;
}

/* *is_done 0: threads have paused before the last step. */
static gpur_status join_envs(gpur_fast_dqn *run, int *is_done)
{
    release_steps(run, are_short(run));
    *is_done = wait_for_envs(run);
    GPUR_TRY(check_envs(run));
    run->joined = *is_done ? run->step : run->joined;
    return GPUR_OK;
}

static gpur_status join_trainer(gpur_fast_dqn *run, int *is_done)
{
    *is_done = gpur_job_thread_wait(&run->trainer);
    return gpur_job_thread_check(&run->trainer);
}

static void wait_for_all(gpur_fast_dqn *run)
{
    (void)wait_for_envs(run);
    (void)gpur_job_thread_wait(&run->trainer);
    (void)gpur_job_thread_wait(&run->evaluation);
}

/* Evaluations. */

/* Waits for the evaluation that is played, if there is one, and reports it. */
static gpur_status finish_evaluation(gpur_fast_dqn *run, int *is_done)
{
    *is_done = gpur_job_thread_wait(&run->evaluation);
    GPUR_TRY(gpur_job_thread_check(&run->evaluation));
    if (!*is_done || run->reported == run->begun)
        return GPUR_OK;
    run->reported = run->begun;
    gpur_evaluator_fill_event(&run->evaluator, &run->evaluated);
    gpur_run_report_evaluation(&run->core, &run->evaluated);
    return GPUR_OK;
}

/* Logs. */

/* Episodes that were flushed while an evaluation is played are delivered after it, so that the order of events does not
 * depend on how long it takes. */
static gpur_status deliver_episodes(gpur_fast_dqn *run)
{
    int is_done;
    if (run->reported != run->begun && gpur_job_thread_is_busy(&run->evaluation))
        return GPUR_OK;
    if (run->reported != run->begun)
        return finish_evaluation(run, &is_done);
    gpur_run_deliver_events(&run->core);
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_flush(gpur_fast_dqn *run)
{
    const double begin = gpur_clock_seconds();
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_FLUSH, run->step);
    for (int32_t i = 0; i < run->shape.envs; i++)
        GPUR_TRY(gpur_env_slot_flush(&run->slots[i]));
    gpur_meter_add(&run->meter, GPUR_PHASE_FLUSH, run->shape.envs, begin);
    return deliver_episodes(run);
}

/* Only when the one before has been finished. */
static gpur_status begin_evaluation(gpur_fast_dqn *run, int64_t episodes, int32_t greedy)
{
    GPUR_TRY(run->work.pull(run->evaluating, run->learner, GPUR_WEIGHTS_ONLINE));
    run->evaluated = (gpur_run_event){.kind = GPUR_RUN_EVALUATION,
                                      .env_index = -1,
                                      .env_steps = run->step,
                                      .train_steps = atomic_load(&run->meter.items[GPUR_PHASE_TRAIN]),
                                      .loss = run->core.system->loss(&run->core),
                                      .policy = run->evaluating};
    if (run->evaluated.policy)
        run->evaluated.version = gpur_policy_version(run->evaluated.policy);
    gpur_evaluator_begin(&run->evaluator, episodes, greedy);
    gpur_job_thread_want(&run->evaluation, ++run->begun);
    return GPUR_OK;
}

/* The evaluation after run->step steps, unless it was begun at the end of an earlier call. */
static gpur_status begin_periodic_evaluation(gpur_fast_dqn *run, int *is_done)
{
    GPUR_TRY(finish_evaluation(run, is_done));
    if (!*is_done || run->core.evaluated_at == run->step)
        return GPUR_OK;
    run->core.evaluated_at = run->step;
    return begin_evaluation(run, run->core.config.eval_episodes, 0);
}

/* The order of work. */

gpur_status gpur_fast_dqn_copy_weights(gpur_fast_dqn *run)
{
    const int32_t weights = run->shape.acts_by_target ? GPUR_WEIGHTS_TARGET : GPUR_WEIGHTS_ONLINE;
    return run->work.pull(run->acting, run->learner, weights);
}

static gpur_status copy(gpur_fast_dqn *run)
{
    const double begin = gpur_clock_seconds();
    gpur_fast_dqn_call_delay(run, GPUR_PHASE_COPY, run->step);
    GPUR_TRY(gpur_fast_dqn_copy_weights(run));
    gpur_meter_add(&run->meter, GPUR_PHASE_COPY, 1, begin);
    return GPUR_OK;
}

/* Without concurrent training everybody waits for the train steps, so they are done here. */
static void begin_training(gpur_fast_dqn *run, int64_t steps)
{
    run->train_steps += steps;
    if (run->shape.concurrent)
        gpur_job_thread_want(&run->trainer, run->train_steps);
    else
        gpur_job_thread_run_here(&run->trainer, run->train_steps);
}

/* *is_done becomes 0 if the operation waits for threads that have paused: it is carried out again later. */
static gpur_status perform(gpur_fast_dqn *run, const gpur_sequence_op *op, int *is_done)
{
    if (op->task == GPUR_TASK_DISPATCH) {
        run->step++;
        return GPUR_OK;
    }
    if (op->task == GPUR_TASK_JOIN_ENVS)
        return join_envs(run, is_done);
    release_steps(run, 0);
    switch (op->task) {
    case GPUR_TASK_JOIN_TRAINER:
        return join_trainer(run, is_done);
    case GPUR_TASK_FLUSH:
        return gpur_fast_dqn_flush(run);
    case GPUR_TASK_COPY:
        return copy(run);
    case GPUR_TASK_EVALUATE:
        return begin_periodic_evaluation(run, is_done);
    case GPUR_TASK_REFRESH:
        run->refresh_at = run->train_steps + 1;
        return GPUR_OK;
    case GPUR_TASK_TRAIN:
        begin_training(run, op->count);
        return GPUR_OK;
    case GPUR_TASK_INFER:
        return gpur_fast_dqn_infer(run, 0, run->shape.envs);
    default:
        return GPUR_OK;
    }
}

static gpur_status take_step(gpur_fast_dqn *run)
{
    gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS];
    const int32_t count = gpur_sequence_ops(&run->shape, run->step + 1, ops);
    int is_done = 1;
    while (run->next_op < count && is_done && !gpur_fast_dqn_pauses(run)) {
        GPUR_TRY(perform(run, &ops[run->next_op], &is_done));
        run->next_op += is_done;
    }
    run->next_op %= count; /* the last operation is the dispatch, which goes on to the next step */
    return GPUR_OK;
}

/* The prepopulation. */

/* Random steps, and on to the end of a game, but no more than as many again, in case it has no end. They are flushed
 * now and then, so that the logs stay small. */
static gpur_status prepopulate(gpur_fast_dqn *run)
{
    const int64_t wanted = run->config.prepopulation, every = 1000;
    int64_t at = run->core.stats.fast_dqn.prepopulated, taken = 0;
    int ended = run->prepopulation_ends;
    for (; (at < wanted || (!ended && at < 2 * wanted)) && !gpur_fast_dqn_pauses(run); at += taken) {
        GPUR_TRY(gpur_fast_dqn_random_step(run, gpur_min(at + 1 - wanted, 0), &taken, &ended));
        if (at / every != (at + taken) / every)
            GPUR_TRY(gpur_fast_dqn_flush(run));
        run->prepopulation_ends = ended;
        gpur_mutex_lock(&run->core.lock);
        run->core.stats.fast_dqn.prepopulated += taken;
        gpur_mutex_unlock(&run->core.lock);
    }
    return gpur_fast_dqn_pauses(run) ? GPUR_OK : gpur_fast_dqn_flush(run);
}

/* Training begins right after the prepopulation. */
static gpur_status check_prepopulated(const gpur_fast_dqn *run)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_replay_get_stats(run->learner->replay, &stats));
    if (gpur_replay_can_sample(run->learner->replay))
        return GPUR_OK;
    return gpur_fail(GPUR_TOO_FEW,
                     "after %" PRId64 " steps at random (prepopulation is %" PRId64 ") the replay has %" PRId64
                     " transitions; training needs min_size, %" PRId64 ", and at least 1%s",
                     run->core.stats.fast_dqn.prepopulated, run->config.prepopulation, stats.appended,
                     gpur_replay_settings(run->learner->replay)->min_size,
                     run->config.whole_episodes
                         ? ": whole_episodes is 1, so that it gets only those of episodes that have ended"
                         : "");
}

static gpur_status begin(gpur_fast_dqn *run)
{
    if (!run->have_envs_begun)
        GPUR_TRY(gpur_fast_dqn_begin_envs(run));
    run->have_envs_begun = 1;
    GPUR_TRY(prepopulate(run));
    if (gpur_fast_dqn_pauses(run))
        return GPUR_OK;
    GPUR_TRY(check_prepopulated(run));
    run->has_begun = 1;
    return GPUR_OK;
}

/* Stopping. */

/* Steps that were dispatched and that no environment has taken are taken back. Between the last join and the last
 * dispatch there are only dispatches, so of the step that is then the next one all other operations were carried
 * out. */
static gpur_status take_steps_back(gpur_fast_dqn *run)
{
    gpur_sequence_op ops[GPUR_SEQUENCE_MAX_OPS];
    int64_t last = run->joined; /* that any environment has taken */
    for (int32_t i = 0; i < run->shape.envs; i++)
        last = gpur_max(last, run->slots[i].taken);
    atomic_store(&run->is_catching_up, 1);
    for (int32_t i = 0; i < run->threads; i++)
        gpur_job_thread_resume(&run->env_threads[i].jobs, last);
    (void)wait_for_envs(run);
    atomic_store(&run->is_catching_up, 0);
    GPUR_TRY(check_envs(run));
    if (run->step > last)
        run->next_op = gpur_sequence_ops(&run->shape, last + 1, ops) - 1;
    run->step = run->released = run->joined = last;
    return GPUR_OK;
}

/* The run was stopped, or a thread has failed. Of several errors one is reported: that of an environment, before the
 * trainer's and the evaluation's. */
static gpur_status pause_all(gpur_fast_dqn *run)
{
    wait_for_all(run);
    GPUR_TRY(check_envs(run));
    GPUR_TRY(gpur_job_thread_check(&run->trainer));
    GPUR_TRY(gpur_job_thread_check(&run->evaluation));
    if (run->has_begun)
        GPUR_TRY(take_steps_back(run));
    for (int32_t i = 0; i < run->shape.envs; i++)
        gpur_env_slot_count_episodes(&run->slots[i]);
    return GPUR_INTERRUPTED;
}

int gpur_fast_dqn_has_unfinished(const gpur_fast_dqn *run)
{
    return run->next_op != 0 || run->trainer.done != run->trainer.wanted || run->reported != run->begun;
}

/* The end of a call: what was begun is finished, and what is due after its last step is done. */
static gpur_status finish(gpur_fast_dqn *run)
{
    const gpur_sequence_shape *const shape = &run->shape;
    int is_done;
    GPUR_TRY(join_envs(run, &is_done));
    GPUR_TRY(join_trainer(run, &is_done));
    if (gpur_fast_dqn_pauses(run))
        return GPUR_OK;
    GPUR_TRY(gpur_learner_check_weights(run->learner, NULL));
    if (run->step % shape->target_period == 0) /* as the next period would first of all */
        GPUR_TRY(gpur_fast_dqn_flush(run));
    if (shape->eval_period > 0 && run->step > 0 && run->step % shape->eval_period == 0)
        GPUR_TRY(begin_periodic_evaluation(run, &is_done));
    return finish_evaluation(run, &is_done);
}

/* Whether the next step is not to be taken, though `last` is not reached: the run can be saved here, and is to end. */
static int ends_here(gpur_fast_dqn *run)
{
    return atomic_load_explicit(&run->core.ends_soon, memory_order_relaxed) && run->next_op == 0 &&
           run->step % run->shape.target_period == 0;
}

static gpur_status take_steps(gpur_fast_dqn *run, int64_t last)
{
    if (!run->has_begun)
        GPUR_TRY(begin(run));
    while (run->has_begun && run->step < last && !gpur_fast_dqn_pauses(run) && !ends_here(run))
        GPUR_TRY(take_step(run));
    if (!gpur_fast_dqn_pauses(run))
        GPUR_TRY(finish(run));
    return gpur_fast_dqn_pauses(run) ? pause_all(run) : GPUR_OK;
}

/* After an error every thread is stopped and waited for. */
static gpur_status end(gpur_fast_dqn *run, gpur_status status)
{
    char error[GPUR_JOB_ERROR];
    if (status == GPUR_OK || status == GPUR_INTERRUPTED)
        return status;
    snprintf(error, sizeof error, "%s", gpur_last_error());
    atomic_store(&run->failing, 1);
    wait_for_all(run);
    return gpur_fail(status, "%s", error);
}

gpur_status gpur_fast_dqn_check_advance(gpur_run *core, int64_t steps, int64_t train_steps)
{
    (void)train_steps;
    const gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    GPUR_REQUIRE(steps <= INT64_MAX / 4 - run->step,
                 "env_steps is %" PRId64 "; it must be 0 to %" PRId64 ", after the %" PRId64 " steps that were taken",
                 steps, INT64_MAX / 4 - run->step, run->step);
    GPUR_REQUIRE(!run->vector.type || steps % run->shape.envs == 0,
                 "env_steps is %" PRId64
                 " and num_envs is %d; a vector environment steps all at once, so the first must be "
                 "a multiple of the second",
                 steps, (int)run->shape.envs);
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_advance(gpur_run *core, int64_t steps, int64_t train_steps)
{
    (void)train_steps;
    gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    gpur_job_thread_resume(&run->trainer, run->train_steps);
    gpur_job_thread_resume(&run->evaluation, run->begun);
    return end(run, take_steps(run, run->step + steps));
}

/* One that was stopped or has failed is forgotten: its games, and the error. */
static gpur_status evaluate(gpur_fast_dqn *run, int64_t episodes, int32_t greedy)
{
    GPUR_TRY(begin_evaluation(run, episodes, greedy));
    const int is_done = gpur_job_thread_wait(&run->evaluation);
    const gpur_status status = gpur_job_thread_check(&run->evaluation);
    run->reported = run->begun;
    if (is_done && status == GPUR_OK)
        return GPUR_OK;
    gpur_job_thread_restart_at(&run->evaluation, run->begun);
    gpur_evaluator_abandon(&run->evaluator);
    atomic_store(&run->failing, 0);
    return status != GPUR_OK ? status : GPUR_INTERRUPTED;
}

/* An evaluation beside the training that was paused comes first. Its error ends the run, as in an advance. */
gpur_status gpur_fast_dqn_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event)
{
    gpur_fast_dqn *const run = gpur_fast_dqn_of(core);
    int is_done;
    gpur_job_thread_resume(&run->evaluation, run->begun);
    const gpur_status status = end(run, finish_evaluation(run, &is_done));
    if (status != GPUR_OK)
        gpur_run_fail(core, status);
    if (status != GPUR_OK || !is_done)
        return status != GPUR_OK ? status : GPUR_INTERRUPTED;
    GPUR_TRY(evaluate(run, episodes, greedy));
    gpur_evaluator_fill_event(&run->evaluator, &run->evaluated);
    *event = run->evaluated;
    return GPUR_OK;
}
