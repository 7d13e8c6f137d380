/* SPDX-License-Identifier: MIT */
#include "learn/train_step.h"

#include "replay/sampler/consumer.h"

#include <string.h>

gpur_status gpur_step_open(gpur_step *step, gpur_device *device, gpur_replay *replay, const gpur_network *network,
                           const gpur_learner_config *config, const gpur_learn_fields *fields)
{
    const int64_t batch = config->batch_size, pitch = gpur_input_pitch(network);
    const int64_t online_rows = config->double_dqn ? 2 * batch : batch;
    memset(step, 0, sizeof *step);
    step->device = device;
    step->replay = replay;
    step->network = network;
    step->config = *config;
    step->fields = *fields;
    step->input = gpur_input_of(device, network, fields, config);
    step->is_observed = !step->input.direct && gpur_replay_links(replay) > 0;
    const gpur_pass_options options = gpur_input_options(&step->input, config);
    GPUR_TRY(gpur_pass_open(&step->online, device, network, online_rows, pitch, &options));
    GPUR_TRY(gpur_pass_open(&step->target, device, network, batch, pitch, &options));
    GPUR_TRY(gpur_backward_open(&step->backward, &step->online, batch));
    gpur_optimizer_open(&step->optimizer, device, config, network->params.count);
    return GPUR_OK;
}

void gpur_step_close(gpur_step *step)
{
    gpur_backward_close(&step->backward);
    gpur_pass_close(&step->target);
    gpur_pass_close(&step->online);
}

static int64_t workspace_bytes(const gpur_step *step)
{
    const int64_t bytes[] = {gpur_pass_workspace(&step->online), gpur_pass_workspace(&step->target),
                             gpur_backward_workspace(&step->backward)};
    int64_t most = 0;
    for (int i = 0; i < 3; i++)
        most = bytes[i] > most ? bytes[i] : most;
    return most;
}

static int64_t raw_bytes(const gpur_step *step)
{
    const int is_used = !step->input.direct && (!step->is_observed || step->config.host_batches > 0);
    return is_used ? 2 * step->config.batch_size * step->input.raw_pitch : 0;
}

static void place_batch(gpur_step *step, gpur_arena *arena)
{
    const int64_t batch = step->config.batch_size;
    step->x = gpur_arena_floats(arena, 2 * batch * step->online.pitch[0]);
    step->raw = raw_bytes(step) > 0 ? gpur_arena_take(arena, raw_bytes(step)) : NULL;
    step->action = gpur_arena_take(arena, batch * (step->fields.wide_action ? 8 : 4));
    step->reward = gpur_arena_floats(arena, batch);
    step->discount = gpur_arena_floats(arena, batch);
    step->weight = gpur_arena_floats(arena, batch);
    step->id = gpur_arena_take(arena, batch * 8);
    step->ids = gpur_arena_take(arena, batch * 8);
    step->links = gpur_arena_take(arena, batch * gpur_replay_links(step->replay) * (int64_t)sizeof *step->links);
    if (gpur_sampler_of(step->config.index_source)->is_by_priority)
        step->leaf = gpur_arena_take(arena, batch * 4);
}

/* The last activations of both passes have the same pitch, because they have the same width. */
static void place_td_error(gpur_step *step, gpur_arena *arena)
{
    const int32_t last = step->network->sheet_count - 1;
    const int64_t batch = step->config.batch_size, actions = step->network->outputs;
    gpur_td_error_args *const td = &step->td;
    td->z = step->online.sheet[last];
    td->z_target = step->target.sheet[last];
    td->action = step->action, td->reward = step->reward, td->discount = step->discount, td->weight = step->weight;
    td->q = gpur_arena_floats(arena, step->online.rows * actions);
    td->q_target = gpur_arena_floats(arena, batch * actions);
    td->dq = gpur_arena_floats(arena, batch * actions);
    td->dz = step->backward.sheet[last];
    td->td = gpur_arena_floats(arena, batch);
    td->loss = gpur_arena_floats(arena, batch);
    td->q_taken = gpur_arena_floats(arena, batch);
    td->invalid = gpur_arena_floats(arena, batch);
    td->batch = batch, td->z_pitch = step->online.pitch[last];
    td->head = step->network->head, td->outputs = step->network->outputs;
    td->wide_action = step->fields.wide_action, td->double_dqn = step->config.double_dqn;
    td->squared = step->config.loss == GPUR_LOSS_SQUARED, td->huber_delta = step->config.huber_delta;
}

void gpur_step_place(gpur_step *step, gpur_arena *arena)
{
    gpur_optimizer_place(&step->optimizer, arena);
    place_batch(step, arena);
    gpur_pass_place(&step->online, arena);
    gpur_pass_place(&step->target, arena);
    gpur_backward_place(&step->backward, arena);
    place_td_error(step, arena);
    step->workspace = gpur_arena_take(arena, workspace_bytes(step));
    if (!arena->base)
        return;
    step->online.sheet[0] = step->x;
    step->target.sheet[0] = gpur_input_row(&step->input, step->x, step->config.batch_size, step->online.pitch[0]);
    step->td.bias = step->optimizer.weights + step->network->head_bias;
    step->td.bias_target = step->optimizer.target + step->network->head_bias;
}

/* Sampling writes the ids to the array from which the gather reads them. */
static void connect_sampler(gpur_step *step)
{
    step->priorities = gpur_replay_priorities(step->replay);
    step->sampler = gpur_sampler_of(step->config.index_source);
    step->sample = (gpur_sample_args){
        .user = GPUR_USER_LEARNER,
        .seed = step->config.seed,
        .step = &step->optimizer.state->step,
        .beta = step->config.beta,
        .id = step->id,
        .leaf = step->leaf,
        .weight = step->weight,
    };
}

gpur_status gpur_step_connect(gpur_step *step)
{
    const int64_t batch = step->config.batch_size, direct = step->input.direct;
    const int64_t pitch = direct ? step->online.pitch[0] * (int64_t)sizeof(float) : step->input.raw_pitch;
    unsigned char *const next_raw = step->raw ? step->raw + batch * pitch : NULL;
    const gpur_draw_field fields[] = {
        {step->fields.obs, direct ? (void *)step->online.sheet[0] : step->raw, pitch},
        {step->fields.next_obs, direct ? (void *)step->target.sheet[0] : next_raw, pitch},
        {step->fields.action, step->action, step->fields.wide_action ? 8 : 4},
        {step->fields.reward, step->reward, sizeof(float)},
    };
    const gpur_draw_observed observed = {&step->input.args, step->online.sheet[0], step->target.sheet[0]};
    /* If is_observed, the gather preprocesses the first two fields through `observed` instead of copying them. */
    const int32_t all = sizeof fields / sizeof fields[0], made = step->is_observed ? 2 : 0;
    gpur_draw_request request;
    connect_sampler(step);
    memset(&request, 0, sizeof request);
    request.fields = fields + made, request.field_count = all - made;
    request.observed = step->is_observed ? &observed : NULL;
    request.source = step->sampler->gather_source;
    request.ids = step->id;
    request.rows = batch;
    request.id = step->id, request.weight = step->weight, request.discount = step->discount;
    request.seed = step->config.seed, request.purpose = step->sampler->purpose[GPUR_USER_LEARNER];
    request.step = &step->optimizer.state->step;
    request.links = step->links;
    GPUR_TRY(gpur_drawing_prepare(step->replay, &request, &step->draw));
    step->optimizer.window = step->draw.rows.window;
    request.source = GPUR_SOURCE_IDS;
    request.ids = step->ids;
    GPUR_TRY(gpur_drawing_prepare(step->replay, &request, &step->injected));
    if (!step->input.direct && !step->raw)
        return GPUR_OK; /* there are no host batches */
    request.fields = fields, request.field_count = all;
    return gpur_draw_prepare_packed(step->replay, &request, &step->brought);
}

/* Preprocesses the raw observations for the first layer. */
static gpur_status observe(const gpur_step *step, gpur_stream *stream)
{
    return gpur_input_run(&step->input, step->device, stream, 2 * step->config.batch_size, step->raw,
                          step->input.raw_pitch, step->x);
}

static gpur_status observe_drawn(const gpur_step *step, gpur_stream *stream)
{
    return step->is_observed ? GPUR_OK : observe(step, stream);
}

static gpur_status draw(const gpur_step *step, gpur_stream *stream)
{
    return gpur_sample_enqueue(step->replay, step->sampler, &step->sample, &step->draw, stream);
}

/* Writes the TD errors back as new priorities, unless `ids` is NULL. */
static gpur_status write_back(const gpur_step *step, gpur_stream *stream, const int64_t *ids)
{
    if (!ids)
        return GPUR_OK;
    return gpur_priorities_update(step->priorities, stream, step->config.batch_size, ids, step->td.td, 1);
}

/* Trains on x, which has been written. */
static gpur_status train(const gpur_step *step, gpur_stream *stream, const gpur_optimizer *optimizer,
                         const int64_t *new_priorities)
{
    const int64_t batch = step->config.batch_size;
    const gpur_step_results results = {step->td.loss, step->td.q_taken, step->td.invalid, batch};
    GPUR_TRY(gpur_pass_forward(&step->online, stream, step->online.rows, optimizer->weights, step->workspace));
    GPUR_TRY(gpur_pass_forward(&step->target, stream, batch, optimizer->target, step->workspace));
    GPUR_TRY(gpur_launch_td_error(stream, gpur_grid_elements(step->device, batch), &step->td));
    GPUR_TRY(write_back(step, stream, new_priorities));
    GPUR_TRY(gpur_backward_run(&step->backward, stream, optimizer->weights, optimizer->gradient, step->workspace));
    return gpur_optimizer_step(optimizer, stream, &results);
}

gpur_status gpur_step_warm_up(const gpur_step *step, gpur_stream *stream)
{
    GPUR_TRY(draw(step, stream));
    GPUR_TRY(observe_drawn(step, stream));
    return train(step, stream, &step->optimizer, NULL);
}

gpur_status gpur_step_record(void *context, gpur_stream *stream)
{
    const gpur_step *const step = context;
    GPUR_TRY(draw(step, stream));
    GPUR_TRY(observe_drawn(step, stream));
    return train(step, stream, &step->optimizer, step->sampler->is_by_priority ? step->id : NULL);
}

/* The caller holds the window lock (gpur_with_ids_locked). */
gpur_status gpur_step_record_ids(void *context, gpur_stream *stream)
{
    const gpur_step *const step = context;
    GPUR_TRY(gpur_drawing_launch(step->replay, stream, &step->injected));
    GPUR_TRY(observe_drawn(step, stream));
    return train(step, stream, &step->optimizer, step->priorities->device ? step->id : NULL);
}

/* The rows are the caller's: the optimizer must not skip the step if the replay is empty, so it gets the rows' own
 * window. */
gpur_status gpur_step_record_rows(void *context, gpur_stream *stream)
{
    const gpur_step_rows *const rows = context;
    gpur_optimizer optimizer = rows->step->optimizer;
    optimizer.window = rows->gather.window;
    const gpur_grid grid = gpur_draw_grid(rows->step->replay, rows->gather.batch);
    GPUR_TRY(gpur_launch_gather(stream, grid, &rows->gather));
    GPUR_TRY(observe(rows->step, stream));
    return train(rows->step, stream, &optimizer, NULL);
}
