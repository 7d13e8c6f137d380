/* SPDX-License-Identifier: MIT */
/* The copies of a network by which agents of A3C act and compute gradients. */
#include "learn/actor_critic/local.h"

#include "learn/acting/inference.h"
#include "learn/actor_critic/actor_critic.h"

struct gpur_local_model {
    gpur_actor_critic *learner;
    uint64_t seed;
    gpur_gradient gradient;
    gpur_inference inference;
    float *weights, *to[2]; /* (P) its own, and the gradients by them */
    gpur_train_state *state;
    void *memory; /* device */
};

/* Returns the bytes used. */
static int64_t assign(gpur_local_model *local, void *base)
{
    const gpur_params *const params = &local->learner->network.params;
    gpur_arena arena = {base, 0};
    local->weights = gpur_arena_alloc(&arena, gpur_params_bytes(params));
    for (int i = 0; i < local->learner->learner.network_count; i++)
        local->to[i] = gpur_arena_floats(&arena, params->count);
    local->state = gpur_arena_alloc(&arena, sizeof *local->state);
    gpur_inference_assign(&local->inference, &arena);
    gpur_gradient_assign(&local->gradient, &arena);
    return arena.used;
}

static gpur_status build(gpur_local_model *local)
{
    gpur_actor_critic *const learner = local->learner;
    const gpur_actor_critic_config *const config = &learner->config;
    GPUR_TRY(gpur_inference_open(&local->inference, learner->learner.device, &learner->network, &config->network,
                                 &learner->obs, config->math, config->policy_floor, 1));
    GPUR_TRY(gpur_gradient_open(&local->gradient, learner->learner.device, &learner->network, &learner->obs, config));
    GPUR_TRY(gpur_memory_alloc(learner->learner.device, assign(local, NULL), "an agent's copy of a network",
                               &local->memory));
    assign(local, local->memory);
    local->gradient.weights = local->weights;
    local->gradient.state = local->state;
    for (int i = 0; i < 2; i++)
        local->gradient.to[i] = local->to[i];
    GPUR_TRY(gpur_local_model_pull(local));
    return gpur_gradient_start(&local->gradient);
}

gpur_status gpur_local_model_create(gpur_actor_critic *learner, uint64_t seed, gpur_local_model **out)
{
    gpur_local_model *const local = gpur_host_alloc(learner->learner.device, sizeof *local);
    *out = NULL;
    if (!local)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an agent's copy of a network");
    local->learner = learner;
    local->seed = seed;
    const gpur_status status = build(local);
    if (status != GPUR_OK) {
        gpur_local_model_destroy(local);
        return status;
    }
    *out = local;
    return GPUR_OK;
}

void gpur_local_model_destroy(gpur_local_model *local)
{
    if (!local)
        return;
    gpur_device *const device = local->learner->learner.device;
    gpur_inference_close(&local->inference);
    gpur_gradient_close(&local->gradient);
    gpur_memory_free(device, local->memory);
    gpur_host_free(device, local, sizeof *local);
}

/* Its own work is done when any of its functions returns, and the copies when this one does. */
gpur_status gpur_local_model_pull(gpur_local_model *local)
{
    gpur_actor_critic *const learner = local->learner;
    gpur_stream *const stream = learner->gradient.stream;
    gpur_ticket_lock_lock(&learner->learner.lock);
    gpur_status status =
        gpur_copy(stream, local->weights, learner->optimizers[0].weights, gpur_params_bytes(&learner->network.params));
    if (status == GPUR_OK)
        status = gpur_copy(stream, local->state, learner->optimizers[0].state, sizeof *local->state);
    status = gpur_stream_finish(stream, status);
    gpur_ticket_lock_unlock(&learner->learner.lock);
    return status;
}

gpur_status gpur_local_model_predict(gpur_local_model *local, const void *obs, uint32_t lane, uint64_t step,
                                     int32_t *action, float *value)
{
    const gpur_inference_call call = {
        .count = 1,
        .obs = obs,
        .exploration = {.seed = local->seed, .steps = &step, .lanes = &lane},
        .actions = action,
        .values = value,
    };
    gpur_status status = gpur_inference_upload(&local->inference, &call);
    if (status == GPUR_OK)
        status = gpur_inference_run(&local->inference, &call, local->weights);
    return gpur_inference_download(&local->inference, &call, status);
}

gpur_status gpur_local_model_train(gpur_local_model *local, const gpur_actor_critic_batch *batch,
                                   gpur_actor_critic_losses *losses)
{
    GPUR_TRY(gpur_gradient_check(&local->gradient, batch));
    GPUR_TRY(gpur_gradient_run(&local->gradient, batch, losses));
    gpur_ticket_lock_lock(&local->learner->learner.lock);
    const gpur_status status = gpur_actor_critic_apply(local->learner, local->to, losses);
    gpur_ticket_lock_unlock(&local->learner->learner.lock);
    return status;
}
