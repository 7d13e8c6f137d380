/* SPDX-License-Identifier: MIT */
/*
 * A2C: a scheduler answers all agents together. When all of them wait, it does the first of these that there is to do:
 *
 *     it computes the values that agents ask for to close rollouts
 *     it trains on all complete rollouts as one batch
 *     it begins a round: it computes an action for every agent, and wakes the agents in their order, as long as steps
 *     remain. The round goes on in the next gpur_run_advance
 *
 * So nothing depends on the timing of threads, and requests are answered and rollouts joined in the order of the
 * agents.
 */
#include "run/ga3c/handle.h"

typedef enum job { JOB_NONE, JOB_VALUES, JOB_TRAIN, JOB_ROUND, JOB_RELEASE } job;

/* From the agents' threads. */

void gpur_a2c_ask(gpur_agent_slot *slot, int32_t asks)
{
    gpur_ga3c *const run = slot->run;
    slot->asks = asks;
    if (++run->waiting == run->running)
        gpur_mutex_notify_all(&run->core.lock);
}

/* The rollout is trained on before any agent gets another action, so a slot has one at most. */
void gpur_a2c_hand_over(gpur_agent_slot *slot, gpur_rollout *rollout)
{
    gpur_ga3c *const run = slot->run;
    gpur_mutex_lock(&run->core.lock);
    slot->rollout = rollout;
    run->untrained++;
    gpur_mutex_unlock(&run->core.lock);
}

/* The scheduler. All under the lock, unless it says otherwise. */

static void reply(gpur_agent_slot *slot, int is_dismissed)
{
    slot->run->in_round -= slot->is_in_round;
    slot->run->waiting--;
    slot->asks = GPUR_ASK_NOTHING;
    slot->is_in_round = 0;
    slot->since = slot->run->core.started;
    slot->is_dismissed = is_dismissed;
    gpur_semaphore_post(&slot->replied);
}

/* Agents that are asked to end, or whose run has failed, get no action. */
static void dismiss(gpur_ga3c *run)
{
    for (int32_t i = 0; i < run->slot_count; i++) {
        gpur_agent_slot *const slot = run->slots[i];
        if (slot->asks && (atomic_load(&slot->must_end) || run->core.status != GPUR_OK))
            reply(slot, 1);
    }
}

static int asks_value(const gpur_ga3c *run)
{
    for (int32_t i = 0; i < run->slot_count; i++)
        if (run->slots[i]->asks == GPUR_ASK_VALUE)
            return 1;
    return 0;
}

static job next_job(const gpur_ga3c *run)
{
    if (run->core.status != GPUR_OK || run->waiting < run->running || run->is_performing)
        return JOB_NONE;
    if (run->in_round > 0)
        return gpur_ga3c_has_steps(run) ? JOB_RELEASE : JOB_NONE;
    if (asks_value(run))
        return JOB_VALUES;
    if (run->untrained > 0)
        return JOB_TRAIN;
    return run->running > 0 && gpur_ga3c_has_steps(run) ? JOB_ROUND : JOB_NONE;
}

int gpur_a2c_is_parked(const gpur_ga3c *run)
{
    return !run->is_performing && run->waiting == run->running && next_job(run) == JOB_NONE;
}

/* Answers those who ask for this, in batches of at most max_prediction_batch, in the order of the agents, and marks
 * them. Leaves the lock meanwhile, in which agents that are new may ask: they have no mark. */
static gpur_status predict(gpur_ga3c_thread *scheduler, int32_t asks)
{
    gpur_ga3c *const run = scheduler->run;
    gpur_status status = GPUR_OK;
    int32_t i = 0;
    while (i < run->slot_count && status == GPUR_OK) {
        int64_t count = 0;
        for (; i < run->slot_count && count < run->config.max_prediction_batch; i++)
            if (run->slots[i]->asks == asks) {
                run->slots[i]->asks = GPUR_ASK_ANSWERED;
                scheduler->requests.asked[count++] = run->slots[i];
            }
        gpur_mutex_unlock(&run->core.lock);
        if (count > 0)
            status = gpur_ga3c_predict(scheduler, count);
        if (status != GPUR_OK)
            gpur_run_fail(&run->core, gpur_prefix_error(status, "the predictor"));
        gpur_mutex_lock(&run->core.lock);
    }
    return status;
}

static void answer_values(gpur_ga3c_thread *scheduler)
{
    gpur_ga3c *const run = scheduler->run;
    if (predict(scheduler, GPUR_ASK_VALUE) != GPUR_OK)
        return;
    for (int32_t i = 0; i < run->slot_count; i++)
        if (run->slots[i]->asks == GPUR_ASK_ANSWERED)
            reply(run->slots[i], 0);
}

static void begin_round(gpur_ga3c_thread *scheduler)
{
    gpur_ga3c *const run = scheduler->run;
    if (predict(scheduler, GPUR_ASK_ACTION) != GPUR_OK)
        return;
    const int cuts = ++run->rounds % run->config.t_max == 0;
    for (int32_t i = 0; i < run->slot_count; i++) {
        gpur_agent_slot *const slot = run->slots[i];
        if (slot->asks != GPUR_ASK_ANSWERED)
            continue;
        slot->cuts = cuts;
        slot->is_in_round = 1;
        run->in_round++;
    }
}

static void release(gpur_ga3c *run)
{
    for (int32_t i = 0; i < run->slot_count && gpur_ga3c_has_steps(run); i++) {
        if (!run->slots[i]->is_in_round)
            continue;
        run->remaining--;
        reply(run->slots[i], 0);
    }
}

/* Takes a rollout of each slot. Leaves the lock while it trains. */
static void train(gpur_ga3c_thread *scheduler)
{
    gpur_ga3c *const run = scheduler->run;
    gpur_training_batch *const batch = &scheduler->batch;
    for (int32_t i = 0; i < run->slot_count && batch->count < run->most_rollouts; i++) {
        gpur_agent_slot *const slot = run->slots[i];
        if (!slot->rollout)
            continue;
        batch->rollouts[batch->count++] = slot->rollout;
        slot->rollout = NULL;
    }
    gpur_mutex_unlock(&run->core.lock);
    gpur_ga3c_train(run, batch, NULL);
    gpur_mutex_lock(&run->core.lock);
}

static void perform(gpur_ga3c_thread *scheduler, job what)
{
    gpur_ga3c *const run = scheduler->run;
    run->is_performing = 1;
    if (what == JOB_VALUES)
        answer_values(scheduler);
    else if (what == JOB_TRAIN)
        train(scheduler);
    else if (what == JOB_ROUND)
        begin_round(scheduler);
    else
        release(run);
    run->is_performing = 0;
}

void *gpur_ga3c_scheduler(void *context)
{
    gpur_ga3c_thread *const scheduler = context;
    gpur_ga3c *const run = scheduler->run;
    gpur_mutex_lock(&run->core.lock);
    while (!atomic_load(&scheduler->must_end)) {
        dismiss(run);
        const job what = next_job(run);
        if (what != JOB_NONE) {
            perform(scheduler, what);
            continue;
        }
        if (gpur_a2c_is_parked(run))
            gpur_mutex_notify_all(&run->core.lock);
        gpur_mutex_wait(&run->core.lock);
    }
    gpur_mutex_unlock(&run->core.lock);
    return NULL;
}
