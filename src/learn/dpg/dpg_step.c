/* SPDX-License-Identifier: MIT */
/* The passes and the training of an actor in the train step of its critic. */
#include "learn/dpg/dpg.h"

static gpur_dpg *dpg_of(const gpur_train_step *step)
{
    return step->actor_state;
}

/* The pass that values the actor's actions: that of the critic, or of the first one. */
static const gpur_pass *value_pass(const gpur_train_step *step)
{
    return dpg_of(step)->critic.copies > 1 ? &dpg_of(step)->first_pass : &step->online;
}

static gpur_status open(gpur_train_step *step)
{
    gpur_dpg *const dpg = dpg_of(step);
    const int64_t rows = step->batch.rows;
    gpur_optimizer_open(&dpg->actor_optimizer, step->device, &dpg->config.actor_optimizer, &dpg->actor.params);
    gpur_optimizer_set_target(&dpg->actor_optimizer, step->config.target_period, /* it counts its own trainings */
                              step->config.target_copy_first, step->config.target_rate);
    GPUR_TRY(gpur_step_open_pass(step, &dpg->actor_pass, &dpg->actor, rows));
    GPUR_TRY(gpur_step_open_pass(step, &dpg->actor_target_pass, &dpg->actor, rows));
    if (dpg->critic.copies > 1)
        GPUR_TRY(gpur_step_open_pass(step, &dpg->first_pass, &dpg->first, rows));
    GPUR_TRY(gpur_step_open_backward(step, &dpg->action_backward, value_pass(step), dpg->actor.num_actions));
    return gpur_step_open_backward(step, &dpg->actor_backward, &dpg->actor_pass, 0);
}

static void assign(gpur_train_step *step, gpur_arena *arena)
{
    gpur_dpg *const dpg = dpg_of(step);
    gpur_optimizer_assign(&dpg->actor_optimizer, arena, NULL);
    dpg->q = gpur_arena_floats(arena, step->batch.rows);
    dpg->actor_pass.activations[0] = step->batch.x;
    dpg->actor_target_pass.activations[0] = step->batch.next_x;
    dpg->first_pass.activations[0] = step->batch.x;
}

/* The actor's actions into the critic's input, from its outputs before the head. */
static gpur_status write_actions(const gpur_train_step *step, gpur_stream *stream, const gpur_pass *pass,
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
    return gpur_launch_head_forward(stream, gpur_grid_elements(step->device, pass->rows), &head);
}

/* The same with the noise of target policy smoothing. */
static gpur_status write_noisy_actions(const gpur_train_step *step, gpur_stream *stream, const gpur_pass *pass,
                                       const float *weights)
{
    const gpur_dpg_config *const config = &dpg_of(step)->config;
    const gpur_network *const actor = pass->network;
    const int32_t last = actor->activation_count - 1;
    const gpur_target_action_args args = {
        .z = pass->activations[last],
        .bias = weights + actor->head_bias,
        .state = step->optimizer.state,
        .y = pass->activations[0] + actor->width[0],
        .batch = pass->rows,
        .z_pitch = pass->pitch[last],
        .y_pitch = pass->pitch[0],
        .num_actions = actor->num_actions,
        .sigma = config->target_noise,
        .clip = config->target_noise_clip,
        .seed = config->seed,
    };
    return gpur_launch_target_action(stream, gpur_grid_elements(step->device, pass->rows), &args);
}

static gpur_status act_by_target(const gpur_train_step *step, const gpur_track *track)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const gpur_pass *const pass = &dpg->actor_target_pass;
    const float *const weights = dpg->actor_optimizer.target;
    GPUR_TRY(gpur_pass_forward(pass, track->stream, pass->rows, weights, track->workspace));
    return dpg->config.target_noise > 0.0f ? write_noisy_actions(step, track->stream, pass, weights)
                                           : write_actions(step, track->stream, pass, weights);
}

/* Enqueues the gradient by the actor's outputs, from dQ / da. */
static gpur_status action_gradient(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const gpur_pass *const critic = value_pass(step);
    const int32_t last = step->network->activation_count - 1, actor_last = dpg->actor.activation_count - 1;
    const int32_t features = dpg->actor.width[0];
    const gpur_action_gradient_args args = {
        .z = critic->activations[last],
        .bias = step->critics.bias,
        .action = critic->activations[0] + features,
        .slope = dpg->action_backward.gradients[0] + features,
        .actor_z = dpg->actor_pass.activations[actor_last],
        .actor_bias = dpg->actor_optimizer.weights + dpg->actor.head_bias,
        .q = dpg->critic.distribution.atoms > 0 ? NULL : dpg->q,
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

/* Enqueues the gradient of Q by the critic's outputs, if it is not 1 as of a value. */
static gpur_status value_gradient(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const gpur_pass *const critic = value_pass(step);
    const int32_t last = step->network->activation_count - 1;
    const gpur_distribution_slope_args args = {
        .z = critic->activations[last],
        .bias = step->critics.bias,
        .q = dpg->q,
        .dz = dpg->action_backward.gradients[last],
        .batch = critic->rows,
        .z_pitch = critic->pitch[last],
        .distribution = dpg->critic.distribution,
        .head = dpg->critic.head,
    };
    if (args.distribution.atoms == 0)
        return GPUR_OK;
    return gpur_launch_distribution_slope(stream, gpur_grid_elements(step->device, args.batch), &args);
}

/* By the critic that has just been trained, of two by the first one. */
static gpur_status train(const gpur_train_step *step, const gpur_track *track, const int64_t *drawable)
{
    const gpur_dpg *const dpg = dpg_of(step);
    const gpur_train_step_results results = {NULL, dpg->q, NULL, NULL, step->batch.rows};
    const gpur_pass *const actor = &dpg->actor_pass, *const critic_pass = value_pass(step);
    const float *const critic = step->optimizer.weights;
    gpur_optimizer optimizer = dpg->actor_optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(gpur_pass_forward(actor, track->stream, actor->rows, optimizer.weights, track->workspace));
    GPUR_TRY(write_actions(step, track->stream, actor, optimizer.weights));
    GPUR_TRY(gpur_pass_forward(critic_pass, track->stream, critic_pass->rows, critic, track->workspace));
    GPUR_TRY(value_gradient(step, track->stream));
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
    const int64_t rows = step->batch.rows, count = rows * value_pass(step)->pitch[last];
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
