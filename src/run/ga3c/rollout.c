/* SPDX-License-Identifier: MIT */
/* Rollouts, their returns, and the pool of those that nobody uses. */
#include "run/ga3c/rollout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

gpur_status gpur_rollout_pool_open(gpur_rollout_pool *pool, int64_t obs_bytes, int32_t t_max)
{
    pool->obs_bytes = obs_bytes;
    pool->t_max = t_max;
    return gpur_mutex_open(&pool->lock, "rollouts");
}

void gpur_rollout_pool_close(gpur_rollout_pool *pool)
{
    while (pool->free) {
        gpur_rollout *const rollout = pool->free;
        pool->free = rollout->next;
        free(rollout->versions);
        free(rollout);
    }
    gpur_mutex_close(&pool->lock);
}

/* One piece of memory, the widest numbers first. */
static gpur_status make(const gpur_rollout_pool *pool, gpur_rollout **out)
{
    const int64_t steps = pool->t_max;
    const int64_t bytes =
        steps * (int64_t)(sizeof(int64_t) + sizeof(float) + sizeof(int32_t)) + steps * pool->obs_bytes;
    gpur_rollout *const rollout = calloc(1, sizeof *rollout);
    unsigned char *const memory = malloc((size_t)bytes);
    if (!rollout || !memory) {
        free(rollout);
        free(memory);
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a rollout of %" PRId64 " bytes", bytes);
    }
    rollout->versions = (int64_t *)(void *)memory;
    rollout->returns = (float *)(void *)(rollout->versions + steps);
    rollout->actions = (int32_t *)(void *)(rollout->returns + steps);
    rollout->obs = (unsigned char *)(rollout->actions + steps);
    *out = rollout;
    return GPUR_OK;
}

gpur_status gpur_rollout_take(gpur_rollout_pool *pool, gpur_rollout **out)
{
    gpur_mutex_lock(&pool->lock);
    gpur_rollout *rollout = pool->free;
    if (rollout)
        pool->free = rollout->next;
    gpur_mutex_unlock(&pool->lock);
    if (!rollout)
        GPUR_TRY(make(pool, &rollout));
    rollout->count = rollout->first = 0;
    *out = rollout;
    return GPUR_OK;
}

void gpur_rollout_give_back(gpur_rollout_pool *pool, gpur_rollout *rollout)
{
    if (!rollout)
        return;
    gpur_mutex_lock(&pool->lock);
    rollout->next = pool->free;
    pool->free = rollout;
    gpur_mutex_unlock(&pool->lock);
}

void gpur_rollout_add(gpur_rollout *rollout, const void *obs, int64_t obs_bytes, int32_t action, int64_t version)
{
    const int32_t at = rollout->count++;
    memcpy(rollout->obs + at * obs_bytes, obs, (size_t)obs_bytes);
    rollout->actions[at] = action;
    rollout->versions[at] = version;
    rollout->returns[at] = 0.0f;
}

void gpur_rollout_set_reward(gpur_rollout *rollout, float reward, float clip)
{
    if (clip > 0.0f)
        reward = reward > clip ? clip : reward < -clip ? -clip : reward;
    rollout->returns[rollout->count - 1] = reward;
}

void gpur_rollout_close(gpur_rollout *rollout, float discount, float bootstrap)
{
    double sum = (double)bootstrap;
    for (int32_t i = rollout->count; i-- > rollout->first;) {
        sum = (double)rollout->returns[i] + (double)discount * sum;
        rollout->returns[i] = (float)sum;
    }
    rollout->first = rollout->count;
}
