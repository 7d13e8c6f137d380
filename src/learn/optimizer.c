/* SPDX-License-Identifier: MIT */
/* The kinds of optimizers as numbers, their arrays, and the three kernels of a step. */
#include "learn/optimizer.h"

#include "base/sized.h"
#include "replay/config.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* An optimizer kind as coefficients of the formulas in kernels/learn/weight_update.h. */
typedef struct update_rule {
    int32_t adam;           /* 1: Adam; 0: RMSProp */
    int32_t correct_rate;   /* Adam, 1: the bias correction is of the learning rate; 0: of m and v */
    int32_t rate_on_weight; /* 1: the learning rate multiplies the velocity; 0: what is added to the velocity */
    int32_t epsilon_inside; /* 1: epsilon is inside the root; 0: outside */
    int32_t centered;       /* 1: always has the running mean of g; 0: if config.centered is 1 */
    int32_t momentum;       /* 1: uses config.momentum; 0: ignores it */
    float first_square;     /* initial value of the running mean of g^2 */
} update_rule;

static const update_rule update_rules[] = {
    [GPUR_ADAM] = {.adam = 1, .rate_on_weight = 1, .centered = 1},
    [GPUR_RMSPROP_TF] = {.epsilon_inside = 1, .momentum = 1, .first_square = 1.0f},
    [GPUR_RMSPROP_KERAS2] = {0},
    [GPUR_RMSPROP_TORCH] = {.rate_on_weight = 1, .momentum = 1},
    [GPUR_RMSPROP_DEEPMIND] = {.epsilon_inside = 1, .centered = 1},
    [GPUR_ADAM_TF] = {.adam = 1, .correct_rate = 1, .rate_on_weight = 1, .centered = 1},
};

static gpur_status check_decay(float value, const char *name)
{
    GPUR_REQUIRE(value >= 0.0f && value < 1.0f, "optimizer.%s is %g; it must be at least 0 and below 1", name,
                 (double)value);
    return GPUR_OK;
}

static gpur_status check_limit(float value, const char *name)
{
    GPUR_REQUIRE(value >= 0.0f && value < INFINITY, "optimizer.%s is %g; it must be above 0, or 0 for none, and finite",
                 name, (double)value);
    return GPUR_OK;
}

/* Checks the constants of all kinds, also those that the chosen kind does not read: a value out of range is a mistake
 * in any case. */
static gpur_status check_constants(const gpur_optimizer_config *config)
{
    GPUR_TRY(check_decay(config->beta1, "beta1"));
    GPUR_TRY(check_decay(config->beta2, "beta2"));
    GPUR_TRY(gpur_choice_check(config->centered, 1, "optimizer.centered", "0 or 1"));
    GPUR_TRY(check_decay(config->decay, "decay"));
    return check_decay(config->momentum, "momentum");
}

static gpur_status check_weight_decay(const gpur_optimizer_config *config)
{
    const double decay = config->weight_decay;
    GPUR_REQUIRE(decay >= 0.0 && decay <= (double)FLT_MAX,
                 "optimizer.weight_decay is %g; it must be above 0, or 0 for none, and finite", decay);
    GPUR_REQUIRE(
        decay == 0.0 || update_rules[config->kind].adam,
        "optimizer.weight_decay is %g, and RMSProp has none; it must be 0, or the optimizer Adam (optimizer.kind 0 "
        "or 5)",
        decay);
    return GPUR_OK;
}

gpur_status gpur_optimizer_check(const gpur_optimizer_config *config)
{
    GPUR_TRY(gpur_choice_check(config->kind, GPUR_ADAM_TF, "optimizer.kind",
                               "0 to 5 (GPUR_ADAM, GPUR_RMSPROP_*, GPUR_ADAM_TF)"));
    GPUR_TRY(gpur_schedule_check(&config->learning_rate, FLT_MAX, "optimizer.learning_rate"));
    GPUR_TRY(check_constants(config));
    GPUR_REQUIRE(config->epsilon > 0.0f && config->epsilon < INFINITY,
                 "optimizer.epsilon is %g; it must be above 0, and finite", (double)config->epsilon);
    GPUR_TRY(gpur_reserved_check(config->reserved, 3, "optimizer"));
    GPUR_TRY(check_weight_decay(config));
    GPUR_TRY(check_limit(config->clip_norm, "clip_norm"));
    return check_limit(config->clip_value, "clip_value");
}

void gpur_optimizer_open(gpur_optimizer *optimizer, gpur_device *device, const gpur_optimizer_config *config,
                         const gpur_params *params)
{
    memset(optimizer, 0, sizeof *optimizer);
    optimizer->device = device;
    optimizer->config = *config;
    optimizer->target_period = INT64_MAX;
    optimizer->params = params;
    optimizer->count = params->count;
    optimizer->partials = (params->count + GPUR_NORM_CHUNK - 1) / GPUR_NORM_CHUNK;
}

void gpur_optimizer_set_target(gpur_optimizer *optimizer, int64_t period, int32_t first, float rate)
{
    optimizer->has_target = 1;
    optimizer->target_period = period;
    optimizer->target_phase = first ? 1 % period : 0;
    optimizer->target_rate = rate;
}

void gpur_optimizer_assign(gpur_optimizer *optimizer, gpur_arena *arena, float *weights)
{
    const update_rule *const f = &update_rules[optimizer->config.kind];
    const int64_t count = optimizer->count;
    optimizer->weights = weights ? weights : gpur_arena_alloc(arena, gpur_params_bytes(optimizer->params));
    if (optimizer->has_target)
        optimizer->target = gpur_arena_alloc(arena, gpur_params_bytes(optimizer->params));
    optimizer->gradient = gpur_arena_floats(arena, count);
    optimizer->square = gpur_arena_floats(arena, count);
    if (f->centered || optimizer->config.centered)
        optimizer->mean = gpur_arena_floats(arena, count);
    if (f->momentum && optimizer->config.momentum > 0.0f)
        optimizer->velocity = gpur_arena_floats(arena, count);
    optimizer->partial = gpur_arena_floats(arena, optimizer->partials);
    if (optimizer->config.clip_value > 0.0f)
        optimizer->clipped = gpur_arena_floats(arena, optimizer->partials);
    optimizer->state = gpur_arena_alloc(arena, sizeof *optimizer->state);
}

static gpur_train_state first_state(const gpur_optimizer *optimizer)
{
    gpur_train_state state;
    memset(&state, 0, sizeof state);
    state.beta1_power = (double)optimizer->config.beta1;
    state.beta2_power = (double)optimizer->config.beta2;
    state.next_learning_rate = gpur_schedule_at(&optimizer->config.learning_rate, 0);
    state.finite_loss = NAN;
    state.copy_due = 1 % optimizer->target_period == optimizer->target_phase;
    return state;
}

gpur_status gpur_optimizer_round(const gpur_optimizer *optimizer, gpur_stream *stream)
{
    GPUR_TRY(gpur_params_round(optimizer->params, optimizer->device, stream, optimizer->weights));
    return gpur_params_round(optimizer->params, optimizer->device, stream, optimizer->target);
}

gpur_status gpur_optimizer_write(const gpur_optimizer *optimizer, gpur_stream *stream, const float *weights)
{
    const int64_t bytes = optimizer->count * (int64_t)sizeof *weights;
    GPUR_TRY(gpur_copy(stream, optimizer->weights, weights, bytes));
    if (optimizer->target)
        GPUR_TRY(gpur_copy(stream, optimizer->target, weights, bytes));
    return gpur_optimizer_round(optimizer, stream);
}

/* Enqueues the first values of all arrays. `weights`, `square` and `state` are in host memory. */
static gpur_status enqueue_first(const gpur_optimizer *optimizer, gpur_stream *stream, const float *weights,
                                 const float *square, const gpur_train_state *state)
{
    const int64_t bytes = optimizer->count * (int64_t)sizeof(float);
    GPUR_TRY(gpur_optimizer_write(optimizer, stream, weights));
    GPUR_TRY(gpur_fill(stream, optimizer->gradient, 0, bytes));
    if (optimizer->mean)
        GPUR_TRY(gpur_fill(stream, optimizer->mean, 0, bytes));
    if (optimizer->velocity)
        GPUR_TRY(gpur_fill(stream, optimizer->velocity, 0, bytes));
    GPUR_TRY(gpur_copy(stream, optimizer->state, state, sizeof *state));
    return gpur_copy(stream, optimizer->square, square, bytes);
}

gpur_status gpur_optimizer_reset(gpur_optimizer *optimizer, gpur_stream *stream, const float *weights)
{
    const size_t bytes = (size_t)optimizer->count * sizeof(float);
    const gpur_train_state state = first_state(optimizer);
    float *const square = gpur_host_alloc(optimizer->device, bytes);
    if (!square)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %zu bytes of optimizer state", bytes);
    for (int64_t i = 0; i < optimizer->count; i++)
        square[i] = update_rules[optimizer->config.kind].first_square;
    const gpur_status status = gpur_stream_finish(stream, enqueue_first(optimizer, stream, weights, square, &state));
    gpur_host_free(optimizer->device, square, bytes);
    return status;
}

gpur_gradient_norm_args gpur_optimizer_norm(const gpur_optimizer *optimizer)
{
    gpur_gradient_norm_args args;
    args.gradient = optimizer->gradient;
    args.partial = optimizer->partial;
    args.clipped = optimizer->clipped;
    args.count = optimizer->count;
    args.clip_value = optimizer->config.clip_value;
    return args;
}

gpur_weight_update_args gpur_optimizer_update(const gpur_optimizer *optimizer)
{
    const gpur_optimizer_config *const config = &optimizer->config;
    const update_rule *const f = &update_rules[config->kind];
    gpur_weight_update_args args;
    memset(&args, 0, sizeof args);
    args.weights = optimizer->weights, args.target = optimizer->target, args.gradient = optimizer->gradient;
    args.bf16 = gpur_params_bf16(optimizer->params, optimizer->weights);
    args.target_bf16 = gpur_params_bf16(optimizer->params, optimizer->target);
    args.mean = optimizer->mean, args.square = optimizer->square, args.velocity = optimizer->velocity;
    args.partial = optimizer->clipped ? optimizer->clipped : optimizer->partial;
    args.partials = optimizer->partials;
    args.state = optimizer->state, args.drawable = optimizer->drawable;
    args.count = optimizer->count;
    args.adam = f->adam, args.correct_rate = f->correct_rate, args.rate_on_weight = f->rate_on_weight;
    args.mean_decay = f->adam ? config->beta1 : config->decay;
    args.square_decay = f->adam ? config->beta2 : config->decay;
    args.momentum = config->momentum;
    args.epsilon_inside = f->epsilon_inside ? config->epsilon : 0.0f;
    args.epsilon_outside = f->epsilon_inside ? 0.0f : config->epsilon;
    args.clip_value = config->clip_value, args.clip_norm = config->clip_norm;
    args.weight_decay = (float)config->weight_decay, args.target_rate = optimizer->target_rate;
    return args;
}

gpur_finish_step_args gpur_optimizer_finish(const gpur_optimizer *optimizer, const gpur_train_step_results *results)
{
    const gpur_schedule *const rate = &optimizer->config.learning_rate;
    gpur_finish_step_args args;
    args.state = optimizer->state, args.drawable = optimizer->drawable;
    args.loss = results->loss, args.q_taken = results->q_taken, args.invalid = results->invalid;
    args.missing = results->missing;
    args.batch = results->batch;
    args.partial = optimizer->partial, args.partials = (int32_t)optimizer->partials;
    args.clips = optimizer->config.clip_norm > 0.0f || optimizer->config.clip_value > 0.0f;
    args.target_period = optimizer->target_period, args.target_phase = optimizer->target_phase;
    args.beta1 = optimizer->config.beta1, args.beta2 = optimizer->config.beta2;
    args.rate_first = rate->first, args.rate_last = rate->last;
    args.rate_begin = rate->begin, args.rate_steps = rate->steps;
    return args;
}

/* A GPU's block has a warp for each chunk of the norm, and is given several chunks where there are many, so that all
 * blocks run at the same time: each of them computes for itself what is the same for all weights. */
enum { CHUNKS_A_BLOCK = 8, BLOCK_THREADS = 256 };

gpur_status gpur_optimizer_step(const gpur_optimizer *optimizer, gpur_stream *stream,
                                const gpur_train_step_results *results)
{
    gpur_device *const device = optimizer->device;
    const gpur_gradient_norm_args norm = gpur_optimizer_norm(optimizer);
    const gpur_weight_update_args update = gpur_optimizer_update(optimizer);
    const gpur_finish_step_args finish = gpur_optimizer_finish(optimizer, results);
    const gpur_grid grid = gpur_grid_of_threads(
        gpur_grid_rows(device, optimizer->partials, CHUNKS_A_BLOCK, GPUR_NORM_CHUNK * 4), BLOCK_THREADS);
    GPUR_TRY(gpur_launch_gradient_norm(stream, grid, &norm));
    GPUR_TRY(gpur_launch_weight_update(stream, grid, &update));
    return gpur_launch_finish_step(stream, gpur_grid_of_threads(gpur_grid_single(device), BLOCK_THREADS), &finish);
}
