/* SPDX-License-Identifier: MIT */
/* A predictor: takes the first request, and all that are there at once, and answers them with one forward pass. */
#include "run/ga3c/handle.h"

#include <stdlib.h>
#include <string.h>

gpur_status gpur_prediction_batch_open(const gpur_ga3c *run, gpur_prediction_batch *batch)
{
    const size_t most = (size_t)run->config.max_prediction_batch;
    batch->obs = malloc(most * (size_t)run->obs_bytes);
    batch->asked = calloc(most, sizeof *batch->asked);
    batch->lanes = calloc(most, sizeof *batch->lanes);
    batch->steps = calloc(most, sizeof *batch->steps);
    batch->actions = calloc(most, sizeof *batch->actions);
    batch->values = calloc(most, sizeof *batch->values);
    if (!batch->obs || !batch->asked || !batch->lanes || !batch->steps || !batch->actions || !batch->values)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu predictions", most);
    return GPUR_OK;
}

void gpur_prediction_batch_close(gpur_prediction_batch *batch)
{
    free(batch->obs);
    free(batch->asked);
    free(batch->lanes);
    free(batch->steps);
    free(batch->actions);
    free(batch->values);
    *batch = (gpur_prediction_batch){0};
}

gpur_status gpur_ga3c_predict(gpur_ga3c_thread *thread, int64_t count)
{
    const double began = gpur_clock_seconds();
    gpur_ga3c *const run = thread->run;
    gpur_prediction_batch *const batch = &thread->requests;
    int64_t version = 0;
    for (int64_t i = 0; i < count; i++) {
        memcpy(batch->obs + i * run->obs_bytes, batch->asked[i]->obs, (size_t)run->obs_bytes);
        batch->lanes[i] = (uint32_t)batch->asked[i]->number;
        batch->steps[i] = batch->asked[i]->steps;
    }
    const double begin = gpur_clock_seconds();
    GPUR_TRY(run->model.predict(run->model.context, count, batch->obs, batch->lanes, batch->steps, 0, batch->actions,
                                batch->values, &version));
    const double spent = gpur_clock_seconds() - begin;
    for (int64_t i = 0; i < count; i++) {
        batch->asked[i]->action = batch->actions[i];
        batch->asked[i]->value = batch->values[i];
        batch->asked[i]->version = version;
    }
    gpur_mutex_lock(&run->core.lock);
    run->core.stats.ga3c.predictions += count;
    run->core.stats.ga3c.prediction_batches++;
    run->core.stats.ga3c.predict_seconds += spent;
    run->core.stats.ga3c.predictor_seconds += gpur_clock_seconds() - began - spent;
    gpur_mutex_unlock(&run->core.lock);
    return GPUR_OK;
}

/* In a run that has failed agents get no reply, and end. */
static void answer(gpur_ga3c_thread *thread, int64_t count)
{
    gpur_ga3c *const run = thread->run;
    int has_failed = gpur_run_has_failed(&run->core);
    if (!has_failed) {
        const gpur_status status = gpur_ga3c_predict(thread, count);
        if (status != GPUR_OK)
            gpur_run_fail(&run->core, gpur_prefix_error(status, "predictor %d", (int)thread->number));
        has_failed = status != GPUR_OK;
    }
    const double begin = gpur_clock_seconds();
    for (int64_t i = 0; i < count; i++) {
        thread->requests.asked[i]->is_dismissed = has_failed;
        gpur_semaphore_post(&thread->requests.asked[i]->replied);
    }
    gpur_mutex_lock(&run->core.lock);
    run->core.stats.ga3c.predictor_seconds += gpur_clock_seconds() - begin;
    gpur_mutex_unlock(&run->core.lock);
}

void *gpur_ga3c_predictor(void *context)
{
    gpur_ga3c_thread *const thread = context;
    gpur_ga3c *const run = thread->run;
    int64_t count;
    while ((count = gpur_queue_take(&run->requests, (void **)thread->requests.asked, run->config.max_prediction_batch,
                                    &thread->must_end, 0)) > 0)
        answer(thread, count);
    return NULL;
}
