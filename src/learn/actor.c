/* SPDX-License-Identifier: MIT */
#include "learn/actor.h"

#include "learn/config.h"

#include <inttypes.h>
#include <string.h>

static gpur_status open_pinned(const gpur_actor *actor, gpur_act_buffers *b)
{
    for (int placing = 0; placing < 2; placing++) {
        gpur_arena arena = {b->pinned, 0};
        b->host_obs = gpur_arena_alloc(&arena, b->capacity * actor->input.row_bytes);
        b->host_q = gpur_arena_floats(&arena, b->capacity * actor->network->num_actions);
        b->host_action = gpur_arena_alloc(&arena, b->capacity * (int64_t)sizeof(int32_t));
        b->pinned_bytes = arena.used;
        if (!placing)
            GPUR_TRY(gpur_pinned_alloc(actor->device, arena.used, "the observations to act on", &b->pinned));
    }
    return GPUR_OK;
}

/* Creates the buffers, except their device memory. After a failure call close_buffers. */
static gpur_status open_buffers(const gpur_actor *actor, int64_t capacity, gpur_act_buffers *b)
{
    *b = (gpur_act_buffers){.capacity = capacity};
    const int64_t width = actor->network->width[0]; /* contiguous: direct observations are one copy */
    GPUR_TRY(gpur_pass_open(&b->pass, actor->device, actor->network, capacity, width, &actor->options));
    return open_pinned(actor, b);
}

static void close_buffers(const gpur_actor *actor, gpur_act_buffers *b)
{
    gpur_pass_close(&b->pass);
    gpur_pinned_free(actor->device, b->pinned);
    gpur_memory_free(actor->device, b->memory);
}

static void assign_buffers(const gpur_actor *actor, gpur_act_buffers *b, gpur_arena *arena)
{
    b->pass.activations[0] = gpur_arena_floats(arena, b->capacity * actor->network->width[0]);
    b->raw = actor->input.direct ? (void *)b->pass.activations[0]
                                 : gpur_arena_alloc(arena, b->capacity * actor->input.row_bytes);
    gpur_pass_assign(&b->pass, arena);
    b->q = gpur_arena_floats(arena, b->capacity * actor->network->num_actions);
    b->action = gpur_arena_alloc(arena, b->capacity * (int64_t)sizeof(int32_t));
    b->workspace = gpur_arena_alloc(arena, gpur_pass_workspace(&b->pass));
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_actor *const actor = part;
    gpur_device *const device = context->device;
    const gpur_network *const network = context->network;
    const gpur_learner_config *const config = context->config;
    actor->device = device;
    actor->network = network;
    actor->mode = config->act;
    actor->seed = config->seed;
    if (pthread_mutex_init(&actor->act_lock, NULL) != 0 || pthread_mutex_init(&actor->copy_lock, NULL) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no mutex could be made for acting");
    GPUR_TRY(gpur_stream_create(device, &actor->stream));
    for (int i = 0; i < 2; i++) {
        GPUR_TRY(gpur_event_create(device, &actor->written[i]));
        GPUR_TRY(gpur_event_create(device, &actor->read[i]));
    }
    actor->input = gpur_input_of(device, network, context->fields, config);
    actor->options = gpur_input_options(&actor->input, config);
    actor->input.args.x_pitch = network->width[0];
    GPUR_TRY(open_buffers(actor, config->max_act_batch, &actor->buffers));
    atomic_init(&actor->pinned_bytes, actor->buffers.pinned_bytes);
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_actor *const actor = part;
    gpur_stream_destroy(actor->stream);
    close_buffers(actor, &actor->buffers);
    for (int i = 0; i < 2; i++) {
        gpur_event_destroy(actor->written[i]);
        gpur_event_destroy(actor->read[i]);
    }
    pthread_mutex_destroy(&actor->act_lock);
    pthread_mutex_destroy(&actor->copy_lock);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_actor *const actor = part;
    for (int i = 0; i < 2; i++)
        actor->copy[i] = gpur_arena_floats(arena, actor->network->params.count);
    assign_buffers(actor, &actor->buffers, arena);
}

static int64_t pinned_bytes(const void *part)
{
    return atomic_load(&((const gpur_actor *)part)->pinned_bytes);
}

/* Only the older acting copy: the latest equals the weights for acting. */
static void save(const void *part, gpur_saved_arrays *arrays)
{
    const gpur_actor *const actor = part;
    gpur_saved_arrays_add(arrays, "acting", actor->copy[1 - actor->latest]);
}

const gpur_part gpur_actor_part = {
    .open = open,
    .assign = assign,
    .close = close,
    .pinned_bytes = pinned_bytes,
    .save = save,
};

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
    pthread_mutex_lock(&actor->copy_lock);
    const int next = 1 - actor->latest;
    const gpur_status status = overwrite(actor, stream, next, weights, 0, actor->network->params.count);
    if (status == GPUR_OK)
        actor->latest = next;
    pthread_mutex_unlock(&actor->copy_lock);
    return status;
}

gpur_status gpur_actor_patch(gpur_actor *actor, gpur_stream *stream, const float *weights, int64_t offset,
                             int64_t count)
{
    gpur_status status = GPUR_OK;
    pthread_mutex_lock(&actor->copy_lock);
    for (int i = 0; i < 2 && status == GPUR_OK; i++)
        status = overwrite(actor, stream, i, weights, offset, count);
    pthread_mutex_unlock(&actor->copy_lock);
    return status;
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

/* Copies the observations to the device: those in host memory through pinned memory; those in device memory after the
 * caller's stream has written them, and before it goes on. */
static gpur_status enqueue_observations(gpur_actor *actor, const gpur_obs_batch *obs_batch)
{
    const int64_t bytes = obs_batch->count * actor->input.row_bytes;
    void *const to = actor->buffers.raw;
    int on_device = 0;
    GPUR_TRY(gpur_memory_locate(actor->device, obs_batch->obs, &on_device));
    if (!on_device) {
        memcpy(actor->buffers.host_obs, obs_batch->obs, (size_t)bytes);
        return gpur_copy(actor->stream, to, actor->buffers.host_obs, bytes);
    }
    if (!obs_batch->native)
        return gpur_copy(actor->stream, to, obs_batch->obs, bytes);
    GPUR_TRY(gpur_stream_wait_native(actor->stream, obs_batch->native));
    GPUR_TRY(gpur_copy(actor->stream, to, obs_batch->obs, bytes));
    return gpur_native_wait_stream(obs_batch->native, actor->stream);
}

/* All reads of the acting copy are enqueued after the wait for its last write and before the event that its next write
 * waits for. */
static gpur_status enqueue_choice(gpur_actor *actor, int64_t count, float epsilon)
{
    const int copy = actor->mode == GPUR_ACT_LATEST ? actor->latest : 1 - actor->latest;
    const int32_t last = actor->network->activation_count - 1;
    const gpur_act_buffers *const b = &actor->buffers;
    gpur_epsilon_greedy_args args;
    GPUR_TRY(gpur_stream_wait(actor->stream, actor->written[copy]));
    GPUR_TRY(gpur_pass_forward(&b->pass, actor->stream, count, actor->copy[copy], b->workspace));
    args.z = b->pass.activations[last], args.z_pitch = b->pass.pitch[last];
    args.bias = actor->copy[copy] + actor->network->head_bias;
    args.q = b->q, args.action = b->action, args.batch = count;
    args.head = actor->network->head, args.num_actions = actor->network->num_actions;
    args.seed = actor->seed, args.counter = actor->counter, args.epsilon = epsilon;
    GPUR_TRY(gpur_launch_epsilon_greedy(actor->stream, gpur_grid_elements(actor->device, count), &args));
    return gpur_event_record(actor->read[copy], actor->stream);
}

/* The larger of `count` and twice the present size, so that a caller who adds one observation at a time does not
 * reallocate each time. */
static int64_t room_for(const gpur_actor *actor, int64_t count)
{
    const int64_t twice = 2 * actor->buffers.capacity;
    return count > twice ? count : twice < GPUR_MAX_ACT_BATCH ? twice : GPUR_MAX_ACT_BATCH;
}

/* Replaces the buffers by larger ones. No enqueued work uses the old ones, because every act waits for its results. */
static gpur_status grow(gpur_actor *actor, int64_t capacity)
{
    gpur_act_buffers grown;
    gpur_arena arena = {NULL, 0};
    gpur_status status = open_buffers(actor, capacity, &grown);
    if (status == GPUR_OK) {
        assign_buffers(actor, &grown, &arena);
        status = gpur_memory_alloc(actor->device, arena.used, "more observations to act on", &grown.memory);
    }
    if (status != GPUR_OK) {
        close_buffers(actor, &grown);
        return status;
    }
    arena = (gpur_arena){grown.memory, 0};
    assign_buffers(actor, &grown, &arena);
    close_buffers(actor, &actor->buffers);
    actor->buffers = grown;
    atomic_store(&actor->pinned_bytes, grown.pinned_bytes);
    atomic_store(&actor->grown_bytes, arena.used);
    return GPUR_OK;
}

/* If there is no memory for twice the size, there may be enough for `count`. */
static gpur_status make_room(gpur_actor *actor, int64_t count)
{
    const int64_t wanted = room_for(actor, count);
    if (count <= actor->buffers.capacity)
        return GPUR_OK;
    const gpur_status status = grow(actor, wanted);
    return status == GPUR_OUT_OF_MEMORY && wanted > count ? grow(actor, count) : status;
}

static gpur_status enqueue(gpur_actor *actor, const gpur_obs_batch *obs_batch, float epsilon)
{
    GPUR_TRY(make_room(actor, obs_batch->count));
    GPUR_TRY(enqueue_observations(actor, obs_batch));
    GPUR_TRY(gpur_input_run(&actor->input, actor->device, actor->stream, obs_batch->count, actor->buffers.raw,
                            actor->input.row_bytes, actor->buffers.pass.activations[0]));
    pthread_mutex_lock(&actor->copy_lock);
    const gpur_status status = enqueue_choice(actor, obs_batch->count, epsilon);
    pthread_mutex_unlock(&actor->copy_lock);
    return status;
}

/* Copies results from the device through `pinned` to the caller. Waits even after a failure, because enqueued work uses
 * the pinned memory. */
static gpur_status download(gpur_actor *actor, gpur_status enqueued, void *to, void *pinned, const void *from,
                            int64_t bytes)
{
    const gpur_status copied = enqueued == GPUR_OK ? gpur_copy(actor->stream, pinned, from, bytes) : enqueued;
    const gpur_status done = gpur_stream_sync(actor->stream);
    GPUR_TRY(copied);
    GPUR_TRY(done);
    memcpy(to, pinned, (size_t)bytes);
    return GPUR_OK;
}

static gpur_status check(const gpur_actor *actor, const gpur_obs_batch *obs_batch, const char *name, const void *to)
{
    GPUR_REQUIRE(obs_batch->obs, "obs is NULL");
    GPUR_REQUIRE(to, "%s, which gets the results, is NULL", name);
    GPUR_REQUIRE(obs_batch->count >= 1 && obs_batch->count <= GPUR_MAX_ACT_BATCH,
                 "count is %" PRId64 "; it must be 1 to %d", obs_batch->count, GPUR_MAX_ACT_BATCH);
    GPUR_TRY(gpur_native_stream_check(actor->device, obs_batch->native, 0));
    return GPUR_OK;
}

gpur_status gpur_actor_choose(gpur_actor *actor, const gpur_obs_batch *obs_batch, float epsilon, int32_t *actions)
{
    GPUR_TRY(check(actor, obs_batch, "actions", actions));
    GPUR_REQUIRE(epsilon >= 0.0f && epsilon <= 1.0f, "epsilon is %g; it must be 0 to 1", (double)epsilon);
    const int64_t bytes = obs_batch->count * (int64_t)sizeof *actions;
    pthread_mutex_lock(&actor->act_lock);
    gpur_status status = enqueue(actor, obs_batch, epsilon);
    status = download(actor, status, actions, actor->buffers.host_action, actor->buffers.action, bytes);
    if (status == GPUR_OK) {
        actor->counter++;
        atomic_fetch_add(&actor->chosen, obs_batch->count);
    }
    pthread_mutex_unlock(&actor->act_lock);
    return status;
}

gpur_status gpur_actor_values(gpur_actor *actor, const gpur_obs_batch *obs_batch, float *q)
{
    GPUR_TRY(check(actor, obs_batch, "q", q));
    const int64_t bytes = obs_batch->count * actor->network->num_actions * (int64_t)sizeof *q;
    pthread_mutex_lock(&actor->act_lock);
    gpur_status status = enqueue(actor, obs_batch, 0.0f);
    status = download(actor, status, q, actor->buffers.host_q, actor->buffers.q, bytes);
    pthread_mutex_unlock(&actor->act_lock);
    return status;
}
