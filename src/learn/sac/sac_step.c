/* SPDX-License-Identifier: MIT */
/* The passes and the training of an actor and a temperature in the train step of their critics. */
#include "learn/sac/sac.h"

static gpur_sac *sac_of(const gpur_train_step *step)
{
    return step->actor_state;
}

static gpur_status open(gpur_train_step *step)
{
    gpur_sac *const sac = sac_of(step);
    gpur_optimizer_open(&sac->actor_optimizer, step->device, &sac->config.actor_optimizer, &sac->actor.params);
    gpur_optimizer_open(&sac->temperature_optimizer, step->device, &sac->config.temperature_optimizer,
                        &sac->temperature.params);
    GPUR_TRY(gpur_step_open_pass(step, &sac->actor_pass, &sac->actor, 2 * step->batch.rows));
    GPUR_TRY(gpur_step_open_backward(step, &sac->action_backward, &step->online, sac->actor.num_actions));
    return gpur_step_open_backward(step, &sac->actor_backward, &sac->actor_pass, 0);
}

static void assign(gpur_train_step *step, gpur_arena *arena)
{
    gpur_sac *const sac = sac_of(step);
    const int64_t rows = step->batch.rows;
    gpur_optimizer_assign(&sac->actor_optimizer, arena, NULL);
    gpur_optimizer_assign(&sac->temperature_optimizer, arena, NULL);
    sac->noise = gpur_arena_floats(arena, 2 * rows * sac->actor.num_actions);
    sac->log_prob = gpur_arena_floats(arena, 2 * rows);
    sac->next_entropy = gpur_arena_floats(arena, rows);
    sac->policy_loss = gpur_arena_floats(arena, rows);
    sac->entropy = gpur_arena_floats(arena, rows);
    sac->temperature_loss = gpur_arena_floats(arena, 1);
    sac->alpha = gpur_arena_floats(arena, 1);
    sac->actor_pass.activations[0] = step->batch.x;
    step->critics.entropy = step->critic_distributions.critic.entropy = sac->next_entropy;
}

static gpur_status start(const gpur_train_step *step, gpur_stream *stream)
{
    (void)step, (void)stream;
    return GPUR_OK;
}

/* Draws actions for the rows of obs, or with `next` 1 for those of next_obs, into the critics' input. */
static gpur_status draw(const gpur_train_step *step, gpur_stream *stream, int next)
{
    const gpur_sac *const sac = sac_of(step);
    const gpur_pass *const pass = &sac->actor_pass;
    const int32_t last = sac->actor.activation_count - 1, actions = sac->actor.num_actions;
    const int64_t rows = step->batch.rows, first = next ? rows : 0;
    const gpur_gaussian_sample_args args = {
        .z = pass->activations[last] + first * pass->pitch[last],
        .bias = sac->actor_optimizer.weights + sac->actor.head_bias,
        .state = sac->actor_optimizer.state,
        .action = pass->activations[0] + first * pass->pitch[0] + sac->actor.width[0],
        .noise = sac->noise + first * actions,
        .log_prob = sac->log_prob + first,
        .log_alpha = sac->temperature_optimizer.weights,
        .entropy = next ? sac->next_entropy : NULL,
        .batch = rows,
        .z_pitch = pass->pitch[last],
        .action_pitch = pass->pitch[0],
        .first_row = first,
        .num_actions = actions,
        .seed = sac->config.seed,
    };
    return gpur_launch_gaussian_sample(stream, gpur_grid_elements(step->device, rows), &args);
}

static gpur_status act(const gpur_train_step *step, const gpur_track *track)
{
    const gpur_sac *const sac = sac_of(step);
    const gpur_pass *const pass = &sac->actor_pass;
    GPUR_TRY(gpur_pass_forward(pass, track->stream, pass->rows, sac->actor_optimizer.weights, track->workspace));
    return draw(step, track->stream, 1);
}

/* The values of the actions drawn for obs, and the gradient of the least one by these actions. */
static gpur_status value_actions(const gpur_train_step *step, const gpur_track *track)
{
    const gpur_sac *const sac = sac_of(step);
    const gpur_pass *const critic = &step->online;
    const float *const weights = step->optimizer.weights;
    const int32_t last = step->network->activation_count - 1;
    const gpur_soft_value_args args = {
        .z = critic->activations[last],
        .bias = weights + step->network->head_bias,
        .log_prob = sac->log_prob,
        .log_alpha = sac->temperature_optimizer.weights,
        .dz = sac->action_backward.gradients[last],
        .loss = sac->policy_loss,
        .entropy = sac->entropy,
        .batch = step->batch.rows,
        .z_pitch = critic->pitch[last],
        .critics = step->network->copies,
        .distribution = step->network->distribution,
        .head = step->network->head,
    };
    GPUR_TRY(gpur_pass_forward(critic, track->stream, step->batch.rows, weights, track->workspace));
    GPUR_TRY(gpur_launch_soft_value(track->stream, gpur_grid_elements(step->device, args.batch), &args));
    return gpur_backward_run(&sac->action_backward, track, &step->side, weights, NULL);
}

/* The gradient by the actor's outputs. */
static gpur_status policy_gradient(const gpur_train_step *step, gpur_stream *stream)
{
    const gpur_sac *const sac = sac_of(step);
    const gpur_pass *const pass = &sac->actor_pass;
    const int32_t last = sac->actor.activation_count - 1;
    const gpur_gaussian_gradient_args args = {
        .z = pass->activations[last],
        .bias = sac->actor_optimizer.weights + sac->actor.head_bias,
        .noise = sac->noise,
        .slope = sac->action_backward.gradients[0] + sac->actor.width[0],
        .log_alpha = sac->temperature_optimizer.weights,
        .dz = sac->actor_backward.gradients[last],
        .batch = step->batch.rows,
        .z_pitch = pass->pitch[last],
        .slope_pitch = pass->pitch[0],
        .num_actions = sac->actor.num_actions,
    };
    return gpur_launch_gaussian_gradient(stream, gpur_grid_elements(step->device, args.batch), &args);
}

static gpur_status train_temperature(const gpur_train_step *step, gpur_stream *stream, const int64_t *drawable)
{
    const gpur_sac *const sac = sac_of(step);
    gpur_optimizer optimizer = sac->temperature_optimizer;
    const gpur_train_step_results results = {sac->temperature_loss, sac->alpha, NULL, NULL, 1};
    const gpur_temperature_gradient_args args = {
        .log_prob = sac->log_prob,
        .log_alpha = optimizer.weights,
        .gradient = optimizer.gradient,
        .loss = sac->temperature_loss,
        .alpha = sac->alpha,
        .batch = step->batch.rows,
        .target_entropy = sac->config.target_entropy * (float)sac->actor.num_actions,
        .is_fixed = sac->config.fixed_temperature,
    };
    optimizer.drawable = drawable;
    GPUR_TRY(gpur_launch_temperature_gradient(stream, gpur_grid_single(step->device), &args));
    return gpur_optimizer_step(&optimizer, stream, &results);
}

/* By the critics that have just been trained. The temperature comes last, since all losses have that of before. */
static gpur_status train(const gpur_train_step *step, const gpur_track *track, const int64_t *drawable)
{
    const gpur_sac *const sac = sac_of(step);
    const gpur_train_step_results results = {sac->policy_loss, sac->entropy, NULL, NULL, step->batch.rows};
    gpur_optimizer optimizer = sac->actor_optimizer;
    optimizer.drawable = drawable;
    GPUR_TRY(draw(step, track->stream, 0));
    GPUR_TRY(value_actions(step, track));
    GPUR_TRY(policy_gradient(step, track->stream));
    GPUR_TRY(gpur_backward_run(&sac->actor_backward, track, &step->side, optimizer.weights, optimizer.gradient));
    GPUR_TRY(gpur_optimizer_step(&optimizer, track->stream, &results));
    return train_temperature(step, track->stream, drawable);
}

const gpur_step_actor gpur_sac_step_actor = {
    .open = open,
    .assign = assign,
    .start = start,
    .act = act,
    .train = train,
};
