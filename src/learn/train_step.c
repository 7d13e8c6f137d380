/* SPDX-License-Identifier: MIT */
/* Opens and records the train step on a replay. */
#include "learn/train_step.h"

#include "base/numbers.h"
#include "learn/returns/return_cache.h"
#include "replay/view.h"

#include <string.h>

static int64_t ids_bytes(const gpur_train_step *step)
{
    return step->config.takes_ids ? step->config.batch_size * (int64_t)sizeof *step->ids : 0;
}

gpur_status gpur_step_open_pass(gpur_train_step *step, gpur_pass *pass, const gpur_network *network, int64_t rows)
{
    const gpur_pass_options options = gpur_pass_options_of(step->config.math);
    step->passes[step->pass_count++] = pass;
    GPUR_TRY(gpur_pass_open(pass, step->device, network, rows, step->batch.x_pitch, &options));
    step->workspace_bytes = gpur_max(step->workspace_bytes, pass->workspace);
    return GPUR_OK;
}

gpur_status gpur_step_open_backward(gpur_train_step *step, gpur_backward *backward, const gpur_pass *pass,
                                    int32_t by_input)
{
    step->backwards[step->backward_count++] = backward;
    GPUR_TRY(gpur_backward_open(backward, pass, step->batch.rows, by_input));
    step->workspace_bytes = gpur_max(step->workspace_bytes, backward->workspace);
    return GPUR_OK;
}

static gpur_status open_passes(gpur_train_step *step)
{
    const int64_t rows = step->batch.rows;
    GPUR_TRY(gpur_step_open_pass(step, &step->online, step->network, step->config.double_dqn ? 2 * rows : rows));
    if (step->cache) /* refreshes have the workspace, too */
        step->workspace_bytes = gpur_max(step->workspace_bytes, step->cache->values.workspace);
    else
        GPUR_TRY(gpur_step_open_pass(step, &step->target, step->network, rows));
    GPUR_TRY(gpur_step_open_backward(step, &step->backward, &step->online, 0));
    return step->actor ? step->actor->open(step) : GPUR_OK;
}

/* Train steps between copies to the target. */
static int64_t target_steps(const gpur_step_config *config)
{
    return gpur_min(config->target_period, INT64_MAX / config->policy_delay) * config->policy_delay;
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_train_step *const step = part;
    void *ids = NULL;
    step->device = context->device;
    step->network = context->network;
    step->config = context->step_config;
    step->cache = context->cache;
    step->actor = context->actor;
    step->actor_state = context->actor_state;
    const gpur_step_config *const config = &step->config;
    gpur_train_batch_open(&step->batch, context, config->batch_size, config->wants);
    gpur_optimizer_open(&step->optimizer, step->device, &config->optimizer, &step->network->params);
    if (!step->cache)
        gpur_optimizer_set_target(&step->optimizer, target_steps(config), config->target_copy_first,
                                  config->target_rate);
    GPUR_TRY(gpur_side_open(&step->side, step->device));
    GPUR_TRY(open_passes(step));
    if (!config->takes_ids)
        return GPUR_OK;
    GPUR_TRY(gpur_event_create(step->device, &step->ids_copied));
    GPUR_TRY(gpur_pinned_alloc(step->device, ids_bytes(step), "the ids of a train step", &ids));
    step->host_ids = ids;
    return GPUR_OK;
}

static void close(void *part)
{
    gpur_train_step *const step = part;
    gpur_graph_destroy(step->sampled.train);
    gpur_graph_destroy(step->single[0].graph);
    gpur_graph_destroy(step->single[1].graph);
    gpur_graph_destroy(step->by_ids.train);
    for (int32_t i = 0; i < step->backward_count; i++)
        gpur_backward_close(step->backwards[i]);
    for (int32_t i = 0; i < step->pass_count; i++)
        gpur_pass_close(step->passes[i]);
    gpur_side_close(&step->side);
    gpur_event_destroy(step->ids_copied);
    gpur_pinned_free(step->device, step->host_ids);
}

static void assign_rows(gpur_train_step *step, gpur_arena *arena)
{
    const int64_t rows = step->batch.rows;
    step->rows.td = gpur_arena_floats(arena, rows);
    step->rows.loss = gpur_arena_floats(arena, rows);
    step->rows.q_taken = gpur_arena_floats(arena, rows);
    step->rows.invalid = gpur_arena_floats(arena, rows);
    if (step->cache)
        step->rows.missing = gpur_arena_floats(arena, rows);
}

/* What td_error reads and writes. The last activations of both passes have the same pitch, because they have the same
 * width. */
static void assign_td_error(gpur_train_step *step, gpur_arena *arena)
{
    const gpur_train_batch *const batch = &step->batch;
    const gpur_network *const network = step->network;
    const int32_t last = network->activation_count - 1;
    const int64_t rows = batch->rows, actions = network->num_actions;
    gpur_td_error_args *const td = &step->td;
    td->z = step->online.activations[last], td->z_target = step->target.activations[last];
    td->weight = batch->weight, td->reward = batch->reward, td->discount = batch->discount;
    td->q = gpur_arena_floats(arena, step->online.rows * actions);
    td->q_target = step->cache ? NULL : gpur_arena_floats(arena, rows * actions);
    td->dq = gpur_arena_floats(arena, rows * actions);
    td->dz = step->backward.gradients[last];
    td->td = step->rows.td, td->loss = step->rows.loss, td->q_taken = step->rows.q_taken;
    td->invalid = step->rows.invalid, td->missing = step->rows.missing;
    if (step->cache) {
        td->reward = step->cache->drawn_value;
        td->id = batch->id;
    }
    td->batch = rows, td->z_pitch = step->online.pitch[last];
    td->head = network->head, td->num_actions = network->num_actions;
    td->next_mask = batch->next_mask;
    td->action = batch->action, td->action_is_int64 = batch->fields.action_is_int64;
    td->double_dqn = step->config.double_dqn;
    td->loss_kind = step->config.loss == GPUR_LOSS_SQUARED, td->huber_delta = step->config.huber_delta;
    if (!arena->base)
        return;
    td->bias = step->optimizer.weights + network->head_bias;
    td->bias_target = step->cache ? NULL : step->optimizer.target + network->head_bias;
}

/* What critic_error reads and writes. The actions are in the critics' input. */
static void assign_critic_error(gpur_train_step *step)
{
    const gpur_train_batch *const batch = &step->batch;
    const gpur_network *const network = step->network;
    const int32_t last = network->activation_count - 1;
    step->critics = (gpur_critic_error_args){
        .z = step->online.activations[last],
        .z_target = step->target.activations[last],
        .bias = step->optimizer.weights + network->head_bias,
        .bias_target = step->optimizer.target + network->head_bias,
        .action = batch->x + batch->fields.obs_format.features,
        .reward = batch->reward,
        .discount = batch->discount,
        .weight = batch->weight,
        .dz = step->backward.gradients[last],
        .td = step->rows.td,
        .loss = step->rows.loss,
        .q_taken = step->rows.q_taken,
        .invalid = step->rows.invalid,
        .batch = batch->rows,
        .z_pitch = step->online.pitch[last],
        .action_pitch = batch->x_pitch,
        .critics = network->copies,
        .num_actions = batch->fields.action_floats,
    };
}

/* What distribution_error reads and writes beside what td_error does. */
static void assign_distribution(gpur_train_step *step, gpur_arena *arena)
{
    gpur_distribution_error_args *const a = &step->distribution;
    const int64_t numbers = step->batch.rows * step->network->distribution.atoms;
    a->td = step->td;
    a->distribution = step->network->distribution;
    a->target = gpur_arena_floats(arena, numbers);
    a->atom_loss = gpur_arena_floats(arena, numbers);
}

static void assign_critic_distribution(gpur_train_step *step, gpur_arena *arena)
{
    gpur_critic_distribution_error_args *const a = &step->critic_distributions;
    const int64_t numbers = step->batch.rows * step->network->distribution.atoms;
    a->critic = step->critics;
    a->distribution = step->network->distribution;
    a->head = step->network->head;
    a->kappa = step->config.huber_delta;
    a->target = gpur_arena_floats(arena, numbers);
    a->atom_loss = gpur_arena_floats(arena, step->network->copies * numbers);
}

static int samples_by_priority(const gpur_step_config *config)
{
    return gpur_sampler_of(config->index_source)->is_by_priority ||
           (config->demonstrations && gpur_sampler_of(config->demonstration_source)->is_by_priority);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_train_step *const step = part;
    gpur_optimizer_assign(&step->optimizer, arena, NULL);
    gpur_train_batch_assign(&step->batch, arena);
    if (step->config.takes_ids)
        step->ids = gpur_arena_alloc(arena, ids_bytes(step));
    if (samples_by_priority(&step->config))
        step->leaf = gpur_arena_alloc(arena, step->batch.rows * (int64_t)sizeof *step->leaf);
    for (int32_t i = 0; i < step->pass_count; i++)
        gpur_pass_assign(step->passes[i], arena);
    for (int32_t i = 0; i < step->backward_count; i++)
        gpur_backward_assign(step->backwards[i], arena);
    step->online.activations[0] = step->batch.x;
    step->target.activations[0] = step->batch.next_x;
    assign_rows(step, arena);
    if (!step->batch.fields.action_floats) {
        assign_td_error(step, arena);
        assign_distribution(step, arena);
    } else {
        if (arena->base)
            assign_critic_error(step);
        assign_critic_distribution(step, arena);
    }
    if (step->actor)
        step->actor->assign(step, arena);
    step->workspace = gpur_arena_alloc(arena, step->workspace_bytes);
    if (step->side.stream)
        step->side.workspace = gpur_arena_alloc(arena, step->workspace_bytes);
}

/* Plans samples to a batch, which is the step's or a part of it. */
static gpur_status connect_samples(const gpur_train_step *step, gpur_batch_source *source,
                                   const gpur_train_batch *batch, int32_t index_source, gpur_sample_user user)
{
    const gpur_sample_args sample = {
        .user = user,
        .seed = step->config.seed,
        .beta = step->config.beta,
        .step = &step->optimizer.state->step,
        .id = batch->id,
        .leaf = step->leaf, /* scratch memory: the parts use it one after the other */
        .weight = batch->weight,
    };
    return gpur_batch_source_of_samples(source, step, batch, index_source, &sample);
}

/* The first rows of the batch are the replay's, the last ones demonstrations. */
static gpur_status connect_both(gpur_train_step *step)
{
    const gpur_step_config *const c = &step->config;
    const int64_t own = c->batch_size - c->demonstration_rows;
    step->parts[0] = gpur_train_batch_part(&step->batch, step->batch.replay, &step->batch.fields, 0, own);
    step->parts[1] =
        gpur_train_batch_part(&step->batch, c->demonstrations, &c->demonstrated, own, c->demonstration_rows);
    GPUR_TRY(connect_samples(step, &step->demonstrations, &step->parts[1], c->demonstration_source,
                             GPUR_USER_DEMONSTRATIONS));
    GPUR_TRY(connect_samples(step, &step->sampled, &step->parts[0], c->index_source, GPUR_USER_LEARNER));
    step->sampled.beside = &step->demonstrations;
    return GPUR_OK;
}

/* A cache of returns, which is connected before, has set the source. */
static gpur_status connect(void *part)
{
    gpur_train_step *const step = part;
    if (step->config.demonstrations)
        GPUR_TRY(connect_both(step));
    else if (!step->cache)
        GPUR_TRY(connect_samples(step, &step->sampled, &step->batch, step->config.index_source, GPUR_USER_LEARNER));
    step->optimizer.drawable = step->sampled.drawable;
    return step->config.takes_ids ? gpur_batch_source_of_ids(&step->by_ids, step, &step->batch, step->ids) : GPUR_OK;
}

/* The target network's pass, if there is one, and beside it the online network's. */
static gpur_status forward(const gpur_train_step *step, const gpur_track *track)
{
    const gpur_optimizer *const o = &step->optimizer;
    gpur_track beside;
    GPUR_TRY(gpur_side_fork(&step->side, track, &beside));
    if (step->actor)
        GPUR_TRY(step->actor->act(step, &beside));
    if (!step->cache)
        GPUR_TRY(gpur_pass_forward(&step->target, beside.stream, step->batch.rows, o->target, beside.workspace));
    GPUR_TRY(gpur_pass_forward(&step->online, track->stream, step->online.rows, o->weights, track->workspace));
    return gpur_side_join(&step->side, track->stream);
}

/* td_error and critic_error have blocks of one warp, since a warp's loads are of many rows and keep a multiprocessor
 * busy. A row of a distribution's loss is a block's. */
static gpur_status launch_loss(const gpur_train_step *step, gpur_stream *stream)
{
    const int64_t rows = step->batch.rows, bytes = step->online.pitch[step->network->activation_count - 1] * 4;
    const gpur_grid grid = gpur_grid_rows(step->device, (rows + 31) / 32, 1, 32 * 8);
    const gpur_grid of_rows = gpur_grid_rows(step->device, rows, 1, bytes);
    const int has_vectors = step->batch.fields.action_floats > 0;
    if (step->network->distribution.atoms > 0)
        return has_vectors ? gpur_launch_critic_distribution_error(stream, of_rows, &step->critic_distributions)
                           : gpur_launch_distribution_error(stream, of_rows, &step->distribution);
    return has_vectors ? gpur_launch_critic_error(stream, grid, &step->critics)
                       : gpur_launch_td_error(stream, grid, &step->td);
}

/* Changes nothing if `drawable`, (1) in device memory, is 0. */
static gpur_status train_network(const gpur_train_step *step, const gpur_track *track, const int64_t *drawable)
{
    const gpur_step_rows *const rows = &step->rows;
    const gpur_train_step_results results = {rows->loss, rows->q_taken, rows->invalid, rows->missing, step->batch.rows};
    gpur_optimizer optimizer = step->optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(forward(step, track));
    GPUR_TRY(launch_loss(step, track->stream));
    GPUR_TRY(gpur_backward_run(&step->backward, track, &step->side, optimizer.weights, optimizer.gradient));
    return gpur_optimizer_step(&optimizer, track->stream, &results);
}

/* Trains on the batch, whose rows have been gathered. */
static gpur_status train(const gpur_batch_source *source, int trains_actor, gpur_stream *stream)
{
    const gpur_train_step *const step = source->step;
    const gpur_train_batch *const batch = &step->batch;
    const gpur_track track = {stream, step->workspace};
    if (source->is_raw)
        GPUR_TRY(gpur_input_run(&batch->input, step->device, stream, batch->observations * batch->rows, batch->raw,
                                batch->input.raw_pitch, batch->x));
    GPUR_TRY(train_network(step, &track, source->drawable));
    return step->actor && trains_actor ? step->actor->train(step, &track, source->drawable) : GPUR_OK;
}

static gpur_status write_priorities(const gpur_batch_source *source, gpur_stream *stream)
{
    const gpur_train_batch *const batch = source->batch;
    if (!source->has_feedback)
        return GPUR_OK;
    return gpur_priorities_update(gpur_replay_priorities(batch->replay), stream, batch->rows, batch->id,
                                  source->step->rows.td + batch->first_row, 1);
}

/* A step on rows that have been gathered. */
static gpur_status record_rest(const gpur_batch_source *source, int trains_actor, gpur_stream *stream)
{
    GPUR_TRY(train(source, trains_actor, stream));
    GPUR_TRY(write_priorities(source, stream));
    return source->beside ? write_priorities(source->beside, stream) : GPUR_OK;
}

static gpur_status record_gathered(void *context, gpur_stream *stream)
{
    return record_rest(context, 1, stream);
}

static gpur_status record_single(void *context, gpur_stream *stream)
{
    const gpur_single_step *const single = context;
    GPUR_TRY(gpur_batch_source_gather(single->source, stream));
    return record_rest(single->source, single->trains_actor, stream);
}

gpur_status gpur_train_step_record(void *context, gpur_stream *stream)
{
    const gpur_batch_source *const source = context;
    const int32_t delay = source->step->config.policy_delay;
    for (int32_t i = 1; i <= delay; i++) {
        gpur_single_step single = {source, i == delay, NULL};
        GPUR_TRY(record_single(&single, stream));
    }
    return GPUR_OK;
}

static gpur_status record_samples(gpur_train_step *step)
{
    const int32_t delay = step->config.policy_delay, cycles = (int32_t)gpur_max(1, GPUR_GRAPH_STEPS / delay);
    GPUR_TRY(gpur_graph_create(step->device, gpur_train_step_record, &step->sampled, cycles, &step->sampled.train));
    for (int32_t i = 0; i < 2 && delay > 1; i++) {
        step->single[i] = (gpur_single_step){&step->sampled, i, NULL};
        GPUR_TRY(gpur_graph_create(step->device, record_single, &step->single[i], 1, &step->single[i].graph));
    }
    return GPUR_OK;
}

/* Steps one by one, up to the next that trains the actor; then whole cycles, which end in such a step; then the rest.
 * */
gpur_status gpur_train_step_launch(const gpur_train_step *step, gpur_stream *stream, int64_t done, int64_t steps)
{
    const int64_t delay = step->config.policy_delay, end = done + steps;
    for (; done < end && done % delay != 0; done++)
        GPUR_TRY(gpur_graph_launch(step->single[(done + 1) % delay == 0].graph, stream, 1));
    GPUR_TRY(gpur_graph_launch(step->sampled.train, stream, (end - done) / delay));
    const int64_t rest = (end - done) % delay;
    return rest > 0 ? gpur_graph_launch(step->single[0].graph, stream, rest) : GPUR_OK;
}

static gpur_status start(void *part, gpur_stream *stream)
{
    gpur_train_step *const step = part;
    if (step->actor)
        GPUR_TRY(step->actor->start(step, stream));
    if (!step->config.is_fused)
        GPUR_TRY(record_samples(step));
    if (!step->config.takes_ids)
        return GPUR_OK;
    return gpur_graph_create(step->device, record_gathered, &step->by_ids, 1, &step->by_ids.train);
}

static int64_t pinned_bytes(const void *part)
{
    return ids_bytes(part);
}

const gpur_part gpur_step_part = {
    .open = open,
    .assign = assign,
    .connect = connect,
    .start = start,
    .close = close,
    .pinned_bytes = pinned_bytes,
};

gpur_status gpur_step_upload_ids(gpur_train_step *step, gpur_stream *stream, const int64_t *ids)
{
    GPUR_TRY(gpur_event_sync(step->ids_copied)); /* the ids of the call before have left the pinned memory */
    memcpy(step->host_ids, ids, (size_t)ids_bytes(step));
    GPUR_TRY(gpur_copy(stream, step->ids, step->host_ids, ids_bytes(step)));
    return gpur_event_record(step->ids_copied, stream);
}

static gpur_status gather_and_train(void *context, gpur_stream *stream)
{
    GPUR_TRY(gpur_batch_source_gather(context, stream));
    return train(context, 1, stream);
}

gpur_status gpur_train_step_warm_up(gpur_train_step *step, gpur_stream *stream)
{
    return gpur_run_first(stream, gather_and_train, &step->sampled);
}
