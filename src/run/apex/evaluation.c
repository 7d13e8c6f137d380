/* SPDX-License-Identifier: MIT */
/* Begins evaluations of Ape-X, waits for them and reports them. */
#include "run/apex/handle.h"

#include <stdio.h>

/* Copies the learner's weights for the evaluator, and keeps them. */
static gpur_status set_weights(gpur_apex *apex)
{
    const int64_t bytes = gpur_policy_weights_bytes(apex->evaluated);
    GPUR_TRY(gpur_learner_check_weights(apex->learner, NULL));
    GPUR_TRY(gpur_policy_pull(apex->evaluated, apex->learner, GPUR_WEIGHTS_ONLINE));
    GPUR_TRY(gpur_policy_get_weights(apex->evaluated, apex->weights, bytes));
    gpur_shared_set_evaluated(&apex->shared, apex->weights, bytes);
    return GPUR_OK;
}

/* Under the lock. What was before does not count to an evaluator that is started again. */
static void want_evaluator(gpur_slot *slot)
{
    if (!slot->is_running)
        slot->early_deaths = slot->early_failures = 0, slot->next_start = 0.0;
    slot->is_wanted = 1;
}

gpur_status gpur_apex_begin_evaluation(gpur_apex *apex, int64_t episodes, int32_t greedy, int32_t is_alone)
{
    gpur_apex_evaluation *const e = &apex->evaluation;
    gpur_actor_counts *const counts = gpur_slot_counts(apex->evaluator);
    atomic_store(&counts->evaluation, 0);
    GPUR_TRY(set_weights(apex));
    gpur_mutex_lock(&apex->core.lock);
    *e = (gpur_apex_evaluation){.state = GPUR_EVALUATION_PLAYED, .is_alone = is_alone, .number = e->number + 1};
    e->event = (gpur_run_event){.kind = GPUR_RUN_EVALUATION,
                                .env_index = -1,
                                .env_steps = apex->core.stats.env_steps,
                                .train_steps = apex->core.stats.train_steps,
                                .version = gpur_policy_version(apex->evaluated),
                                .policy = apex->evaluated,
                                .loss = gpur_learner_newest_loss(apex->learner)};
    want_evaluator(apex->evaluator);
    atomic_store(&counts->eval_episodes, episodes);
    atomic_store(&counts->eval_is_greedy, greedy);
    atomic_store(&counts->eval_episode, 1);
    atomic_store(&counts->evaluation, e->number);
    gpur_mutex_unlock(&apex->core.lock);
    gpur_supervisor_wake(apex);
    return GPUR_OK;
}

void gpur_apex_give_up_evaluation(gpur_apex *apex)
{
    if (apex->evaluation.state == GPUR_EVALUATION_PLAYED)
        apex->evaluation.state = GPUR_EVALUATION_MISSING;
    atomic_store(&gpur_slot_counts(apex->evaluator)->evaluation, 0);
    gpur_mutex_notify_all(&apex->core.lock);
}

void gpur_apex_take_evaluation(gpur_slot *slot, const gpur_actor_evaluation *result)
{
    gpur_apex *const apex = slot->apex;
    gpur_apex_evaluation *const e = &apex->evaluation;
    gpur_mutex_lock(&apex->core.lock);
    slot->has_sent = 1;
    apex->core.stats.eval_cut += result->cut;
    apex->core.stats.eval_seconds += result->seconds;
    if (e->state == GPUR_EVALUATION_PLAYED && result->number == e->number) {
        e->event.episodes = result->episodes;
        e->event.length = result->length;
        e->event.mean_return = result->mean_return;
        e->event.return_deviation = result->return_deviation;
        e->state = GPUR_EVALUATION_ENDED;
        atomic_store(&gpur_slot_counts(slot)->evaluation, 0);
        gpur_mutex_notify_all(&apex->core.lock);
    }
    gpur_mutex_unlock(&apex->core.lock);
}

gpur_status gpur_apex_await(gpur_apex *apex, int (*is_over)(const gpur_apex *apex))
{
    for (int is = 0; !is && !gpur_run_is_stopping(&apex->core);) {
        gpur_run_deliver_events(&apex->core);
        if (gpur_run_has_failed(&apex->core))
            return GPUR_INTERRUPTED;
        gpur_mutex_lock(&apex->core.lock);
        is = is_over(apex);
        if (!is && apex->core.events.count == 0 && apex->core.status == GPUR_OK)
            gpur_mutex_wait_for(&apex->core.lock, GPUR_APEX_POLL_SECONDS);
        gpur_mutex_unlock(&apex->core.lock);
    }
    return GPUR_OK;
}

static int is_evaluation_over(const gpur_apex *apex)
{
    return apex->evaluation.state != GPUR_EVALUATION_PLAYED;
}

gpur_status gpur_apex_await_evaluation(gpur_apex *apex)
{
    GPUR_TRY(gpur_apex_await(apex, is_evaluation_over));
    gpur_apex_report_evaluation(apex);
    return GPUR_OK;
}

void gpur_apex_report_evaluation(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    const gpur_apex_evaluation ended = apex->evaluation;
    if (ended.state == GPUR_EVALUATION_ENDED)
        apex->evaluation.state = GPUR_EVALUATION_NONE;
    gpur_mutex_unlock(&apex->core.lock);
    if (ended.state == GPUR_EVALUATION_ENDED)
        gpur_run_report_evaluation(&apex->core, &ended.event);
}

/* Ends what gpur_run_evaluate has begun, and which may be over. An actor that was given up does not run, so its error
 * stays. */
static gpur_status end_evaluation(gpur_apex *apex, gpur_run_event *event)
{
    char error[GPUR_APEX_ERROR] = "";
    gpur_mutex_lock(&apex->core.lock);
    if (apex->evaluation.state == GPUR_EVALUATION_MISSING)
        snprintf(error, sizeof error, "%s", gpur_slot_error(apex->evaluator));
    gpur_apex_give_up_evaluation(apex);
    const gpur_apex_evaluation ended = apex->evaluation;
    apex->evaluation.state = GPUR_EVALUATION_NONE;
    gpur_mutex_unlock(&apex->core.lock);
    *event = ended.event;
    if (ended.state != GPUR_EVALUATION_ENDED && !gpur_run_is_stopping(&apex->core))
        return gpur_fail(GPUR_UNAVAILABLE, "the evaluation is missing: the actor that evaluates died%s: %s",
                         apex->config.restarts ? " again and again, the last time so" : "", error);
    return GPUR_OK;
}

/* One beside the training that is played still comes first. */
gpur_status gpur_apex_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event)
{
    gpur_apex *const apex = gpur_apex_of(core);
    GPUR_TRY(gpur_apex_await_evaluation(apex));
    if (gpur_run_is_stopping(core))
        return GPUR_OK;
    GPUR_TRY(gpur_apex_begin_evaluation(apex, episodes, greedy, 1));
    const gpur_status status = gpur_apex_await(apex, is_evaluation_over);
    const gpur_status ended = end_evaluation(apex, event);
    return status != GPUR_OK ? status : ended;
}
