/* SPDX-License-Identifier: MIT */
/* Starts and ends the threads of a run, and makes the slots of agents. All under set_lock. */
#include "run/ga3c/handle.h"

#include "base/numbers.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Agents. */

static gpur_status make_slot(gpur_ga3c *run, int32_t number, gpur_agent_slot **out)
{
    gpur_agent_slot *const slot = calloc(1, sizeof *slot);
    if (!slot)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an agent's slot of %zu bytes", sizeof *slot);
    slot->run = run;
    slot->number = number;
    if (gpur_semaphore_open(&slot->replied) != 0 || gpur_semaphore_open(&slot->waiter.admitted) != 0) {
        free(slot);
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no semaphores for an agent: %s", strerror(errno));
    }
    *out = slot;
    return GPUR_OK;
}

gpur_status gpur_ga3c_make_slots(gpur_ga3c *run, int32_t count)
{
    while (run->slot_count < count) {
        gpur_agent_slot *slot = NULL;
        GPUR_TRY(make_slot(run, run->slot_count, &slot));
        gpur_mutex_lock(&run->core.lock);
        run->slots[run->slot_count++] = slot;
        gpur_mutex_unlock(&run->core.lock);
    }
    return GPUR_OK;
}

static gpur_status start_agent(gpur_agent_slot *slot)
{
    gpur_ga3c *const run = slot->run;
    atomic_store(&slot->must_end, 0);
    gpur_mutex_lock(&run->core.lock); /* which the agent takes first of all */
    const gpur_status status = gpur_thread_start(&slot->thread, gpur_ga3c_agent, slot, "an agent");
    slot->has_thread = status == GPUR_OK;
    run->running += slot->has_thread;
    run->active += slot->has_thread;
    gpur_mutex_unlock(&run->core.lock);
    return status;
}

/* Wakes agents that wait at the gate, at a full queue, or for the scheduler. All others see `must_end` by
 * themselves. */
static void end_agents(gpur_ga3c *run, int32_t from)
{
    gpur_mutex_lock(&run->core.lock);
    for (int32_t i = from; i < run->slot_count; i++) {
        atomic_store(&run->slots[i]->must_end, 1);
        if (run->slots[i]->has_thread)
            gpur_semaphore_post(&run->slots[i]->waiter.admitted);
    }
    gpur_mutex_notify_all(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
    for (int32_t i = from; i < run->slot_count; i++) {
        if (run->slots[i]->has_thread)
            pthread_join(run->slots[i]->thread, NULL);
        run->slots[i]->has_thread = 0;
    }
}

/* Predictors, trainers and the scheduler. */

static gpur_status start_thread(gpur_ga3c_thread *thread, void *(*work)(void *), int trains)
{
    const gpur_ga3c *const run = thread->run;
    atomic_store(&thread->must_end, 0);
    const int predicts = work != gpur_ga3c_trainer;
    if (predicts && !thread->requests.obs)
        GPUR_TRY(gpur_prediction_batch_open(run, &thread->requests));
    if (trains && !thread->batch.obs)
        GPUR_TRY(gpur_training_batch_open(run, &thread->batch));
    GPUR_TRY(gpur_thread_start(&thread->handle, work, thread, predicts ? "a predictor" : "a trainer"));
    thread->has_thread = 1;
    return GPUR_OK;
}

static void end_threads(gpur_ga3c *run, gpur_ga3c_thread *threads, int32_t from, int32_t most, gpur_queue *queue)
{
    for (int32_t i = from; i < most; i++)
        atomic_store(&threads[i].must_end, 1);
    gpur_queue_wake(queue);
    gpur_mutex_lock(&run->core.lock);
    gpur_mutex_notify_all(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
    for (int32_t i = from; i < most; i++) {
        if (threads[i].has_thread)
            pthread_join(threads[i].handle, NULL);
        threads[i].has_thread = 0;
        gpur_prediction_batch_close(&threads[i].requests);
        gpur_training_batch_close(&threads[i].batch);
    }
}

/* All. */

/* The threads of a system for these numbers. */
static gpur_ga3c_numbers threads_of(const gpur_ga3c *run, gpur_ga3c_numbers numbers)
{
    if (run->config.system == GPUR_A3C)
        return (gpur_ga3c_numbers){numbers.agents, 0, 0};
    return run->config.system == GPUR_A2C ? (gpur_ga3c_numbers){numbers.agents, 1, 0} : numbers;
}

static gpur_status start_missing(gpur_ga3c *run, gpur_ga3c_numbers threads)
{
    const int is_a2c = run->config.system == GPUR_A2C;
    for (int32_t i = 0; i < threads.predictors; i++)
        if (!run->predictors[i].has_thread)
            GPUR_TRY(start_thread(&run->predictors[i], is_a2c ? gpur_ga3c_scheduler : gpur_ga3c_predictor, is_a2c));
    for (int32_t i = 0; i < threads.trainers; i++)
        if (!run->trainers[i].has_thread)
            GPUR_TRY(start_thread(&run->trainers[i], gpur_ga3c_trainer, 1));
    GPUR_TRY(gpur_ga3c_make_slots(run, threads.agents));
    for (int32_t i = 0; i < threads.agents; i++)
        if (!run->slots[i]->has_thread)
            GPUR_TRY(start_agent(run->slots[i]));
    return GPUR_OK;
}

/* Agents that end still get replies, so predictors end after them. */
static void end_surplus(gpur_ga3c *run, gpur_ga3c_numbers threads)
{
    end_agents(run, threads.agents);
    end_threads(run, run->predictors, threads.predictors, GPUR_GA3C_MAX_PREDICTORS, &run->requests);
    end_threads(run, run->trainers, threads.trainers, GPUR_GA3C_MAX_TRAINERS, &run->rollouts);
}

static void set_numbers(gpur_ga3c *run, gpur_ga3c_numbers numbers)
{
    gpur_ga3c_numbers *const largest = &run->largest;
    gpur_mutex_lock(&run->core.lock);
    run->numbers = numbers;
    largest->agents = (int32_t)gpur_max(largest->agents, numbers.agents);
    largest->trainers = (int32_t)gpur_max(largest->trainers, numbers.trainers);
    gpur_mutex_unlock(&run->core.lock);
}

/* How many threads there are. */
static gpur_ga3c_numbers count_threads(const gpur_ga3c *run)
{
    int32_t agents = 0, predictors = 0, trainers = 0;
    for (int32_t i = 0; i < run->slot_count; i++)
        agents += run->slots[i]->has_thread;
    for (int32_t i = 0; i < GPUR_GA3C_MAX_PREDICTORS; i++)
        predictors += run->predictors[i].has_thread;
    for (int32_t i = 0; i < GPUR_GA3C_MAX_TRAINERS; i++)
        trainers += run->trainers[i].has_thread;
    return gpur_ga3c_numbers_of(run, agents, predictors, trainers);
}

gpur_status gpur_ga3c_set(gpur_ga3c *run, gpur_ga3c_numbers numbers)
{
    set_numbers(run, numbers);
    if (!run->has_begun)
        return GPUR_OK;
    end_surplus(run, threads_of(run, numbers));
    const gpur_status status = start_missing(run, threads_of(run, numbers));
    if (status != GPUR_OK)
        set_numbers(run, count_threads(run));
    return status;
}

gpur_status gpur_ga3c_begin(gpur_ga3c *run)
{
    gpur_status status = GPUR_OK;
    gpur_mutex_lock(&run->set_lock);
    if (!run->has_begun) {
        run->has_begun = 1;
        status = gpur_ga3c_set(run, run->numbers);
    }
    gpur_mutex_unlock(&run->set_lock);
    return status;
}

void gpur_ga3c_end_threads(gpur_ga3c *run)
{
    if (run->predictors && run->trainers && run->has_begun)
        end_surplus(run, (gpur_ga3c_numbers){0});
}
