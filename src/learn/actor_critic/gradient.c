/* SPDX-License-Identifier: MIT */
/* Computes the gradient of a batch: upload, passes, loss. */
#include "learn/actor_critic/gradient.h"

#include "base/numbers.h"
#include "replay/finite.h"

#include <inttypes.h>
#include <string.h>

/* The parts of what is uploaded for a batch of `rows` rows, as offsets in bytes. The count is at 0. */
typedef struct upload_layout {
    int64_t actions, returns, obs, bytes;
} upload_layout;

static upload_layout layout_of(const gpur_gradient *g, int64_t rows)
{
    gpur_arena arena = {NULL, 256};
    upload_layout at;
    at.actions = arena.used;
    gpur_arena_alloc(&arena, rows * (int64_t)sizeof(int32_t));
    at.returns = arena.used;
    gpur_arena_alloc(&arena, rows * (int64_t)sizeof(float));
    at.obs = arena.used;
    gpur_arena_alloc(&arena, rows * g->input.row_bytes);
    at.bytes = arena.used;
    return at;
}

static gpur_status open_size(gpur_gradient *g, gpur_batch_size *size, int64_t rows)
{
    const gpur_pass_options options = gpur_pass_options_of(g->config->math);
    size->gradient = g;
    size->rows = rows;
    GPUR_TRY(gpur_pass_open(&size->pass, g->device, g->network, rows, g->input.args.x_pitch, &options));
    return gpur_backward_open(&size->backward, &size->pass, rows, 0);
}

static int64_t results_bytes(const gpur_gradient *g)
{
    return g->config->max_batch * (int64_t)(GPUR_ROW_RESULTS * sizeof(float));
}

static gpur_status open_pinned(gpur_gradient *g)
{
    for (int placing = 0; placing < 2; placing++) {
        gpur_arena arena = {g->pinned, 0};
        g->host_upload = gpur_arena_alloc(&arena, layout_of(g, g->config->max_batch).bytes);
        g->host_results = gpur_arena_alloc(&arena, results_bytes(g));
        g->host_state = gpur_arena_alloc(&arena, 2 * sizeof *g->host_state);
        if (!placing)
            GPUR_TRY(gpur_pinned_alloc(g->device, arena.used, "the batches of an actor-critic", &g->pinned));
    }
    return GPUR_OK;
}

gpur_status gpur_gradient_open(gpur_gradient *gradient, gpur_device *device, const gpur_network *network,
                               const gpur_obs_format *obs, const gpur_actor_critic_config *config)
{
    const int64_t most = config->max_batch;
    gradient->device = device;
    gradient->network = network;
    gradient->config = config;
    gradient->input = gpur_input_of(network, obs, &config->network);
    gradient->input.args.x_pitch = network->width[0]; /* contiguous: direct observations are one copy */
    GPUR_TRY(gpur_stream_create(device, &gradient->stream));
    for (int64_t rows = GPUR_SMALLEST_BATCH, last = 0; !last; rows *= 2) {
        last = rows >= most;
        GPUR_TRY(open_size(gradient, &gradient->sizes[gradient->size_count++], last ? most : rows));
    }
    return open_pinned(gradient);
}

void gpur_gradient_close(gpur_gradient *gradient)
{
    if (!gradient->device)
        return;
    for (int32_t i = 0; i < gradient->size_count; i++) {
        gpur_graph_destroy(gradient->sizes[i].graph);
        gpur_backward_close(&gradient->sizes[i].backward);
        gpur_pass_close(&gradient->sizes[i].pass);
    }
    gpur_stream_destroy(gradient->stream);
    gpur_pinned_free(gradient->device, gradient->pinned);
}

static void set_loss_args(const gpur_gradient *g, gpur_batch_size *size)
{
    const gpur_actor_critic_config *const config = g->config;
    const upload_layout at = layout_of(g, size->rows);
    const int32_t last = g->network->activation_count - 1;
    gpur_actor_critic_loss_args *const loss = &size->loss;
    loss->z = size->pass.activations[last], loss->z_pitch = size->pass.pitch[last];
    loss->dz = size->backward.gradients[last];
    loss->count = (const int64_t *)(const void *)g->upload;
    loss->action = (const int32_t *)(const void *)(g->upload + at.actions);
    loss->returns = (const float *)(const void *)(g->upload + at.returns);
    loss->results = g->results;
    loss->batch = size->rows, loss->num_actions = g->network->num_actions;
    loss->log = config->log, loss->log_epsilon = config->log_epsilon, loss->floor = config->policy_floor;
    loss->value_coefficient = config->value_coefficient;
    loss->entropy_first = config->entropy.first, loss->entropy_last = config->entropy.last;
    loss->entropy_begin = config->entropy.begin, loss->entropy_steps = config->entropy.steps;
}

/* Returns the bytes of the workspace that the size needs. Observations that are the input stay where they arrive. */
static int64_t assign_size(gpur_gradient *g, gpur_batch_size *size, gpur_arena *arena)
{
    const int64_t probabilities = size->rows * g->network->num_actions;
    gpur_pass_assign(&size->pass, arena);
    gpur_backward_assign(&size->backward, arena);
    size->loss.p = gpur_arena_floats(arena, probabilities);
    size->loss.dp = gpur_arena_floats(arena, probabilities);
    if (arena->base) {
        size->raw = g->upload + layout_of(g, size->rows).obs;
        size->pass.activations[0] = g->input.direct ? (float *)(void *)size->raw : g->x;
        set_loss_args(g, size);
    }
    return gpur_max(size->pass.workspace, size->backward.workspace);
}

void gpur_gradient_assign(gpur_gradient *gradient, gpur_arena *arena)
{
    const int64_t rows = gradient->config->max_batch;
    int64_t workspace = 0;
    gradient->upload = gpur_arena_alloc(arena, layout_of(gradient, rows).bytes);
    gradient->x = gpur_arena_floats(arena, gradient->input.direct ? 0 : rows * gradient->network->width[0]);
    gradient->results = gpur_arena_alloc(arena, results_bytes(gradient));
    for (int32_t i = 0; i < gradient->size_count; i++) {
        workspace = gpur_max(workspace, assign_size(gradient, &gradient->sizes[i], arena));
    }
    gradient->workspace = gpur_arena_alloc(arena, workspace);
}

/* The gradient of these parts of the loss. */
static gpur_status run_parts(const gpur_batch_size *size, gpur_stream *stream, int32_t parts, int32_t i)
{
    const gpur_gradient *const g = size->gradient;
    static const gpur_side no_side = {NULL, NULL, NULL, NULL};
    const gpur_track track = {stream, g->workspace};
    gpur_actor_critic_loss_args loss = size->loss;
    loss.bias = g->weights + g->network->head_bias;
    loss.state = g->state;
    loss.parts = parts;
    GPUR_TRY(gpur_launch_actor_critic_loss(stream, gpur_grid_elements(g->device, size->rows), &loss));
    return gpur_backward_run(&size->backward, &track, &no_side, g->weights, g->to[i]);
}

/* A function to be recorded (gpur_record_fn). The gradients of both parts are computed before the first is applied. */
static gpur_status record(void *context, gpur_stream *stream)
{
    const gpur_batch_size *const size = context;
    const gpur_gradient *const g = size->gradient;
    const gpur_train_step_results results = {.batch = 1};
    GPUR_TRY(gpur_input_run(&g->input, g->device, stream, size->rows, size->raw, g->input.row_bytes, g->x));
    GPUR_TRY(gpur_pass_forward(&size->pass, stream, size->rows, g->weights, g->workspace));
    if (!g->to[1]) {
        GPUR_TRY(run_parts(size, stream, GPUR_LOSS_OF_POLICY | GPUR_LOSS_OF_VALUE, 0));
    } else {
        GPUR_TRY(run_parts(size, stream, GPUR_LOSS_OF_POLICY, 0));
        GPUR_TRY(run_parts(size, stream, GPUR_LOSS_OF_VALUE, 1));
    }
    for (int i = 0; i < 2; i++)
        if (g->optimizer[i])
            GPUR_TRY(gpur_optimizer_step(g->optimizer[i], stream, &results));
    return GPUR_OK;
}

/* Enqueues the copy of a batch to the device. The rows that are too many have observations of zeros. */
static gpur_status upload(gpur_gradient *g, const gpur_batch_size *size, const gpur_actor_critic_batch *batch)
{
    const upload_layout at = layout_of(g, size->rows);
    const size_t count = (size_t)batch->count, row = (size_t)g->input.row_bytes;
    unsigned char *const to = g->host_upload;
    memcpy(to, &batch->count, sizeof batch->count);
    if (count > 0) {
        memcpy(to + at.actions, batch->actions, count * sizeof *batch->actions);
        memcpy(to + at.returns, batch->returns, count * sizeof *batch->returns);
        memcpy(to + at.obs, batch->obs, count * row);
    }
    memset(to + at.obs + count * row, 0, ((size_t)size->rows - count) * row);
    return gpur_copy(g->stream, g->upload, to, at.bytes);
}

gpur_status gpur_gradient_start(gpur_gradient *gradient)
{
    const gpur_actor_critic_batch none = {.size = sizeof none};
    for (int32_t i = 0; i < gradient->size_count; i++) {
        gpur_batch_size *const size = &gradient->sizes[i];
        GPUR_TRY(upload(gradient, size, &none));
        GPUR_TRY(gpur_run_first(gradient->stream, record, size));
        GPUR_TRY(gpur_stream_sync(gradient->stream));
        GPUR_TRY(gpur_graph_create(gradient->device, record, size, 1, &size->graph));
    }
    return GPUR_OK;
}

static gpur_status check_finite(const gpur_gradient *gradient, const gpur_actor_critic_batch *batch)
{
    const gpur_field *const field = &gradient->config->obs;
    const int64_t count = batch->count, bytes = gradient->input.row_bytes, one = (int64_t)sizeof(float);
    const gpur_field_values obs = {batch->obs, count, bytes, bytes, field->dtype, "obs", "row"};
    const gpur_field_values returns = {batch->returns, count, one, one, GPUR_FLOAT32, "returns", "row"};
    GPUR_TRY(gpur_check_finite(&obs, GPUR_INVALID_ARGUMENT));
    return gpur_check_finite(&returns, GPUR_INVALID_ARGUMENT);
}

gpur_status gpur_gradient_check(const gpur_gradient *gradient, const gpur_actor_critic_batch *batch)
{
    const int32_t actions = gradient->network->num_actions;
    GPUR_REQUIRE(batch->obs && batch->actions && batch->returns, "obs, actions and returns must not be NULL");
    GPUR_REQUIRE(batch->count >= 1 && batch->count <= gradient->config->max_batch,
                 "count is %" PRId64 "; it must be 1 to max_batch, %" PRId32, batch->count,
                 gradient->config->max_batch);
    for (int64_t i = 0; i < batch->count; i++)
        GPUR_REQUIRE(batch->actions[i] >= 0 && batch->actions[i] < actions,
                     "actions[%" PRId64 "] is %" PRId32 "; it must be 0 to num_actions - 1, %" PRId32, i,
                     batch->actions[i], actions - 1);
    return gradient->config->check_finite ? check_finite(gradient, batch) : GPUR_OK;
}

static double mean_of(const float *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum / (double)count;
}

static gpur_status enqueue(gpur_gradient *g, const gpur_batch_size *size, const gpur_actor_critic_batch *batch)
{
    const int64_t bytes = size->rows * (int64_t)(GPUR_ROW_RESULTS * sizeof(float));
    GPUR_TRY(upload(g, size, batch));
    GPUR_TRY(gpur_graph_launch(size->graph, g->stream, 1));
    GPUR_TRY(gpur_copy(g->stream, g->host_results, g->results, bytes));
    if (g->optimizer[1])
        GPUR_TRY(gpur_copy(g->stream, g->host_state + 1, g->optimizer[1]->state, sizeof *g->host_state));
    return gpur_copy(g->stream, g->host_state, g->state, sizeof *g->host_state);
}

gpur_status gpur_gradient_run(gpur_gradient *gradient, const gpur_actor_critic_batch *batch,
                              gpur_actor_critic_losses *losses)
{
    const gpur_batch_size *size = gradient->sizes;
    while (size->rows < batch->count)
        size++;
    GPUR_TRY(gpur_stream_finish(gradient->stream, enqueue(gradient, size, batch)));
    const float *const results = gradient->host_results;
    losses->policy = mean_of(results + GPUR_ROW_POLICY_LOSS * size->rows, batch->count);
    losses->value = mean_of(results + GPUR_ROW_VALUE_LOSS * size->rows, batch->count);
    losses->entropy = mean_of(results + GPUR_ROW_ENTROPY * size->rows, batch->count);
    losses->mean_value = mean_of(results + GPUR_ROW_VALUE * size->rows, batch->count);
    return GPUR_OK;
}
