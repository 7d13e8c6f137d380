/* SPDX-License-Identifier: MIT */
/* A trainer: joins rollouts until they have more than the least number of steps, and trains on them. */
#include "run/ga3c/handle.h"

#include "base/numbers.h"

#include <stdlib.h>
#include <string.h>

gpur_status gpur_training_batch_open(const gpur_ga3c *run, gpur_training_batch *batch)
{
    const size_t rows = (size_t)run->most_rows;
    batch->rollouts = calloc((size_t)run->most_rollouts, sizeof *batch->rollouts);
    batch->obs = malloc(rows * (size_t)run->obs_bytes);
    batch->actions = calloc(rows, sizeof *batch->actions);
    batch->returns = calloc(rows, sizeof *batch->returns);
    if (!batch->rollouts || !batch->obs || !batch->actions || !batch->returns)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a batch of %zu steps", rows);
    return GPUR_OK;
}

void gpur_training_batch_close(gpur_training_batch *batch)
{
    free(batch->rollouts);
    free(batch->obs);
    free(batch->actions);
    free(batch->returns);
    *batch = (gpur_training_batch){0};
}

/* A rollout is a batch as it is; several are copied one behind another. */
static gpur_actor_critic_batch join(const gpur_ga3c *run, gpur_training_batch *batch)
{
    const gpur_rollout *const first = batch->rollouts[0];
    gpur_actor_critic_batch rows = {.size = sizeof rows};
    if (batch->count == 1) {
        rows.count = first->count, rows.obs = first->obs, rows.actions = first->actions, rows.returns = first->returns;
        return rows;
    }
    rows.obs = batch->obs, rows.actions = batch->actions, rows.returns = batch->returns;
    for (int64_t i = 0; i < batch->count; i++) {
        const gpur_rollout *const r = batch->rollouts[i];
        memcpy(batch->obs + rows.count * run->obs_bytes, r->obs, (size_t)(r->count * run->obs_bytes));
        memcpy(batch->actions + rows.count, r->actions, (size_t)r->count * sizeof *r->actions);
        memcpy(batch->returns + rows.count, r->returns, (size_t)r->count * sizeof *r->returns);
        rows.count += r->count;
    }
    return rows;
}

/* Counts the policy lag of each step: updates between the weights that chose its action and those that the train step
 * began with [section 4.4: k]. */
static void count_lags(gpur_ga3c_stats *counts, const gpur_rollout *rollout, int64_t step)
{
    for (int32_t i = 0; i < rollout->count; i++) {
        const int64_t lag = gpur_max(step - 1 - rollout->versions[i], 0);
        counts->lags[gpur_min(lag, GPUR_GA3C_LAGS - 1)]++;
        counts->lag_sum += lag;
        counts->largest_lag = gpur_max(counts->largest_lag, lag);
    }
}

static void set_losses(gpur_ga3c *run, const gpur_actor_critic_losses *losses)
{
    gpur_ga3c_stats *const s = &run->core.stats.ga3c;
    if (losses->step <= run->last_update) /* train steps of several threads may be counted in another order */
        return;
    run->last_update = losses->step;
    s->policy_loss = losses->policy;
    s->value_loss = losses->value;
    s->entropy = losses->entropy;
    s->mean_value = losses->mean_value;
    s->gradient_norm = losses->gradient_norm;
    s->learning_rate = losses->learning_rate;
}

static void count(gpur_ga3c *run, const gpur_training_batch *batch, const gpur_actor_critic_losses *losses,
                  double seconds)
{
    gpur_ga3c_stats *const s = &run->core.stats.ga3c;
    run->core.stats.train_steps++;
    run->core.stats.train_seconds += seconds;
    s->training_batches += batch->count;
    for (int64_t i = 0; i < batch->count; i++) {
        s->trained_rows += batch->rollouts[i]->count;
        count_lags(s, batch->rollouts[i], losses->step);
    }
    set_losses(run, losses);
}

static gpur_status train(gpur_ga3c *run, gpur_training_batch *batch, gpur_local_model *local)
{
    const gpur_ga3c_model *const model = &run->model;
    const gpur_actor_critic_batch rows = join(run, batch);
    gpur_actor_critic_losses losses = {.size = sizeof losses};
    const double begin = gpur_clock_seconds();
    GPUR_TRY(local ? model->local_train(local, &rows, &losses) : model->train(model->context, &rows, &losses));
    atomic_fetch_add(&run->updates, 1);
    gpur_mutex_lock(&run->core.lock);
    count(run, batch, &losses, gpur_clock_seconds() - begin);
    gpur_mutex_unlock(&run->core.lock);
    return GPUR_OK;
}

void gpur_ga3c_train(gpur_ga3c *run, gpur_training_batch *batch, gpur_local_model *local)
{
    if (!gpur_run_has_failed(&run->core)) {
        const gpur_status status = train(run, batch, local);
        if (status != GPUR_OK)
            gpur_run_fail(&run->core, gpur_prefix_error(status, "a train step"));
    }
    for (int64_t i = 0; i < batch->count; i++)
        gpur_rollout_give_back(&run->pool, batch->rollouts[i]);
    gpur_mutex_lock(&run->core.lock);
    run->untrained -= batch->count;
    if (run->untrained == 0)
        gpur_mutex_notify_all(&run->core.lock);
    gpur_mutex_unlock(&run->core.lock);
    batch->count = 0;
}

/* A trainer that is asked to end trains on what it has. */
static void collect(gpur_ga3c_thread *thread)
{
    gpur_ga3c *const run = thread->run;
    gpur_training_batch *const batch = &thread->batch;
    for (int64_t rows = 0; rows <= run->config.min_train_batch; rows += batch->rollouts[batch->count++]->count) {
        void *rollout;
        if (gpur_queue_take(&run->rollouts, &rollout, 1, &thread->must_end, batch->count > 0) == 0)
            return;
        batch->rollouts[batch->count] = rollout;
    }
}

void *gpur_ga3c_trainer(void *context)
{
    gpur_ga3c_thread *const thread = context;
    for (;;) {
        collect(thread);
        if (thread->batch.count == 0)
            return NULL;
        gpur_ga3c_train(thread->run, &thread->batch, NULL);
    }
}
