/* SPDX-License-Identifier: MIT */
#include "learn/actor.h"

#include <inttypes.h>
#include <string.h>

static gpur_status open_pinned(gpur_actor *actor)
{
    gpur_arena sizes = {NULL, 0};
    for (int placing = 0; placing < 2; placing++) {
        gpur_arena arena = {actor->pinned, 0};
        actor->host_obs = gpur_arena_floats(&arena, actor->most * actor->network->width[0]);
        actor->host_q = gpur_arena_floats(&arena, actor->most * actor->network->outputs);
        actor->host_action = gpur_arena_take(&arena, actor->most * (int64_t)sizeof(int32_t));
        sizes = arena;
        if (!placing)
            GPUR_TRY(gpur_pinned_alloc(actor->device, sizes.used, "the observations to act on", &actor->pinned));
    }
    return GPUR_OK;
}

gpur_status gpur_actor_open(gpur_actor *actor, gpur_device *device, const gpur_network *network,
                            const gpur_learner_config *config)
{
    actor->device = device;
    actor->network = network;
    actor->mode = config->act;
    actor->most = config->max_act_batch;
    actor->seed = config->seed;
    if (pthread_mutex_init(&actor->mutex, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for acting");
    actor->has_mutex = 1;
    GPUR_TRY(gpur_stream_create(device, &actor->stream));
    for (int i = 0; i < 2; i++) {
        GPUR_TRY(gpur_event_create(device, &actor->written[i]));
        GPUR_TRY(gpur_event_create(device, &actor->read[i]));
    }
    GPUR_TRY(gpur_pass_open(&actor->pass, device, network, actor->most, network->width[0], config->math, 1));
    return open_pinned(actor);
}

void gpur_actor_close(gpur_actor *actor)
{
    gpur_stream_destroy(actor->stream);
    gpur_pass_close(&actor->pass);
    gpur_pinned_free(actor->device, actor->pinned);
    for (int i = 0; i < 2; i++) {
        gpur_event_destroy(actor->written[i]);
        gpur_event_destroy(actor->read[i]);
    }
    if (actor->has_mutex)
        pthread_mutex_destroy(&actor->mutex);
}

void gpur_actor_place(gpur_actor *actor, gpur_arena *arena)
{
    for (int i = 0; i < 2; i++)
        actor->copy[i] = gpur_arena_floats(arena, actor->network->params.count);
    actor->pass.sheet[0] = gpur_arena_floats(arena, actor->most * actor->network->width[0]);
    gpur_pass_place(&actor->pass, arena);
    actor->q = gpur_arena_floats(arena, actor->most * actor->network->outputs);
    actor->action = gpur_arena_take(arena, actor->most * (int64_t)sizeof(int32_t));
    actor->workspace = gpur_arena_take(arena, gpur_pass_workspace(&actor->pass));
}

static gpur_status overwrite(gpur_actor *actor, gpur_stream *stream, int copy, const float *weights, int64_t offset,
                             int64_t count)
{
    const int64_t bytes = count * (int64_t)sizeof(float);
    GPUR_TRY(gpur_stream_wait(stream, actor->read[copy]));
    GPUR_TRY(gpur_copy(stream, actor->copy[copy] + offset, weights + offset, bytes));
    return gpur_event_record(actor->written[copy], stream);
}

gpur_status gpur_actor_publish(gpur_actor *actor, gpur_stream *stream, const float *weights)
{
    pthread_mutex_lock(&actor->mutex);
    const int next = 1 - actor->latest;
    const gpur_status status = overwrite(actor, stream, next, weights, 0, actor->network->params.count);
    if (status == GPUR_OK)
        actor->latest = next;
    pthread_mutex_unlock(&actor->mutex);
    return status;
}

gpur_status gpur_actor_patch(gpur_actor *actor, gpur_stream *stream, const float *weights, int64_t offset,
                             int64_t count)
{
    gpur_status status = GPUR_OK;
    pthread_mutex_lock(&actor->mutex);
    for (int i = 0; i < 2 && status == GPUR_OK; i++)
        status = overwrite(actor, stream, i, weights, offset, count);
    pthread_mutex_unlock(&actor->mutex);
    return status;
}

static gpur_status enqueue_observations(gpur_actor *actor, int64_t count, const float *obs)
{
    const int64_t bytes = count * actor->network->width[0] * (int64_t)sizeof(float);
    if (gpur_memory_is_on_device(actor->device, obs))
        return gpur_copy(actor->stream, actor->pass.sheet[0], obs, bytes);
    memcpy(actor->host_obs, obs, (size_t)bytes);
    return gpur_copy(actor->stream, actor->pass.sheet[0], actor->host_obs, bytes);
}

/* Everything that reads the copy stands between the wait for its writer and the event its next writer waits for. */
static gpur_status enqueue_choice(gpur_actor *actor, int64_t count, float epsilon)
{
    const int copy = actor->mode == GPUR_ACT_LATEST ? actor->latest : 1 - actor->latest;
    const int32_t last = actor->network->sheet_count - 1;
    gpur_explore_args args;
    GPUR_TRY(gpur_stream_wait(actor->stream, actor->written[copy]));
    GPUR_TRY(gpur_pass_forward(&actor->pass, actor->stream, count, actor->copy[copy], actor->workspace));
    args.z = actor->pass.sheet[last], args.z_pitch = actor->pass.pitch[last];
    args.bias = actor->copy[copy] + actor->network->head_bias;
    args.q = actor->q, args.action = actor->action, args.batch = count;
    args.head = actor->network->head, args.outputs = actor->network->outputs;
    args.seed = actor->seed, args.counter = actor->counter, args.epsilon = epsilon;
    GPUR_TRY(gpur_launch_explore(actor->stream, gpur_grid_elements(actor->device, count), &args));
    return gpur_event_record(actor->read[copy], actor->stream);
}

static gpur_status run(gpur_actor *actor, int64_t count, const float *obs, float epsilon, const void *from, void *to,
                       int64_t bytes)
{
    GPUR_REQUIRE(obs && to, "obs and the place for the results must not be NULL");
    GPUR_REQUIRE(count >= 1 && count <= actor->most, "count is %" PRId64 "; it must be 1 to max_act_batch, %" PRId64,
                 count, actor->most);
    GPUR_TRY(enqueue_observations(actor, count, obs));
    pthread_mutex_lock(&actor->mutex);
    const gpur_status status = enqueue_choice(actor, count, epsilon);
    pthread_mutex_unlock(&actor->mutex);
    GPUR_TRY(status);
    GPUR_TRY(gpur_copy(actor->stream, to, from, bytes));
    return gpur_stream_sync(actor->stream);
}

gpur_status gpur_actor_choose(gpur_actor *actor, int64_t count, const float *obs, float epsilon, int32_t *actions)
{
    const int64_t bytes = count * (int64_t)sizeof(int32_t);
    GPUR_REQUIRE(actions, "actions is NULL");
    GPUR_REQUIRE(epsilon >= 0.0f && epsilon <= 1.0f, "epsilon is %g; it must be 0 to 1", (double)epsilon);
    GPUR_TRY(run(actor, count, obs, epsilon, actor->action, actor->host_action, bytes));
    memcpy(actions, actor->host_action, (size_t)bytes);
    actor->counter++;
    atomic_fetch_add(&actor->chosen, count);
    return GPUR_OK;
}

gpur_status gpur_actor_values(gpur_actor *actor, int64_t count, const float *obs, float *q)
{
    const int64_t bytes = count * actor->network->outputs * (int64_t)sizeof(float);
    GPUR_REQUIRE(q, "q is NULL");
    GPUR_TRY(run(actor, count, obs, 0.0f, actor->q, actor->host_q, bytes));
    memcpy(q, actor->host_q, (size_t)bytes);
    return GPUR_OK;
}
