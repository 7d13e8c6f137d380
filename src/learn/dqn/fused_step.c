/* SPDX-License-Identifier: MIT */
/* Chooses the fused step, and makes the arguments of its kernel. */
#include "learn/dqn/fused_step.h"

#include "replay/view.h"

#include <inttypes.h>
#include <string.h>

enum {
    ACTIVATIONS = 4,   /* observations, first layer, hidden layer, outputs */
    FIRST_SPLIT = 128, /* hidden units per split of the sums that are the gradient of the first layer's activations */
    WIDE_BATCH = 256,  /* from this many rows on a split has twice as many units: there are enough tiles */
    BATCH_SPLIT = 256, /* rows per split of a weight's gradient */
    MAX_SPLITS = 16,   /* maximum number of splits */
    QUAD = 4,          /* numbers that the kernel loads at once */
    LARGE_TILE = 64,   /* side of a large tile on a GPU */
    LARGE_FROM = 256,  /* number of large tiles that keeps every multiprocessor busy */
    THREADS = 256,     /* per block: the maximum of the kernel */
    MAX_FASTER_BATCH = 128,       /* see is_faster */
    MAX_FASTER_WEIGHTS = 1 << 18, /* likewise */
    MAX_BLOCKS = 1024,            /* more than can be resident at the same time */
};

#define REFUSAL "step_kernel is GPUR_STEP_FUSED (2), which takes "

static gpur_status check_network(const gpur_network *network)
{
    GPUR_REQUIRE(network->conv_count == 0 && network->activation_count == ACTIVATIONS,
                 REFUSAL "two dense layers below the last; this network has %" PRId32 " convolutions and %" PRId32
                         " dense layers there",
                 network->conv_count, network->activation_count - 2 - network->conv_count);
    GPUR_REQUIRE(!network->norm[1].gain && !network->norm[2].gain,
                 REFUSAL "layers without normalization; trunk[%d].norm is GPUR_LAYER_NORM (1)",
                 network->norm[1].gain ? 0 : 1);
    return GPUR_OK;
}

static gpur_status check(const gpur_part_context *context)
{
    const gpur_network_config *const network = context->network_config;
    const int32_t math = context->step_config.math;
    const int64_t links = gpur_replay_links(context->replay);
    const gpur_obs_format *const obs = &context->fields.obs_format;
    const gpur_input input = gpur_input_of(context->network, obs, network);
    GPUR_TRY(check_network(context->network));
    GPUR_REQUIRE(context->network->distribution.atoms == 0,
                 REFUSAL "action values; this network has a head of distributions");
    GPUR_REQUIRE(math == GPUR_MATH_FP32, REFUSAL "GPUR_MATH_FP32 (0); math is %" PRId32, math);
    GPUR_REQUIRE(!context->step_config.demonstrations,
                 REFUSAL "one replay; this learner has demonstrations in a second one");
    GPUR_REQUIRE(context->fields.next_mask < 0,
                 REFUSAL "a replay without action masks; this one has a field \"next_action_mask\"");
    GPUR_REQUIRE(!gpur_replay_lanes(context->replay),
                 REFUSAL "a replay of GPUR_LAYOUT_ROWS; this one is of GPUR_LAYOUT_LANES");
    GPUR_REQUIRE(!gpur_replay_has_hindsight(context->replay), REFUSAL "a replay without hindsight; this one has it");
    GPUR_REQUIRE(links == 0, REFUSAL "a replay of GPUR_LAYOUT_ROWS; this one has %" PRId64 " links to frames in a row",
                 links);
    GPUR_REQUIRE(input.direct,
                 REFUSAL "obs of float32, network.input_scale 1 and input_shift 0; obs is %s, input_scale %g and "
                         "input_shift %g",
                 obs->is_float ? "float32" : "uint8", (double)network->input_scale, (double)network->input_shift);
    return GPUR_OK;
}

/* Measured on an H200 with the preset melee-gpu, which has 139 thousand weights: a step of the kernel took 50, 66 and
 * 94 us with batches of 32, 128 and 256, and one by the libraries 74, 82 and 95 us. */
static int is_faster(const gpur_part_context *context)
{
    return gpur_device_get_traits(context->device)->has_launch_overhead &&
           context->step_config.batch_size <= MAX_FASTER_BATCH &&
           gpur_params_weights(&context->network->params) <= MAX_FASTER_WEIGHTS;
}

gpur_status gpur_fused_step_choose(const gpur_part_context *context, int32_t *step_kernel)
{
    if (*step_kernel == GPUR_STEP_AUTO)
        *step_kernel =
            !context->cache && is_faster(context) && check(context) == GPUR_OK ? GPUR_STEP_FUSED : GPUR_STEP_LIBRARIES;
    return *step_kernel == GPUR_STEP_FUSED ? check(context) : GPUR_OK;
}

static int32_t splits_of(int64_t count, int64_t size)
{
    const int64_t splits = (count + size - 1) / size;
    return (int32_t)(splits < MAX_SPLITS ? splits : MAX_SPLITS);
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_fused_step *const fused = part;
    const gpur_train_step *const step = context->step;
    if (!step->config.is_fused)
        return GPUR_OK;
    fused->step = step;
    const int64_t batch = step->config.batch_size;
    fused->first_splits = splits_of(step->network->width[2], batch < WIDE_BATCH ? FIRST_SPLIT : 2 * FIRST_SPLIT);
    fused->args.k_splits = splits_of(batch, BATCH_SPLIT);
    return GPUR_OK;
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_fused_step *const fused = part;
    const gpur_train_step *const step = fused->step;
    if (!step)
        return;
    fused->first = gpur_arena_floats(arena, fused->first_splits * step->config.batch_size * step->online.pitch[1]);
    if (fused->args.k_splits > 1)
        fused->gradient_splits = gpur_arena_floats(arena, fused->args.k_splits * step->optimizer.count);
    fused->args.sample_step = gpur_arena_alloc(arena, sizeof *fused->args.sample_step);
}

/* A GEMM operand: element (i, k) is x[i * row + k * step]. */
static gpur_gemm_operand operand_of(const float *x, int64_t row, int64_t step)
{
    const gpur_gemm_operand operand = {.x = x, .row = row, .step = step, .k_splits = 1};
    return operand;
}

/* Adds a product of the same stage as the one before, or of a later one. */
static gpur_tile_gemm *add_gemm(gpur_fused_step *fused, int32_t stage, int64_t m, int64_t n, int64_t k)
{
    gpur_tile_gemm *const p = &fused->args.gemms[fused->args.gemm_count++];
    p->m = (int32_t)m, p->n = (int32_t)n, p->k = (int32_t)k;
    p->k_splits = 1;
    for (int32_t s = stage + 1; s <= GPUR_STAGE_COUNT; s++)
        fused->args.first_gemm[s] = fused->args.gemm_count;
    return p;
}

/* Y = activation(X W^T + b). */
static void add_forward(gpur_fused_step *fused, int32_t stage, const gpur_pass *pass, const gpur_dense *d,
                        const float *weights)
{
    gpur_tile_gemm *const p = add_gemm(fused, stage, pass->rows, d->units, d->inputs);
    p->a = operand_of(pass->activations[d->from], pass->pitch[d->from], 1);
    p->b = operand_of(weights + d->weight, d->inputs, 1);
    p->c = pass->activations[d->to], p->c_row = pass->pitch[d->to];
    p->bias = weights + d->bias;
    p->activation = d->activation;
}

/* dW = dY^T X, and db, the sums of dY over the rows. */
static void add_to_weight(gpur_fused_step *fused, int32_t stage, const gpur_dense *d, gpur_gemm_operand dy)
{
    const gpur_train_step *const step = fused->step;
    const gpur_pass *const pass = &step->online;
    const int64_t bias = d->bias >= 0 ? d->bias : step->network->head_bias + d->to_column;
    float *const gradient = fused->gradient_splits ? fused->gradient_splits : step->optimizer.gradient;
    gpur_tile_gemm *const p = add_gemm(fused, stage, d->units, d->inputs, step->config.batch_size);
    p->a = dy;
    p->b = operand_of(pass->activations[d->from] + d->from_column, 1, pass->pitch[d->from]);
    p->c = gradient + d->weight, p->c_row = d->inputs;
    p->a_sums = gradient + bias;
    p->k_splits = fused->args.k_splits, p->c_split = step->optimizer.count;
}

/* dY^T: the layer's columns of the gradient activations, transposed. */
static gpur_gemm_operand gradient_of(const gpur_train_step *step, const gpur_dense *d)
{
    return operand_of(step->backward.gradients[d->to] + d->to_column, 1, step->online.pitch[d->to]);
}

/* dX = dY W, where the sum over the hidden units is split into first_splits partial sums. */
static void add_to_first(gpur_fused_step *fused, const gpur_dense *d)
{
    const gpur_train_step *const step = fused->step;
    const int64_t batch = step->config.batch_size;
    gpur_tile_gemm *const p = add_gemm(fused, GPUR_STAGE_GRADIENTS, batch, d->inputs, d->units);
    p->a = operand_of(step->backward.gradients[d->to], step->online.pitch[d->to], 1);
    p->b = operand_of(step->optimizer.weights + d->weight, 1, d->inputs);
    p->c = fused->first, p->c_row = step->online.pitch[d->from];
    p->k_splits = fused->first_splits, p->c_split = batch * p->c_row;
}

/* dY^T of the first layer: the total of the partial sums of add_to_first, times the derivative of the layer's
 * activation. */
static gpur_gemm_operand first_gradient(const gpur_fused_step *fused, const gpur_dense *d)
{
    gpur_gemm_operand operand = operand_of(fused->first, 1, fused->step->online.pitch[d->to]);
    operand.k_splits = fused->first_splits;
    operand.k_split_step = fused->step->config.batch_size * operand.step;
    operand.y = fused->step->online.activations[d->to];
    operand.activation = (int16_t)d->activation;
    return operand;
}

static void add_gemms(gpur_fused_step *fused)
{
    const gpur_train_step *const step = fused->step;
    const gpur_network *const network = step->network;
    const gpur_dense *const first = &network->dense[0], *const hidden = &network->dense[1];
    const gpur_optimizer *const o = &step->optimizer;
    add_forward(fused, GPUR_STAGE_FIRST, &step->online, first, o->weights);
    add_forward(fused, GPUR_STAGE_FIRST, &step->target, first, o->target);
    add_forward(fused, GPUR_STAGE_HIDDEN, &step->online, hidden, o->weights);
    add_forward(fused, GPUR_STAGE_HIDDEN, &step->target, hidden, o->target);
    add_to_first(fused, hidden); /* before the others, whose tiles take less time */
    add_to_weight(fused, GPUR_STAGE_GRADIENTS, hidden, gradient_of(step, hidden));
    for (int32_t i = 2; i < network->dense_count; i++)
        add_to_weight(fused, GPUR_STAGE_GRADIENTS, &network->dense[i], gradient_of(step, &network->dense[i]));
    add_to_weight(fused, GPUR_STAGE_FIRST_GRADIENT, first, first_gradient(fused, first));
}

/* Whether numbers can be loaded in quads. Rows of activations and of their gradients are always padded to quads, and
 * other rows have no padding. */
static int16_t is_in_quads(const gpur_gemm_operand *f)
{
    const int64_t pitch = f->step == 1 ? f->row : f->step, parts = f->k_splits > 1 ? f->k_split_step : 0;
    return pitch % QUAD == 0 && parts % QUAD == 0 && ((uintptr_t)f->x | (uintptr_t)f->y) % (QUAD * sizeof(float)) == 0;
}

/* Chooses the size of tiles and the splits of k from the shape of each GEMM only, never from the launch configuration:
 * they determine the order of the sums, and with it their bits. */
static void choose_tiles(gpur_fused_step *fused)
{
    for (int32_t i = 0; i < fused->args.gemm_count; i++) {
        gpur_tile_gemm *const p = &fused->args.gemms[i];
        const int64_t down = (p->m + LARGE_TILE - 1) / LARGE_TILE, across = (p->n + LARGE_TILE - 1) / LARGE_TILE;
        p->large = down * across * p->k_splits >= LARGE_FROM;
        p->k_size = ((p->k + p->k_splits - 1) / p->k_splits + QUAD - 1) / QUAD * QUAD;
        p->a.in_quads = is_in_quads(&p->a);
        p->b.in_quads = is_in_quads(&p->b);
    }
}

/* The update of all weights but the first layer's, which are in front of all others. */
static gpur_weight_update_args update_behind(gpur_weight_update_args args, int64_t first)
{
    args.weights += first, args.target += first, args.gradient += first, args.square += first;
    args.mean = args.mean ? args.mean + first : NULL;
    args.velocity = args.velocity ? args.velocity + first : NULL;
    args.count -= first;
    return args;
}

static gpur_last_layers last_layers(const gpur_train_step *step)
{
    const gpur_network *const network = step->network;
    const gpur_dense *const hidden = &network->dense[1], *const first = &network->dense[2];
    const gpur_last_layers last = {
        .online = step->online.activations[2],
        .target = step->target.activations[2],
        .weight = step->optimizer.weights + first->weight,
        .target_weight = step->optimizer.target + first->weight,
        .z = step->online.activations[3],
        .z_target = step->target.activations[3],
        .gradient = step->backward.gradients[2],
        .pitch = step->online.pitch[2],
        .width = network->width[2],
        .inputs = first->inputs,
        .outputs = network->width[3],
        .first_outputs = first->units,
        .activation = hidden->activation,
    };
    return last;
}

static void connect_sample(gpur_fused_step *fused)
{
    const gpur_train_step *const step = fused->step;
    gpur_fused_train_steps_args *const args = &fused->args;
    const gpur_batch_source *const source = &step->sampled;
    args->gather = source->plan.ring.rows;
    args->gather.step = args->sample_step;
    args->by_priority = source->sampler->is_by_priority;
    if (!args->by_priority)
        return;
    args->sample = gpur_sampler_sample_args(step->batch.replay, source->sampler, &source->sample, step->batch.rows);
    args->sample.step = args->sample_step;
    args->weights = gpur_sampler_weights_args(step->batch.replay, &source->sample, step->batch.rows);
    args->weights.step = args->sample_step;
    args->priorities = gpur_priorities_update_args(gpur_replay_priorities(step->batch.replay), step->batch.rows,
                                                   step->batch.id, step->td.td, 1);
}

static gpur_status connect(void *part)
{
    gpur_fused_step *const fused = part;
    const gpur_train_step *const step = fused->step;
    gpur_fused_train_steps_args *const args = &fused->args;
    if (!step)
        return GPUR_OK;
    const gpur_td_error_args *const td = &step->td;
    const gpur_train_step_results results = {td->loss, td->q_taken, td->invalid, NULL, td->batch};
    connect_sample(fused);
    args->td = *td;
    args->last = last_layers(step);
    args->norm = gpur_optimizer_norm(&step->optimizer);
    args->weight_update = args->first_update = gpur_optimizer_update(&step->optimizer);
    args->finish = gpur_optimizer_finish(&step->optimizer, &results);
    args->gradient = step->optimizer.gradient;
    args->gradient_splits = fused->gradient_splits;
    args->update_before_norm = !fused->gradient_splits && args->weight_update.clip_norm == 0.0f;
    if (args->update_before_norm)
        args->weight_update = update_behind(args->first_update, step->network->dense[1].weight);
    add_gemms(fused);
    choose_tiles(fused);
    return GPUR_OK;
}

const gpur_part gpur_fused_step_part = {.open = open, .assign = assign, .connect = connect};

/* The launch has as many blocks as can run at the same time, unless launch_config says how many. */
static gpur_grid grid_of(const gpur_fused_step *fused)
{
    const gpur_fused_launch_config *const launch_config = &fused->launch;
    return gpur_grid_cooperative(fused->step->device, GPUR_KERNEL_ID_fused_train_steps,
                                 launch_config->blocks > 0 ? launch_config->blocks : MAX_BLOCKS,
                                 launch_config->threads > 0 ? launch_config->threads : THREADS);
}

/* Steps per kernel launch. On a GPU as many as a graph has, not more, because acting may find no free multiprocessor
 * until the kernel ends. On a CPU one, because an append waits until the kernel ends. */
static int64_t steps_a_launch(const gpur_fused_step *fused)
{
    if (fused->launch.steps > 0)
        return fused->launch.steps;
    return gpur_device_get_traits(fused->step->device)->has_launch_overhead ? GPUR_GRAPH_STEPS : 1;
}

gpur_status gpur_fused_step_enqueue(const gpur_fused_step *fused, gpur_stream *stream, int64_t steps)
{
    const gpur_grid grid = grid_of(fused);
    const int64_t limit = steps_a_launch(fused);
    gpur_fused_train_steps_args args = fused->args;
    for (int64_t done = 0; done < steps; done += args.steps) {
        args.steps = steps - done < limit ? steps - done : limit;
        GPUR_TRY(gpur_launch_fused_train_steps(stream, grid, &args));
    }
    return GPUR_OK;
}
