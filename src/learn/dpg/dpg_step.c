/* SPDX-License-Identifier: MIT */
/* The passes, losses and backward passes of an actor and a critic over a batch. */
#include "learn/dpg/dpg_step.h"

static gpur_status open(gpur_train_step *step)
{
    gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const gpur_step_config *const config = &step->config;
    const int64_t rows = step->batch.rows;
    gpur_optimizer_open(&dpg->actor_optimizer, step->device, &dpg->config->actor_optimizer, &dpg->actor->params);
    gpur_optimizer_set_target(&dpg->actor_optimizer, config->target_period, config->target_copy_first);
    GPUR_TRY(gpur_step_open_pass(step, &dpg->critic_pass, step->network, rows));
    GPUR_TRY(gpur_step_open_pass(step, &dpg->critic_target_pass, step->network, rows));
    GPUR_TRY(gpur_step_open_pass(step, &dpg->actor_pass, dpg->actor, rows));
    GPUR_TRY(gpur_step_open_pass(step, &dpg->actor_target_pass, dpg->actor, rows));
    GPUR_TRY(gpur_step_open_backward(step, &dpg->critic_backward, &dpg->critic_pass, 0));
    GPUR_TRY(gpur_step_open_backward(step, &dpg->action_backward, &dpg->critic_pass, 1));
    return gpur_step_open_backward(step, &dpg->actor_backward, &dpg->actor_pass, 0);
}

/* The critic has one value, which is that of the action in its input. */
static void assign(gpur_train_step *step, gpur_arena *arena)
{
    gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const gpur_train_batch *const batch = &step->batch;
    gpur_td_error_args *const td = &dpg->td;
    gpur_optimizer_assign(&dpg->actor_optimizer, arena, NULL);
    dpg->q = gpur_arena_floats(arena, batch->rows);
    gpur_step_assign_td_error(step, arena, &dpg->critic_pass, &dpg->critic_target_pass, &dpg->critic_backward, td);
    td->action = batch->x ? batch->x + dpg->actor->width[0] : NULL; /* NULL while memory is measured */
    td->vector_pitch = (int32_t)batch->x_pitch;
    td->vector_size = dpg->actor->num_actions;
    td->loss_kind = 1; /* squared */
    dpg->critic_pass.activations[0] = dpg->actor_pass.activations[0] = batch->x;
    dpg->critic_target_pass.activations[0] = dpg->actor_target_pass.activations[0] = batch->next_x;
}

/* The actor's pass, and its actions into the critic's input. */
static gpur_status act(const gpur_train_step *step, const gpur_track *track, const gpur_pass *pass,
                       const float *weights)
{
    const gpur_network *const actor = pass->network;
    const int32_t last = actor->activation_count - 1;
    const gpur_head_forward_args head = {
        .z = pass->activations[last],
        .bias = weights + actor->head_bias,
        .y = pass->activations[0] + actor->width[0],
        .batch = pass->rows,
        .z_pitch = pass->pitch[last],
        .y_pitch = pass->pitch[0],
        .head = actor->head,
        .num_actions = actor->num_actions,
    };
    GPUR_TRY(gpur_pass_forward(pass, track->stream, pass->rows, weights, track->workspace));
    return gpur_launch_head_forward(track->stream, gpur_grid_elements(step->device, pass->rows), &head);
}

/* Q'(s', mu'(s')), and beside it Q(s, a). */
static gpur_status forward(const gpur_train_step *step, const gpur_track *track)
{
    const gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const gpur_optimizer *const critic = &step->optimizer;
    gpur_track beside;
    GPUR_TRY(gpur_side_fork(&step->side, track, &beside));
    GPUR_TRY(act(step, &beside, &dpg->actor_target_pass, dpg->actor_optimizer.target));
    GPUR_TRY(
        gpur_pass_forward(&dpg->critic_target_pass, beside.stream, step->batch.rows, critic->target, beside.workspace));
    GPUR_TRY(gpur_pass_forward(&dpg->critic_pass, track->stream, step->batch.rows, critic->weights, track->workspace));
    return gpur_side_join(&step->side, track->stream);
}

static gpur_status train_critic(const gpur_train_step *step, const gpur_track *track, const int64_t *drawable)
{
    const gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const int64_t rows = step->batch.rows;
    const gpur_train_step_results results = {dpg->td.loss, dpg->td.q_taken, dpg->td.invalid, NULL, rows};
    gpur_optimizer optimizer = step->optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(forward(step, track));
    GPUR_TRY(gpur_launch_td_error(track->stream, gpur_td_error_grid(step->device, rows), &dpg->td));
    GPUR_TRY(gpur_backward_run(&dpg->critic_backward, track, &step->side, optimizer.weights, optimizer.gradient));
    return gpur_optimizer_step(&optimizer, track->stream, &results);
}

/* Enqueues the gradient by the actor's outputs, from dQ / da. */
static gpur_status action_gradient(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const gpur_pass *const critic = &dpg->critic_pass;
    const int32_t last = step->network->activation_count - 1, actor_last = dpg->actor->activation_count - 1;
    const int32_t features = dpg->actor->width[0];
    const gpur_action_gradient_args args = {
        .z = critic->activations[last],
        .bias = dpg->td.bias,
        .action = critic->activations[0] + features,
        .slope = dpg->action_backward.gradients[0] + features,
        .actor_z = dpg->actor_pass.activations[actor_last],
        .actor_bias = dpg->actor_optimizer.weights + dpg->actor->head_bias,
        .q = dpg->q,
        .dz = dpg->actor_backward.gradients[actor_last],
        .batch = critic->rows,
        .z_pitch = critic->pitch[last],
        .action_pitch = critic->pitch[0],
        .actor_pitch = dpg->actor_pass.pitch[actor_last],
        .num_actions = dpg->actor->num_actions,
        .clip = dpg->config->action_gradient_clip,
        .penalty = dpg->config->preactivation_penalty,
    };
    return gpur_launch_action_gradient(stream, gpur_grid_elements(step->device, args.batch), &args);
}

/* By the critic that has just been trained. */
static gpur_status train_actor(const gpur_train_step *step, const gpur_track *track, const int64_t *drawable)
{
    const gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const gpur_train_step_results results = {NULL, dpg->q, NULL, NULL, step->batch.rows};
    const float *const critic = step->optimizer.weights;
    gpur_optimizer optimizer = dpg->actor_optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(act(step, track, &dpg->actor_pass, optimizer.weights));
    GPUR_TRY(gpur_pass_forward(&dpg->critic_pass, track->stream, step->batch.rows, critic, track->workspace));
    GPUR_TRY(gpur_backward_run(&dpg->action_backward, track, &step->side, critic, NULL));
    GPUR_TRY(action_gradient(step, track->stream));
    GPUR_TRY(gpur_backward_run(&dpg->actor_backward, track, &step->side, optimizer.weights, optimizer.gradient));
    return gpur_optimizer_step(&optimizer, track->stream, &results);
}

static gpur_status train(const gpur_train_step *step, gpur_stream *stream, const int64_t *drawable)
{
    const gpur_track track = {stream, step->workspace};
    GPUR_TRY(train_critic(step, &track, drawable));
    return train_actor(step, &track, drawable);
}

static const float *errors(const gpur_train_step *step)
{
    return gpur_dpg_step_of(step)->td.td;
}

/* The gradient of Q by itself is 1, which the passes back from it never change. */
static gpur_status start(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_dpg_step *const dpg = gpur_dpg_step_of(step);
    const int32_t last = step->network->activation_count - 1;
    const int64_t rows = step->batch.rows, count = rows * dpg->critic_pass.pitch[last];
    const size_t bytes = (size_t)count * sizeof(float);
    float *const ones = gpur_host_alloc(step->device, bytes);
    if (!ones)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of a train step's constants", bytes);
    for (int64_t i = 0; i < count; i++)
        ones[i] = 1.0f;
    const gpur_status status =
        gpur_stream_finish(stream, gpur_copy(stream, dpg->action_backward.gradients[last], ones, (int64_t)bytes));
    gpur_host_free(step->device, ones, bytes);
    return status;
}

const gpur_step_algorithm gpur_dpg_step_algorithm = {
    .open = open,
    .assign = assign,
    .start = start,
    .train = train,
    .errors = errors,
};
