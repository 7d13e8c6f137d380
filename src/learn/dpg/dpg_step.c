/* SPDX-License-Identifier: MIT */
/* The passes and the training of an actor in the train step of its critic. */
#include "learn/dpg/dpg.h"

static gpur_dpg *dpg_of(const gpur_train_step *step)
{
    return step->actor_state;
}

static gpur_status open(gpur_train_step *step)
{
    gpur_dpg *const dpg = dpg_of(step);
    const int64_t rows = step->batch.rows;
    gpur_optimizer_open(&dpg->actor_optimizer, step->device, &dpg->config.actor_optimizer, &dpg->actor.params);
    gpur_optimizer_set_target(&dpg->actor_optimizer, step->config.target_period, step->config.target_copy_first,
                              step->config.target_rate);
    GPUR_TRY(gpur_step_open_pass(step, &dpg->actor_pass, &dpg->actor, rows));
    GPUR_TRY(gpur_step_open_pass(step, &dpg->actor_target_pass, &dpg->actor, rows));
    GPUR_TRY(gpur_step_open_backward(step, &dpg->action_backward, &step->online, 1));
    return gpur_step_open_backward(step, &dpg->actor_backward, &dpg->actor_pass, 0);
}

static void assign(gpur_train_step *step, gpur_arena *arena)
{
    gpur_dpg *const dpg = dpg_of(step);
    gpur_optimizer_assign(&dpg->actor_optimizer, arena, NULL);
    dpg->q = gpur_arena_floats(arena, step->batch.rows);
    dpg->actor_pass.activations[0] = step->batch.x;
    dpg->actor_target_pass.activations[0] = step->batch.next_x;
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

static gpur_status act_by_target(const gpur_train_step *step, const gpur_track *track)
{
    return act(step, track, &dpg_of(step)->actor_target_pass, dpg_of(step)->actor_optimizer.target);
}

/* Enqueues the gradient by the actor's outputs, from dQ / da. */
static gpur_status action_gradient(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const gpur_pass *const critic = &step->online;
    const int32_t last = step->network->activation_count - 1, actor_last = dpg->actor.activation_count - 1;
    const int32_t features = dpg->actor.width[0];
    const gpur_action_gradient_args args = {
        .z = critic->activations[last],
        .bias = step->critics.bias,
        .action = critic->activations[0] + features,
        .slope = dpg->action_backward.gradients[0] + features,
        .actor_z = dpg->actor_pass.activations[actor_last],
        .actor_bias = dpg->actor_optimizer.weights + dpg->actor.head_bias,
        .q = dpg->q,
        .dz = dpg->actor_backward.gradients[actor_last],
        .batch = critic->rows,
        .z_pitch = critic->pitch[last],
        .action_pitch = critic->pitch[0],
        .actor_pitch = dpg->actor_pass.pitch[actor_last],
        .num_actions = dpg->actor.num_actions,
        .clip = dpg->config.action_gradient_clip,
        .penalty = dpg->config.preactivation_penalty,
    };
    return gpur_launch_action_gradient(stream, gpur_grid_elements(step->device, args.batch), &args);
}

/* By the critic that has just been trained. */
static gpur_status train(const gpur_train_step *step, const gpur_track *track, const int64_t *drawable)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const gpur_train_step_results results = {NULL, dpg->q, NULL, NULL, step->batch.rows};
    const float *const critic = step->optimizer.weights;
    gpur_optimizer optimizer = dpg->actor_optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(act(step, track, &dpg->actor_pass, optimizer.weights));
    GPUR_TRY(gpur_pass_forward(&step->online, track->stream, step->batch.rows, critic, track->workspace));
    GPUR_TRY(gpur_backward_run(&dpg->action_backward, track, &step->side, critic, NULL));
    GPUR_TRY(action_gradient(step, track->stream));
    GPUR_TRY(gpur_backward_run(&dpg->actor_backward, track, &step->side, optimizer.weights, optimizer.gradient));
    return gpur_optimizer_step(&optimizer, track->stream, &results);
}

/* The gradient of Q by itself is 1, which the passes back from it never change. */
static gpur_status start(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const int32_t last = step->network->activation_count - 1;
    const int64_t rows = step->batch.rows, count = rows * step->online.pitch[last];
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

const gpur_step_actor gpur_dpg_step_actor = {
    .open = open,
    .assign = assign,
    .start = start,
    .act = act_by_target,
    .train = train,
};
