/* SPDX-License-Identifier: MIT */
/* The buffers of acting, and its steps: upload, forward pass, choice, download. */
#include "learn/acting/inference.h"

#include "kernels/lib/allowed.h"
#include "learn/config.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

static const struct {
    gpur_status (*launch)(gpur_stream *stream, gpur_grid grid, const gpur_choice_args *args);
    gpur_acted acted;
} heads[] = {
    [GPUR_HEAD_Q] = {gpur_launch_epsilon_greedy, GPUR_ACTED_BY_Q},
    [GPUR_HEAD_DUELING] = {gpur_launch_epsilon_greedy, GPUR_ACTED_BY_Q},
    [GPUR_HEAD_SOFTMAX_VALUE] = {gpur_launch_softmax_choice, GPUR_ACTED_BY_PROBABILITIES},
    [GPUR_HEAD_TANH_ACTION] = {gpur_launch_noisy_action, GPUR_ACTED_VECTORS},
    [GPUR_HEAD_SQUASHED_GAUSSIAN] = {gpur_launch_gaussian_choice, GPUR_ACTED_DRAWN_VECTORS},
    [GPUR_HEAD_QUANTILES] = {gpur_launch_distribution_greedy, GPUR_ACTED_BY_Q},
    [GPUR_HEAD_CATEGORICAL] = {gpur_launch_distribution_greedy, GPUR_ACTED_BY_Q},
};

gpur_acted gpur_acted_by(int32_t head)
{
    return heads[head].acted;
}

/* Floats of the values of `rows` observations, or of the logarithms of what drew their actions. */
static int64_t values_of(const gpur_inference *inference, int64_t rows)
{
    const gpur_acted acted = gpur_acted_by(inference->network->head);
    return acted == GPUR_ACTED_BY_PROBABILITIES || acted == GPUR_ACTED_DRAWN_VECTORS ? rows : 0;
}

/* What all copies of the network give for an observation. */
static int32_t outputs_of(const gpur_network *network)
{
    return network->copies * network->num_actions;
}

/* Bytes of an observation's mask; 0: actions are vectors. */
static int64_t mask_bytes_of(const gpur_network *network)
{
    const gpur_acted acted = gpur_acted_by(network->head);
    const int is_discrete = acted == GPUR_ACTED_BY_Q || acted == GPUR_ACTED_BY_PROBABILITIES;
    return is_discrete ? gpur_mask_bytes(outputs_of(network)) : 0;
}

static gpur_status open_pinned(const gpur_inference *inference, gpur_inference_buffers *b)
{
    for (int placing = 0; placing < 2; placing++) {
        gpur_arena arena = {b->pinned, 0};
        b->host_obs = gpur_arena_alloc(&arena, b->capacity * inference->input.row_bytes);
        b->host_rows = gpur_arena_alloc(&arena, b->capacity * (int64_t)sizeof *b->host_rows);
        b->host_q = gpur_arena_floats(&arena, b->capacity * outputs_of(inference->network));
        b->host_value = gpur_arena_floats(&arena, values_of(inference, b->capacity));
        b->host_action = gpur_arena_alloc(&arena, b->capacity * (int64_t)sizeof *b->host_action);
        b->host_mask = gpur_arena_alloc(&arena, b->capacity * mask_bytes_of(inference->network));
        b->pinned_bytes = arena.used;
        if (!placing)
            GPUR_TRY(gpur_pinned_alloc(inference->device, arena.used, "the observations to act on", &b->pinned));
    }
    return GPUR_OK;
}

/* Creates the buffers, except their device memory. After a failure call close_buffers. */
static gpur_status open_buffers(const gpur_inference *inference, int64_t capacity, gpur_inference_buffers *b)
{
    *b = (gpur_inference_buffers){.capacity = capacity};
    const int64_t width = inference->network->width[0]; /* contiguous: direct observations are one copy */
    GPUR_TRY(gpur_pass_open(&b->pass, inference->device, inference->network, capacity, width, &inference->options));
    return open_pinned(inference, b);
}

static void close_buffers(const gpur_inference *inference, gpur_inference_buffers *b)
{
    gpur_pass_close(&b->pass);
    gpur_pinned_free(inference->device, b->pinned);
    gpur_memory_free(inference->device, b->memory);
}

static void assign_buffers(const gpur_inference *inference, gpur_inference_buffers *b, gpur_arena *arena)
{
    b->pass.activations[0] = gpur_arena_floats(arena, b->capacity * inference->network->width[0]);
    b->raw = inference->input.direct ? (void *)b->pass.activations[0]
                                     : gpur_arena_alloc(arena, b->capacity * inference->input.row_bytes);
    gpur_pass_assign(&b->pass, arena);
    b->rows = gpur_arena_alloc(arena, b->capacity * (int64_t)sizeof *b->rows);
    b->q = gpur_arena_floats(arena, b->capacity * outputs_of(inference->network));
    b->value = gpur_arena_floats(arena, values_of(inference, b->capacity));
    b->action = gpur_arena_alloc(arena, b->capacity * (int64_t)sizeof *b->action);
    b->mask = gpur_arena_alloc(arena, b->capacity * mask_bytes_of(inference->network));
    b->workspace = gpur_arena_alloc(arena, b->pass.workspace);
}

gpur_status gpur_inference_open(gpur_inference *inference, gpur_device *device, const gpur_network *network,
                                const gpur_network_config *config, const gpur_obs_format *obs, int32_t math,
                                float policy_floor, int64_t capacity)
{
    inference->device = device;
    inference->network = network;
    inference->input = gpur_input_of(network, obs, config);
    inference->input.args.x_pitch = network->width[0];
    inference->options = gpur_pass_options_of(math);
    inference->policy_floor = policy_floor;
    GPUR_TRY(gpur_stream_create(inference->device, &inference->stream));
    GPUR_TRY(open_buffers(inference, capacity, &inference->buffers));
    atomic_init(&inference->pinned_bytes, inference->buffers.pinned_bytes);
    return GPUR_OK;
}

void gpur_inference_close(gpur_inference *inference)
{
    if (!inference->device)
        return;
    gpur_stream_destroy(inference->stream);
    close_buffers(inference, &inference->buffers);
}

void gpur_inference_assign(gpur_inference *inference, gpur_arena *arena)
{
    assign_buffers(inference, &inference->buffers, arena);
}

/* The larger of `count` and twice the present size, so that a caller who adds one observation at a time does not
 * reallocate each time. */
static int64_t room_for(const gpur_inference *inference, int64_t count)
{
    const int64_t twice = 2 * inference->buffers.capacity;
    return count > twice ? count : twice < GPUR_MAX_ACT_BATCH ? twice : GPUR_MAX_ACT_BATCH;
}

/* Replaces the buffers by larger ones. No enqueued work uses the old ones, because every call waits for its results. */
static gpur_status grow(gpur_inference *inference, int64_t capacity)
{
    gpur_inference_buffers grown;
    gpur_arena arena = {NULL, 0};
    gpur_status status = open_buffers(inference, capacity, &grown);
    if (status == GPUR_OK) {
        assign_buffers(inference, &grown, &arena);
        status = gpur_memory_alloc(inference->device, arena.used, "more observations to act on", &grown.memory);
    }
    if (status != GPUR_OK) {
        close_buffers(inference, &grown);
        return status;
    }
    arena = (gpur_arena){grown.memory, 0};
    assign_buffers(inference, &grown, &arena);
    close_buffers(inference, &inference->buffers);
    inference->buffers = grown;
    atomic_store(&inference->pinned_bytes, grown.pinned_bytes);
    atomic_store(&inference->grown_bytes, arena.used);
    return GPUR_OK;
}

/* If there is no memory for twice the size, there may be enough for `count`. */
gpur_status gpur_inference_reserve(gpur_inference *inference, int64_t count)
{
    const int64_t wanted = room_for(inference, count);
    if (count <= inference->buffers.capacity)
        return GPUR_OK;
    const gpur_status status = grow(inference, wanted);
    return status == GPUR_OUT_OF_MEMORY && wanted > count ? grow(inference, count) : status;
}

static gpur_status check_noise(const gpur_inference *inference, int64_t i, double noise)
{
    const int is_sigma = gpur_acted_by(inference->network->head) == GPUR_ACTED_VECTORS;
    GPUR_REQUIRE(noise >= 0.0 && noise <= (is_sigma ? (double)FLT_MAX : 1.0), "%s[%" PRId64 "] is %g; it must be %s",
                 is_sigma ? "sigma" : "epsilon", i, noise, is_sigma ? "0 or more, and finite" : "0 to 1");
    return GPUR_OK;
}

static gpur_status check_masks(const gpur_inference *inference, const gpur_inference_call *call)
{
    const int64_t bytes = mask_bytes_of(inference->network);
    const int32_t actions = outputs_of(inference->network);
    GPUR_REQUIRE(bytes > 0, "mask is given, and actions are vectors; only discrete ones have masks");
    for (int64_t i = 0; i < call->count; i++)
        GPUR_REQUIRE(gpur_find_allowed(actions, call->mask + i * bytes, 0) >= 0,
                     "mask[%" PRId64 "] allows none of the %" PRId32 " actions; it must allow one at least", i,
                     actions);
    return GPUR_OK;
}

gpur_status gpur_inference_check(const gpur_inference *inference, const gpur_inference_call *call, int64_t most,
                                 const char *limit)
{
    const gpur_exploration *const exploration = &call->exploration;
    GPUR_REQUIRE(call->obs, "obs is NULL");
    GPUR_REQUIRE(call->count >= 1 && call->count <= most, "count is %" PRId64 "; it must be 1 to %s%" PRId64,
                 call->count, limit, most);
    GPUR_REQUIRE(exploration->epsilon >= 0.0f && exploration->epsilon <= 1.0f, "epsilon is %g; it must be 0 to 1",
                 (double)exploration->epsilon);
    for (int64_t i = 0; exploration->epsilons && i < call->count; i++)
        GPUR_TRY(check_noise(inference, i, (double)exploration->epsilons[i]));
    if (call->mask)
        GPUR_TRY(check_masks(inference, call));
    return gpur_native_stream_check(inference->device, call->native, 0);
}

/* Copies the observations to the device: those in host memory through pinned memory; those in device memory after the
 * caller's stream has written them, and before it goes on. */
static gpur_status upload_observations(const gpur_inference *inference, const gpur_inference_call *call)
{
    const int64_t bytes = call->count * inference->input.row_bytes;
    void *const to = inference->buffers.raw;
    gpur_stream *const stream = inference->stream;
    int on_device = 0;
    GPUR_TRY(gpur_memory_locate(inference->device, call->obs, &on_device));
    if (!on_device) {
        memcpy(inference->buffers.host_obs, call->obs, (size_t)bytes);
        return gpur_copy(stream, to, inference->buffers.host_obs, bytes);
    }
    if (!call->native)
        return gpur_copy(stream, to, call->obs, bytes);
    GPUR_TRY(gpur_stream_wait_native(stream, call->native));
    GPUR_TRY(gpur_copy(stream, to, call->obs, bytes));
    return gpur_native_wait_stream(call->native, stream);
}

static gpur_status upload_exploration(const gpur_inference *inference, int64_t count, const gpur_exploration *e)
{
    gpur_explore_row *const rows = inference->buffers.host_rows;
    if (!e->steps && !e->lanes && !e->epsilons)
        return GPUR_OK;
    for (int64_t i = 0; i < count; i++) {
        rows[i].step = e->steps ? e->steps[i] : e->step;
        rows[i].lane = e->lanes ? e->lanes[i] : (uint32_t)i;
        rows[i].epsilon = e->epsilons ? e->epsilons[i] : e->epsilon;
    }
    return gpur_copy(inference->stream, inference->buffers.rows, rows, count * (int64_t)sizeof *rows);
}

static gpur_status upload_masks(const gpur_inference *inference, const gpur_inference_call *call)
{
    const int64_t bytes = call->mask ? call->count * mask_bytes_of(inference->network) : 0;
    if (bytes == 0)
        return GPUR_OK;
    memcpy(inference->buffers.host_mask, call->mask, (size_t)bytes);
    return gpur_copy(inference->stream, inference->buffers.mask, inference->buffers.host_mask, bytes);
}

gpur_status gpur_inference_upload(gpur_inference *inference, const gpur_inference_call *call)
{
    const gpur_inference_buffers *const b = &inference->buffers;
    GPUR_TRY(upload_observations(inference, call));
    GPUR_TRY(upload_exploration(inference, call->count, &call->exploration));
    GPUR_TRY(upload_masks(inference, call));
    return gpur_input_run(&inference->input, inference->device, inference->stream, call->count, b->raw,
                          inference->input.row_bytes, b->pass.activations[0]);
}

/* Enqueues the kernel that acts by the last activations. */
static gpur_status choose(const gpur_inference *inference, const gpur_inference_call *call, const float *weights)
{
    const gpur_network *const network = inference->network;
    const gpur_inference_buffers *const b = &inference->buffers;
    const gpur_exploration *const e = &call->exploration;
    const int32_t last = network->activation_count - 1;
    const gpur_choice_args args = {
        .z = b->pass.activations[last],
        .z_pitch = b->pass.pitch[last],
        .bias = weights + network->head_bias,
        .per_action = b->q,
        .value = b->value,
        .action = b->action,
        .batch = call->count,
        .head = network->head,
        .num_actions = outputs_of(network),
        .greedy = call->greedy,
        .floor = inference->policy_floor,
        .seed = e->seed,
        .rows = e->steps || e->lanes || e->epsilons ? b->rows : NULL,
        .step = e->step,
        .epsilon = e->epsilon,
        .distribution = network->distribution,
        .mask = call->mask ? b->mask : NULL,
    };
    const int64_t bytes = (int64_t)network->width[last] * (int64_t)sizeof *args.z;
    const gpur_grid grid = network->distribution.atoms > 0 ? gpur_grid_rows(inference->device, args.batch, 1, bytes)
                                                           : gpur_grid_elements(inference->device, args.batch);
    return heads[network->head].launch(inference->stream, grid, &args);
}

/* The arguments of run(). */
typedef struct forward_request {
    const gpur_inference *inference;
    const gpur_inference_call *call;
    const float *weights;
} forward_request;

static gpur_status run(void *context, gpur_stream *stream)
{
    const forward_request *const r = context;
    const gpur_inference_buffers *const b = &r->inference->buffers;
    GPUR_TRY(gpur_pass_forward(&b->pass, stream, r->call->count, r->weights, b->workspace));
    return choose(r->inference, r->call, r->weights);
}

/* Each call may be the first of its size. */
gpur_status gpur_inference_run(const gpur_inference *inference, const gpur_inference_call *call, const float *weights)
{
    forward_request request = {inference, call, weights};
    return gpur_run_first(inference->stream, run, &request);
}

static gpur_status enqueue_download(const gpur_inference *inference, int64_t actions, int64_t q, int64_t values)
{
    const gpur_inference_buffers *const b = &inference->buffers;
    GPUR_TRY(gpur_copy(inference->stream, b->host_action, b->action, actions));
    GPUR_TRY(gpur_copy(inference->stream, b->host_value, b->value, values));
    return gpur_copy(inference->stream, b->host_q, b->q, q);
}

gpur_status gpur_inference_download(gpur_inference *inference, const gpur_inference_call *call, gpur_status status)
{
    const gpur_inference_buffers *const b = &inference->buffers;
    const int64_t actions = call->actions ? call->count * (int64_t)sizeof *b->action : 0;
    const int64_t q = call->q ? call->count * outputs_of(inference->network) * (int64_t)sizeof *b->q : 0;
    const int64_t values = call->values ? call->count * (int64_t)sizeof *b->value : 0;
    const gpur_status copied = status == GPUR_OK ? enqueue_download(inference, actions, q, values) : status;
    GPUR_TRY(gpur_stream_finish(inference->stream, copied));
    if (call->actions)
        memcpy(call->actions, b->host_action, (size_t)actions);
    if (call->q)
        memcpy(call->q, b->host_q, (size_t)q);
    if (call->values)
        memcpy(call->values, b->host_value, (size_t)values);
    return GPUR_OK;
}
