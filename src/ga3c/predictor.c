/* SPDX-License-Identifier: MIT */
/* A predictor: takes the first request, and all that are there at once, and answers them with one forward pass. */
#include "ga3c/ga3c.h"

#include <stdlib.h>
#include <string.h>

gpur_status gpur_predict_room_open(const gpur_ga3c *run, gpur_predict_room *room)
{
    const size_t most = (size_t)run->config.max_prediction_batch;
    room->obs = malloc(most * (size_t)run->obs_bytes);
    room->asked = calloc(most, sizeof *room->asked);
    room->lanes = calloc(most, sizeof *room->lanes);
    room->steps = calloc(most, sizeof *room->steps);
    room->actions = calloc(most, sizeof *room->actions);
    room->values = calloc(most, sizeof *room->values);
    if (!room->obs || !room->asked || !room->lanes || !room->steps || !room->actions || !room->values)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %zu predictions", most);
    return GPUR_OK;
}

void gpur_predict_room_close(gpur_predict_room *room)
{
    free(room->obs);
    free(room->asked);
    free(room->lanes);
    free(room->steps);
    free(room->actions);
    free(room->values);
    *room = (gpur_predict_room){0};
}

gpur_status gpur_ga3c_predict(gpur_ga3c_worker *worker, int64_t count)
{
    const double began = gpur_clock_seconds();
    gpur_ga3c *const run = worker->run;
    gpur_predict_room *const room = &worker->requests;
    int64_t version = 0;
    for (int64_t i = 0; i < count; i++) {
        memcpy(room->obs + i * run->obs_bytes, room->asked[i]->obs, (size_t)run->obs_bytes);
        room->lanes[i] = (uint32_t)room->asked[i]->number;
        room->steps[i] = room->asked[i]->steps;
    }
    const double begin = gpur_clock_seconds();
    GPUR_TRY(run->model.predict(run->model.context, count, room->obs, room->lanes, room->steps, 0, room->actions,
                                room->values, &version));
    const double spent = gpur_clock_seconds() - begin;
    for (int64_t i = 0; i < count; i++) {
        room->asked[i]->action = room->actions[i];
        room->asked[i]->value = room->values[i];
        room->asked[i]->version = version;
    }
    gpur_mutex_lock(&run->lock);
    run->counts.predictions += count;
    run->counts.prediction_batches++;
    run->predict_seconds += spent;
    run->predictor_seconds += gpur_clock_seconds() - began - spent;
    gpur_mutex_unlock(&run->lock);
    return GPUR_OK;
}

/* In a run that has failed agents get no reply, and end. */
static void answer(gpur_ga3c_worker *worker, int64_t count)
{
    gpur_ga3c *const run = worker->run;
    int has_failed = gpur_ga3c_has_failed(run);
    if (!has_failed) {
        const gpur_status status = gpur_ga3c_predict(worker, count);
        if (status != GPUR_OK)
            gpur_ga3c_fail(run, gpur_prefix_error(status, "predictor %d", (int)worker->number));
        has_failed = status != GPUR_OK;
    }
    const double begin = gpur_clock_seconds();
    for (int64_t i = 0; i < count; i++) {
        worker->requests.asked[i]->is_dismissed = has_failed;
        sem_post(&worker->requests.asked[i]->replied);
    }
    gpur_mutex_lock(&run->lock);
    run->predictor_seconds += gpur_clock_seconds() - begin;
    gpur_mutex_unlock(&run->lock);
}

void *gpur_ga3c_predictor(void *context)
{
    gpur_ga3c_worker *const worker = context;
    gpur_ga3c *const run = worker->run;
    int64_t count;
    while ((count = gpur_queue_take(&run->requests, (void **)worker->requests.asked, run->config.max_prediction_batch,
                                    &worker->is_asked, 0)) > 0)
        answer(worker, count);
    return NULL;
}
