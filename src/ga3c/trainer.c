/* SPDX-License-Identifier: MIT */
/* A trainer: joins rollouts until they have more than the least number of steps, and trains on them. */
#include "ga3c/ga3c.h"

#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

gpur_status gpur_train_room_open(const gpur_ga3c *run, gpur_train_room *room)
{
    const size_t rows = (size_t)run->most_rows;
    room->rollouts = calloc((size_t)run->most_rollouts, sizeof *room->rollouts);
    room->obs = malloc(rows * (size_t)run->obs_bytes);
    room->actions = calloc(rows, sizeof *room->actions);
    room->returns = calloc(rows, sizeof *room->returns);
    if (!room->rollouts || !room->obs || !room->actions || !room->returns)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a batch of %zu steps", rows);
    return GPUR_OK;
}

void gpur_train_room_close(gpur_train_room *room)
{
    free(room->rollouts);
    free(room->obs);
    free(room->actions);
    free(room->returns);
    *room = (gpur_train_room){0};
}

/* A rollout is a batch as it is; several are copied one behind another. */
static gpur_actor_critic_batch join(const gpur_ga3c *run, gpur_train_room *room)
{
    gpur_actor_critic_batch batch = {.size = sizeof batch, .count = room->rollouts[0]->count};
    batch.obs = room->rollouts[0]->obs;
    batch.actions = room->rollouts[0]->actions;
    batch.returns = room->rollouts[0]->returns;
    if (room->count == 1)
        return batch;
    batch.count = 0;
    for (int64_t i = 0; i < room->count; i++) {
        const gpur_rollout *const r = room->rollouts[i];
        memcpy(room->obs + batch.count * run->obs_bytes, r->obs, (size_t)(r->count * run->obs_bytes));
        memcpy(room->actions + batch.count, r->actions, (size_t)r->count * sizeof *r->actions);
        memcpy(room->returns + batch.count, r->returns, (size_t)r->count * sizeof *r->returns);
        batch.count += r->count;
    }
    batch.obs = room->obs;
    batch.actions = room->actions;
    batch.returns = room->returns;
    return batch;
}

/* Updates between the weights that chose the actions and those that the train step began with [section 4.4: k]. */
static void count_lags(gpur_ga3c_counts *counts, const gpur_rollout *rollout, int64_t step)
{
    for (int32_t i = 0; i < rollout->count; i++) {
        const int64_t lag = gpur_max(step - 1 - rollout->versions[i], 0);
        counts->lags[gpur_min(lag, GPUR_GA3C_LAGS - 1)]++;
        counts->lag_sum += lag;
        counts->largest_lag = gpur_max(counts->largest_lag, lag);
    }
}

static void count(gpur_ga3c *run, const gpur_train_room *room, const gpur_actor_critic_losses *losses, double seconds)
{
    gpur_ga3c_counts *const c = &run->counts;
    c->train_steps++;
    c->training_batches += room->count;
    for (int64_t i = 0; i < room->count; i++) {
        c->trained_rows += room->rollouts[i]->count;
        count_lags(c, room->rollouts[i], losses->step);
    }
    run->train_seconds += seconds;
    if (losses->step > run->losses.step)
        run->losses = *losses;
}

static gpur_status train(gpur_ga3c *run, gpur_train_room *room, void *local)
{
    const gpur_ga3c_model *const model = &run->model;
    const gpur_actor_critic_batch batch = join(run, room);
    gpur_actor_critic_losses losses = {.size = sizeof losses};
    const double begin = gpur_clock_seconds();
    GPUR_TRY(local ? model->local_train(local, &batch, &losses) : model->train(model->context, &batch, &losses));
    atomic_fetch_add(&run->updates, 1);
    gpur_mutex_lock(&run->lock);
    count(run, room, &losses, gpur_clock_seconds() - begin);
    gpur_mutex_unlock(&run->lock);
    return GPUR_OK;
}

void gpur_ga3c_train(gpur_ga3c *run, gpur_train_room *room, void *local)
{
    if (!gpur_ga3c_has_failed(run)) {
        const gpur_status status = train(run, room, local);
        if (status != GPUR_OK)
            gpur_ga3c_fail(run, gpur_prefix_error(status, "a train step"));
    }
    for (int64_t i = 0; i < room->count; i++)
        gpur_rollout_give_back(&run->pool, room->rollouts[i]);
    gpur_mutex_lock(&run->lock);
    run->untrained -= room->count;
    if (run->untrained == 0)
        gpur_mutex_notify_all(&run->lock);
    gpur_mutex_unlock(&run->lock);
    room->count = 0;
}

/* A trainer that is asked to end trains on what it has. */
static void collect(gpur_ga3c_worker *worker)
{
    gpur_ga3c *const run = worker->run;
    gpur_train_room *const room = &worker->batch;
    for (int64_t rows = 0; rows <= run->config.min_train_batch; rows += room->rollouts[room->count++]->count) {
        void *rollout;
        if (gpur_queue_take(&run->rollouts, &rollout, 1, &worker->is_asked, room->count > 0) == 0)
            return;
        room->rollouts[room->count] = rollout;
    }
}

void *gpur_ga3c_trainer(void *context)
{
    gpur_ga3c_worker *const worker = context;
    for (;;) {
        collect(worker);
        if (worker->batch.count == 0)
            return NULL;
        gpur_ga3c_train(worker->run, &worker->batch, NULL);
    }
}
