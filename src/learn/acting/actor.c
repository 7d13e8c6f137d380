/* SPDX-License-Identifier: MIT */
#include "learn/acting/actor.h"

#include "learn/config.h"

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_actor *const actor = part;
    const gpur_dqn_config *const config = context->config;
    gpur_inference_spec spec = {.device = context->device, .network = context->network};
    spec.input = gpur_input_of(spec.network, &context->fields->obs_format, &config->network);
    spec.options = gpur_pass_options_of(config->math, config->deterministic);
    actor->mode = config->act;
    actor->seed = config->seed;
    if (pthread_mutex_init(&actor->act_lock, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for acting");
    GPUR_TRY(gpur_acting_copies_open(&actor->copies, spec.device, &spec.network->params, 1));
    return gpur_inference_open(&actor->inference, &spec, config->max_act_batch);
}

static void close(void *part)
{
    gpur_actor *const actor = part;
    gpur_inference_close(&actor->inference);
    gpur_acting_copies_close(&actor->copies);
    pthread_mutex_destroy(&actor->act_lock);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_actor *const actor = part;
    for (int i = 0; i < 2; i++)
        actor->copies.weights[i] = gpur_arena_alloc(arena, gpur_params_bytes(actor->copies.params));
    gpur_inference_assign(&actor->inference, arena);
}

static int64_t pinned_bytes(const void *part)
{
    return atomic_load(&((const gpur_actor *)part)->inference.pinned_bytes);
}

/* Only the older acting copy: the latest equals the weights for acting. */
static void save(const void *part, gpur_saved_arrays *arrays)
{
    const gpur_acting_copies *const copies = &((const gpur_actor *)part)->copies;
    gpur_saved_arrays_add(arrays, "acting", copies->weights[1 - copies->latest]);
}

const gpur_part gpur_actor_part = {
    .open = open,
    .assign = assign,
    .close = close,
    .pinned_bytes = pinned_bytes,
    .save = save,
};

/* Copies `count` weights from `offset` on to the acting copy of this age. */
static gpur_status overwrite(gpur_actor *actor, int age, int publishes, gpur_stream *stream, const float *weights,
                             int64_t offset, int64_t count)
{
    gpur_acting_copies *const copies = &actor->copies;
    int copy = 0;
    GPUR_TRY(gpur_acting_copies_begin_write(copies, age, stream, &copy));
    gpur_status status =
        gpur_copy(stream, copies->weights[copy] + offset, weights + offset, count * (int64_t)sizeof *weights);
    if (status == GPUR_OK)
        status = gpur_params_round(copies->params, actor->inference.device, stream, copies->weights[copy]);
    return gpur_acting_copies_end_write(copies, copy, publishes, stream, status);
}

gpur_status gpur_actor_publish(gpur_actor *actor, gpur_stream *stream, const float *weights)
{
    return overwrite(actor, GPUR_COPY_OLDER, 1, stream, weights, 0, actor->copies.params->count);
}

gpur_status gpur_actor_patch(gpur_actor *actor, gpur_stream *stream, const float *weights, int64_t offset,
                             int64_t count)
{
    GPUR_TRY(overwrite(actor, GPUR_COPY_OLDER, 0, stream, weights, offset, count));
    return overwrite(actor, GPUR_COPY_LATEST, 0, stream, weights, offset, count);
}

void gpur_actor_get_counters(gpur_actor *actor, uint64_t *counter, int64_t *chosen)
{
    pthread_mutex_lock(&actor->act_lock);
    *counter = actor->counter;
    *chosen = atomic_load(&actor->chosen);
    pthread_mutex_unlock(&actor->act_lock);
}

void gpur_actor_set_counters(gpur_actor *actor, uint64_t counter, int64_t chosen)
{
    pthread_mutex_lock(&actor->act_lock);
    actor->counter = counter;
    atomic_store(&actor->chosen, chosen);
    pthread_mutex_unlock(&actor->act_lock);
}

static gpur_status enqueue(gpur_actor *actor, const gpur_inference_call *call)
{
    gpur_inference *const inference = &actor->inference;
    const int age = actor->mode == GPUR_ACT_LATEST ? GPUR_COPY_LATEST : GPUR_COPY_OLDER;
    int copy = 0;
    GPUR_TRY(gpur_inference_reserve(inference, call->count));
    GPUR_TRY(gpur_inference_upload(inference, call));
    GPUR_TRY(gpur_acting_copies_begin_read(&actor->copies, age, inference->stream, &copy));
    const gpur_status status = gpur_inference_run(inference, call, actor->copies.weights[copy]);
    return gpur_acting_copies_end_read(&actor->copies, copy, 0, inference->stream, status);
}

/* Requires the act lock. */
static gpur_status act(gpur_actor *actor, const gpur_inference_call *call)
{
    return gpur_inference_download(&actor->inference, call, enqueue(actor, call));
}

gpur_status gpur_actor_choose(gpur_actor *actor, gpur_inference_call *call)
{
    GPUR_REQUIRE(call->actions, "actions, which gets the results, is NULL");
    GPUR_TRY(gpur_inference_check(&actor->inference, call, GPUR_MAX_ACT_BATCH, ""));
    pthread_mutex_lock(&actor->act_lock);
    call->exploration.seed = actor->seed;
    call->exploration.step = actor->counter;
    const gpur_status status = act(actor, call);
    if (status == GPUR_OK) {
        actor->counter++;
        atomic_fetch_add(&actor->chosen, call->count);
    }
    pthread_mutex_unlock(&actor->act_lock);
    return status;
}

gpur_status gpur_actor_values(gpur_actor *actor, const gpur_inference_call *call)
{
    GPUR_REQUIRE(call->q, "q, which gets the results, is NULL");
    GPUR_TRY(gpur_inference_check(&actor->inference, call, GPUR_MAX_ACT_BATCH, ""));
    pthread_mutex_lock(&actor->act_lock);
    const gpur_status status = act(actor, call);
    pthread_mutex_unlock(&actor->act_lock);
    return status;
}
