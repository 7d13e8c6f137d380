/* SPDX-License-Identifier: MIT */
#include "learn/fused/fused_step.h"

#include "replay/sampler/gather.h"

#include <inttypes.h>
#include <string.h>

enum {
    SHEETS = 4,        /* observations, first layer, hidden layer, outputs */
    FIRST_PART = 128,  /* hidden units per split of the sums that are the gradient of the first layer's activations */
    WIDE_BATCH = 256,  /* from this many rows on a split has twice as many units: there are enough tiles */
    BATCH_PART = 256,  /* rows per split of a weight's gradient */
    MOST_PARTS = 16,   /* maximum number of splits */
    LARGE_TILE = 64,   /* side of a large tile on a GPU */
    LARGE_FROM = 256,  /* number of large tiles that keeps every multiprocessor busy */
    THREADS = 256,     /* per block: the maximum of the kernel */
    MANY_BLOCKS = 1024, /* more than can be resident at the same time */
};

#define WHAT_IT_IS "step_kernel is GPUR_STEP_ONE_KERNEL (2), which takes "

static gpur_status check_network(const gpur_network *network)
{
    GPUR_REQUIRE(network->conv_count == 0 && network->sheet_count == SHEETS,
                 WHAT_IT_IS "two dense layers below the last; this network has %" PRId32 " convolutions and %" PRId32
                            " dense layers there",
                 network->conv_count, network->sheet_count - 2 - network->conv_count);
    return GPUR_OK;
}

gpur_status gpur_one_kernel_check(const gpur_part_context *context)
{
    const gpur_learner_config *const config = context->config;
    const int64_t links = gpur_replay_links(context->replay);
    const gpur_input input = gpur_input_of(context->device, context->network, context->fields, config);
    if (config->step_kernel != GPUR_STEP_ONE_KERNEL)
        return GPUR_OK;
    GPUR_TRY(check_network(context->network));
    GPUR_REQUIRE(config->math == GPUR_MATH_FP32, WHAT_IT_IS "GPUR_MATH_FP32 (0); math is %" PRId32, config->math);
    GPUR_REQUIRE(links == 0, WHAT_IT_IS "a packed replay; this one is linked, with %" PRId64 " links in a row", links);
    GPUR_REQUIRE(input.direct,
                 WHAT_IT_IS "obs of float32 and network.input_scale 1; obs is %s and input_scale %g",
                 context->fields->obs_floats ? "float32" : "uint8", (double)config->network.input_scale);
    return GPUR_OK;
}

static int32_t parts_of(int64_t count, int64_t part)
{
    const int64_t parts = (count + part - 1) / part;
    return (int32_t)(parts < MOST_PARTS ? parts : MOST_PARTS);
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_one_kernel *const one = part;
    const gpur_step *const step = context->step;
    if (step->config.step_kernel != GPUR_STEP_ONE_KERNEL)
        return GPUR_OK;
    one->step = step;
    const int64_t batch = step->config.batch_size;
    one->first_parts = parts_of(step->network->width[2], batch < WIDE_BATCH ? FIRST_PART : 2 * FIRST_PART);
    one->args.parts = parts_of(batch, BATCH_PART);
    return GPUR_OK;
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_one_kernel *const one = part;
    const gpur_step *const step = one->step;
    if (!step)
        return;
    one->first = gpur_arena_floats(arena, one->first_parts * step->config.batch_size * step->dqn.online.pitch[1]);
    if (one->args.parts > 1)
        one->parts = gpur_arena_floats(arena, one->args.parts * step->optimizer.count);
    one->args.draw_step = gpur_arena_take(arena, sizeof *one->args.draw_step);
}

/* A GEMM operand: element (i, k) is x[i * row + k * step]. */
static gpur_factor factor_of(const float *x, int64_t row, int64_t step)
{
    const gpur_factor factor = {.x = x, .row = row, .step = step, .parts = 1};
    return factor;
}

static gpur_product *add(gpur_one_kernel *one, int32_t stage, int64_t m, int64_t n, int64_t k)
{
    gpur_product *const p = &one->args.products[one->args.product_count++];
    p->m = (int32_t)m, p->n = (int32_t)n, p->k = (int32_t)k;
    p->parts = 1;
    p->stage = stage;
    return p;
}

/* Y = activation(X W^T + b). */
static void add_forward(gpur_one_kernel *one, int32_t stage, const gpur_pass *pass, const gpur_dense *d,
                        const float *weights)
{
    gpur_product *const p = add(one, stage, pass->rows, d->units, d->inputs);
    p->a = factor_of(pass->sheet[d->from], pass->pitch[d->from], 1);
    p->b = factor_of(weights + d->weight, d->inputs, 1);
    p->c = pass->sheet[d->to], p->c_row = pass->pitch[d->to];
    p->bias = weights + d->bias;
    p->activation = d->activation;
}

/* dW = dY^T X, and db, the sums of dY over the rows. */
static void add_to_weight(gpur_one_kernel *one, int32_t stage, const gpur_dense *d, gpur_factor dy)
{
    const gpur_step *const step = one->step;
    const gpur_pass *const pass = &step->dqn.online;
    const int64_t bias = d->bias >= 0 ? d->bias : step->network->head_bias + d->to_column;
    float *const gradient = one->parts ? one->parts : step->optimizer.gradient;
    gpur_product *const p = add(one, stage, d->units, d->inputs, step->config.batch_size);
    p->a = dy;
    p->b = factor_of(pass->sheet[d->from] + d->from_column, 1, pass->pitch[d->from]);
    p->c = gradient + d->weight, p->c_row = d->inputs;
    p->a_sums = gradient + bias;
    p->parts = one->args.parts, p->c_part = step->optimizer.count;
}

/* dY^T: the layer's columns of the gradient activations, transposed. */
static gpur_factor gradient_of(const gpur_step *step, const gpur_dense *d)
{
    return factor_of(step->dqn.backward.sheet[d->to] + d->to_column, 1, step->dqn.online.pitch[d->to]);
}

/* dX = dY W, where the sum over the hidden units is split into first_parts partial sums. */
static void add_to_first(gpur_one_kernel *one, const gpur_dense *d)
{
    const gpur_step *const step = one->step;
    const int64_t batch = step->config.batch_size;
    gpur_product *const p = add(one, GPUR_STAGE_GRADIENTS, batch, d->inputs, d->units);
    p->a = factor_of(step->dqn.backward.sheet[d->to], step->dqn.online.pitch[d->to], 1);
    p->b = factor_of(step->optimizer.weights + d->weight, 1, d->inputs);
    p->c = one->first, p->c_row = step->dqn.online.pitch[d->from];
    p->parts = one->first_parts, p->c_part = batch * p->c_row;
}

/* dY^T of the first layer: the total of the partial sums of add_to_first, times the derivative of the layer's
 * activation. */
static gpur_factor first_gradient(const gpur_one_kernel *one, const gpur_dense *d)
{
    gpur_factor factor = factor_of(one->first, 1, one->step->dqn.online.pitch[d->to]);
    factor.parts = one->first_parts;
    factor.part_step = one->step->config.batch_size * factor.step;
    factor.y = one->step->dqn.online.sheet[d->to];
    factor.activation = d->activation;
    return factor;
}

static void add_products(gpur_one_kernel *one)
{
    const gpur_step *const step = one->step;
    const gpur_network *const network = step->network;
    const gpur_dense *const first = &network->dense[0], *const hidden = &network->dense[1];
    const gpur_optimizer *const o = &step->optimizer;
    add_forward(one, GPUR_STAGE_FIRST, &step->dqn.online, first, o->weights);
    add_forward(one, GPUR_STAGE_FIRST, &step->dqn.target, first, o->target);
    add_forward(one, GPUR_STAGE_HIDDEN, &step->dqn.online, hidden, o->weights);
    add_forward(one, GPUR_STAGE_HIDDEN, &step->dqn.target, hidden, o->target);
    add_to_weight(one, GPUR_STAGE_GRADIENTS, hidden, gradient_of(step, hidden));
    add_to_first(one, hidden);
    for (int32_t i = 2; i < network->dense_count; i++)
        add_to_weight(one, GPUR_STAGE_GRADIENTS, &network->dense[i], gradient_of(step, &network->dense[i]));
    add_to_weight(one, GPUR_STAGE_FIRST_GRADIENT, first, first_gradient(one, first));
}

/* Chooses the size of tiles from the shape of each GEMM only, never from the launch configuration: the size determines
 * the order of the sums, and with it their bits. */
static void choose_tiles(gpur_one_kernel *one)
{
    for (int32_t i = 0; i < one->args.product_count; i++) {
        gpur_product *const p = &one->args.products[i];
        const int64_t down = (p->m + LARGE_TILE - 1) / LARGE_TILE, across = (p->n + LARGE_TILE - 1) / LARGE_TILE;
        p->large = down * across * p->parts >= LARGE_FROM;
    }
}

static gpur_last_layers last_layers(const gpur_step *step)
{
    const gpur_network *const network = step->network;
    const gpur_dense *const hidden = &network->dense[1], *const first = &network->dense[2];
    const gpur_last_layers last = {
        .online = step->dqn.online.sheet[2],
        .target = step->dqn.target.sheet[2],
        .weight = step->optimizer.weights + first->weight,
        .target_weight = step->optimizer.target + first->weight,
        .z = step->dqn.online.sheet[3],
        .z_target = step->dqn.target.sheet[3],
        .gradient = step->dqn.backward.sheet[2],
        .pitch = step->dqn.online.pitch[2],
        .width = network->width[2],
        .inputs = first->inputs,
        .outputs = network->width[3],
        .split = first->units,
        .activation = hidden->activation,
    };
    return last;
}

static void connect_draw(gpur_one_kernel *one)
{
    const gpur_step *const step = one->step;
    gpur_learn_steps_args *const args = &one->args;
    const gpur_batch_source *const source = &step->sampled;
    args->gather = source->plan.rows;
    args->gather.step = args->draw_step;
    args->by_priority = source->sampler->is_by_priority;
    if (!args->by_priority)
        return;
    args->draw = gpur_sampler_draw_args(step->batch.replay, source->sampler, &source->sample, step->batch.rows);
    args->draw.step = args->draw_step;
    args->weights = gpur_sampler_weights_args(step->batch.replay, &source->sample, step->batch.rows);
    args->priorities = gpur_priorities_change(gpur_replay_priorities(step->batch.replay), step->batch.rows,
                                              step->batch.id, step->dqn.td.td, 1);
}

static gpur_status connect(void *part)
{
    gpur_one_kernel *const one = part;
    const gpur_step *const step = one->step;
    gpur_learn_steps_args *const args = &one->args;
    if (!step)
        return GPUR_OK;
    const gpur_td_error_args *const td = &step->dqn.td;
    const gpur_step_results results = {td->loss, td->q_taken, td->invalid, td->batch};
    connect_draw(one);
    args->td = *td;
    args->last = last_layers(step);
    args->norm = gpur_optimizer_norm(&step->optimizer);
    args->update = gpur_optimizer_update(&step->optimizer);
    args->finish = gpur_optimizer_finish(&step->optimizer, &results);
    args->gradient = step->optimizer.gradient;
    args->gradient_parts = one->parts;
    args->updates_early = !one->parts && args->update.clip_norm == 0.0f;
    add_products(one);
    choose_tiles(one);
    return GPUR_OK;
}

const gpur_part gpur_one_kernel_part = {.open = open, .assign = assign, .connect = connect};

/* Not measured on a GPU. By default asks for more blocks than can be resident, and so gets a cooperative grid of all
 * that can. A cluster synchronizes faster, but has at most 16 blocks, and even with a batch of 32 a step has more tiles
 * than 16 blocks can compute at a time. */
static gpur_grid grid_of(const gpur_one_kernel *one)
{
    const gpur_one_kernel_way *const way = &one->way;
    const int64_t blocks = way->blocks > 0 ? way->blocks : MANY_BLOCKS;
    gpur_grid grid = gpur_grid_together(one->step->device, GPUR_KERNEL_ID_learn_steps, blocks,
                                        way->threads > 0 ? way->threads : THREADS);
    if (way->as_grid)
        grid.together = GPUR_TOGETHER_GRID;
    return grid;
}

/* Steps per kernel launch. On a GPU as many as a graph has, not more, because acting may find no free multiprocessor
 * until the kernel ends. On a CPU one, because an append waits until the kernel ends. */
static int64_t steps_a_launch(const gpur_one_kernel *one)
{
    if (one->way.steps > 0)
        return one->way.steps;
    return gpur_device_get_traits(one->step->device)->has_launch_overhead ? one->step->config.unroll : 1;
}

gpur_status gpur_one_kernel_enqueue(const gpur_one_kernel *one, gpur_stream *stream, int64_t steps)
{
    const gpur_grid grid = grid_of(one);
    const int64_t most = steps_a_launch(one);
    gpur_learn_steps_args args = one->args;
    for (int64_t done = 0; done < steps; done += args.steps) {
        args.steps = steps - done < most ? steps - done : most;
        GPUR_TRY(gpur_launch_learn_steps(stream, grid, &args));
    }
    return GPUR_OK;
}
