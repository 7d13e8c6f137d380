/* SPDX-License-Identifier: MIT */
/* The cache of returns: its memory, the refresh of it, and the draw of batches. */
#include "learn/returns/return_cache.h"

#include "kernels/lib/random.h"
#include "learn/train_step.h"
#include "replay/view.h"

#include <string.h>

enum {
    MAX_CHUNK_ROWS = 1024,         /* rows of a chunk, unless one block has more */
    MAX_CHUNK_BYTES = 64 << 20,    /* bytes of its activations, likewise */
    RETURNS_BYTES = 64,            /* bytes of a row that the kernel of returns reads, about */
    COPY_UNIT = sizeof(gpur_u32x4) /* bytes that a copy of observations moves at a time */
};

/* The observations that a chunk evaluates: next_obs, and before them obs if Q(s, a) is needed. */
static int64_t evaluated_rows(const gpur_return_cache *cache)
{
    return (cache->needs_taken ? 2 : 1) * cache->chunk.rows;
}

/* The row of the chunk's observations where those begin that it evaluates. */
static int64_t first_evaluated(const gpur_return_cache *cache)
{
    return cache->chunk.observations * cache->chunk.rows - evaluated_rows(cache);
}

/* Whole blocks, as many as give matrix products of a good size in not too much memory. */
static int64_t blocks_of_chunk(const gpur_return_cache *cache)
{
    const int64_t length = cache->config.block_length, all = cache->size / length;
    int64_t row_bytes = 0;
    for (int32_t i = 0; i < cache->network->activation_count; i++)
        row_bytes += cache->network->width[i] * (int64_t)sizeof(float);
    const int64_t in_memory = MAX_CHUNK_BYTES / (row_bytes * (cache->needs_taken ? 2 : 1));
    const int64_t rows = in_memory < MAX_CHUNK_ROWS ? in_memory : MAX_CHUNK_ROWS;
    const int64_t blocks = rows / length < all ? rows / length : all;
    return blocks > 1 ? blocks : 1;
}

static gpur_status open_chunk(gpur_return_cache *cache, const gpur_part_context *context)
{
    const int32_t wants = GPUR_WANTS_NEXT_OBS |
                          (cache->needs_taken || cache->is_physical ? GPUR_WANTS_OBS | GPUR_WANTS_ACTION : 0) |
                          (cache->is_physical ? GPUR_WANTS_RAW : 0);
    const gpur_step_config *const config = &context->step_config;
    gpur_train_batch *const chunk = &cache->chunk;
    gpur_train_batch_open(chunk, context, cache->chunk_blocks * cache->config.block_length, wants);
    const gpur_pass_options options = gpur_pass_options_of(config->math);
    cache->obs_pitch = chunk->input.direct ? chunk->x_pitch * (int64_t)sizeof(float) : chunk->input.raw_pitch;
    return gpur_pass_open(&cache->values, cache->device, cache->network, evaluated_rows(cache), chunk->x_pitch,
                          &options);
}

static gpur_status open(void *part, const gpur_part_context *context)
{
    gpur_return_cache *const cache = part;
    const gpur_returns_config *const config = context->returns;
    if (!context->cache)
        return GPUR_OK;
    cache->device = context->device;
    cache->replay = context->replay;
    cache->network = context->network;
    cache->step = context->step;
    cache->config = *config;
    cache->estimator = gpur_estimator_of(config->estimator);
    cache->size = config->cache_size;
    cache->is_prioritized = gpur_returns_are_prioritized(config);
    cache->needs_taken =
        cache->estimator->cuts_traces || cache->estimator->rule == GPUR_RETURNS_ERROR_BOUND || cache->is_prioritized;
    cache->is_physical = config->storage == GPUR_CACHE_PHYSICAL;
    cache->chunk_blocks = blocks_of_chunk(cache);
    const int64_t rows = cache->chunk_blocks * config->block_length;
    cache->chunks = (cache->size + rows - 1) / rows;
    return open_chunk(cache, context);
}

static void close(void *part)
{
    gpur_return_cache *const cache = part;
    gpur_graph_destroy(cache->of_chunk);
    gpur_pass_close(&cache->values);
}

/* Counts what an entry takes, without the padding of arrays. */
static void *assign_entries(gpur_return_cache *cache, int wanted, int64_t bytes, gpur_arena *arena)
{
    if (!wanted)
        return NULL;
    cache->entries_bytes += cache->size * bytes;
    return gpur_arena_alloc(arena, cache->size * bytes);
}

static void assign(void *part, gpur_arena *arena)
{
    gpur_return_cache *const cache = part;
    if (cache->size == 0)
        return;
    const int64_t rows = cache->chunk.rows, batch = cache->step->config.batch_size;
    cache->entries_bytes = 0;
    cache->entry = assign_entries(cache, 1, sizeof *cache->entry, arena);
    cache->taken = assign_entries(cache, cache->needs_taken, sizeof *cache->taken, arena);
    cache->greedy = assign_entries(cache, cache->estimator->cuts_traces, sizeof *cache->greedy, arena);
    cache->obs = assign_entries(cache, cache->is_physical, cache->obs_pitch, arena);
    cache->action = assign_entries(cache, cache->is_physical, sizeof *cache->action, arena);
    cache->state = gpur_arena_alloc(arena, sizeof *cache->state);
    cache->drawn_value = gpur_arena_floats(arena, batch);
    cache->drawn = cache->is_physical ? gpur_arena_alloc(arena, batch * (int64_t)sizeof *cache->drawn) : NULL;
    cache->ids = gpur_arena_alloc(arena, rows * (int64_t)sizeof *cache->ids);
    cache->q = gpur_arena_floats(arena, rows * cache->network->num_actions);
    gpur_train_batch_assign(&cache->chunk, arena);
    gpur_pass_assign(&cache->values, arena);
    if (arena->base)
        cache->values.activations[0] =
            gpur_input_row(&cache->chunk.input, cache->chunk.x, first_evaluated(cache), cache->chunk.x_pitch);
}

/* A refresh. */

/* `what`: GPUR_REFRESH_* */
static gpur_status advance(const gpur_return_cache *cache, gpur_stream *stream, int32_t what)
{
    const gpur_schedule *const p = &cache->config.prioritization;
    const gpur_cache_advance_args args = {
        .state = cache->state,
        .train = cache->step->optimizer.state,
        .window = gpur_replay_stored_rows(cache->replay).window,
        .id = cache->chunk.id,
        .size = cache->size,
        .rows = cache->chunk.rows,
        .chunks = cache->chunks,
        .what = what,
        .p_first = p->first,
        .p_last = p->last,
        .p_begin = p->begin,
        .p_steps = p->steps,
    };
    return gpur_launch_cache_advance(stream, gpur_grid_single(cache->device), &args);
}

/* Draws the blocks of a chunk and gathers their rows, under the window lock; `context` is a gpur_gather_work. */
static gpur_status gather_chunk(void *context)
{
    const gpur_gather_work *const work = context;
    const gpur_return_cache *const cache = work->source->step->cache;
    const gpur_sequences_request blocks = {
        .count = cache->chunk_blocks,
        .length = cache->config.block_length,
        .min_length = cache->config.block_length,
        .across_episodes = 1,
        .source = GPUR_UNIFORM,
        .purpose = GPUR_RANDOM_RETURNS,
        .seed = cache->step->config.seed,
        .step = &cache->state->block_step,
        .ids = cache->ids,
    };
    GPUR_TRY(gpur_sequences_enqueue(cache->replay, &blocks, work->stream));
    return gpur_batch_source_gather(work->source, work->stream);
}

/* Converts the observations that are evaluated, unless the gather has done that or they need no conversion. */
static gpur_status convert(const gpur_return_cache *cache, gpur_stream *stream)
{
    const gpur_train_batch *const chunk = &cache->chunk;
    if (chunk->is_preprocessed)
        return GPUR_OK;
    return gpur_input_run(&chunk->input, cache->device, stream, evaluated_rows(cache),
                          chunk->raw ? chunk->raw + first_evaluated(cache) * chunk->input.raw_pitch : NULL,
                          chunk->input.raw_pitch, cache->values.activations[0]);
}

static gpur_status store_values(const gpur_return_cache *cache, gpur_stream *stream)
{
    const int32_t last = cache->network->activation_count - 1;
    const int64_t rows = cache->chunk.rows, pitch = cache->values.pitch[last];
    const float *const z = cache->values.activations[last];
    const gpur_cache_values_args args = {
        .state = cache->state,
        .z = cache->needs_taken ? z : NULL,
        .z_next = cache->needs_taken ? z + rows * pitch : z,
        .bias = cache->step->optimizer.weights + cache->network->head_bias,
        .q = cache->q,
        .id = cache->chunk.id,
        .action = cache->chunk.action,
        .entry = cache->entry,
        .taken = cache->taken,
        .greedy = cache->greedy,
        .cache_action = cache->action,
        .size = cache->size,
        .rows = rows,
        .z_pitch = pitch,
        .head = cache->network->head,
        .num_actions = cache->network->num_actions,
        .action_is_int64 = cache->chunk.fields.action_is_int64,
    };
    return gpur_launch_cache_values(stream, gpur_grid_elements(cache->device, rows), &args);
}

/* Copies observations from the chunk to the cache or, if `drawn` is given, from the cache to the step's batch. */
static gpur_status copy_obs(const gpur_return_cache *cache, gpur_stream *stream, const gpur_train_batch *batch,
                            const int32_t *drawn)
{
    const gpur_cache_copy_args args = {
        .state = cache->state,
        .cache = cache->obs,
        .batch = batch->raw ? batch->raw : (unsigned char *)batch->x,
        .index = drawn,
        .size = cache->size,
        .rows = batch->rows,
        .units = cache->obs_pitch / COPY_UNIT,
    };
    return gpur_launch_cache_copy(stream, gpur_grid_rows(cache->device, batch->rows, 1, cache->obs_pitch), &args);
}

/* The record function of a chunk; `context` is the cache. */
static gpur_status record_chunk(void *context, gpur_stream *stream)
{
    const gpur_return_cache *const cache = context;
    gpur_gather_work work = {&cache->rows, stream};
    GPUR_TRY(gpur_with_window_locked(cache->replay, gather_chunk, &work));
    GPUR_TRY(convert(cache, stream));
    GPUR_TRY(gpur_pass_forward(&cache->values, stream, evaluated_rows(cache), cache->step->optimizer.weights,
                               cache->step->workspace));
    GPUR_TRY(store_values(cache, stream));
    if (cache->is_physical)
        GPUR_TRY(copy_obs(cache, stream, &cache->chunk, NULL));
    return advance(cache, stream, GPUR_REFRESH_GOES_ON);
}

static gpur_status compute_returns(const gpur_return_cache *cache, gpur_stream *stream)
{
    const gpur_stored_rows rows = gpur_replay_stored_rows(cache->replay);
    const gpur_lane_store *const lanes = gpur_replay_lanes(cache->replay);
    const int64_t length = cache->config.block_length;
    const gpur_cache_returns_args args = {
        .state = cache->state,
        .window = rows.window,
        .ring = rows.ring,
        .pitch = rows.pitch,
        .capacity = rows.capacity,
        .entry = cache->entry,
        .taken = cache->taken,
        .greedy = cache->greedy,
        .blocks = cache->size / length,
        .length = length,
        .reward = gpur_replay_stored_offset(cache->replay, "reward"),
        .terminated = gpur_replay_stored_offset(cache->replay, "terminated"),
        .truncated = gpur_replay_stored_offset(cache->replay, "truncated"),
        .previous = gpur_replay_stored_offset(cache->replay, "previous"),
        .discount = gpur_replay_stored_offset(cache->replay, "discount"),
        .lanes = lanes ? lanes->lanes : (gpur_lane_rings){.state = NULL},
        .gamma = gpur_replay_settings(cache->replay)->gamma,
        .rule = cache->estimator->rule,
        .truncation_terminates = cache->config.truncation_terminates,
        .writes_errors = cache->is_prioritized,
        .n_step = cache->config.n_step,
        .lambda = cache->config.lambda,
        .error_bound = cache->config.error_bound,
    };
    return gpur_launch_cache_returns(stream, gpur_grid_rows(cache->device, args.blocks, 1, length * RETURNS_BYTES),
                                     &args);
}

static gpur_status enqueue_refresh(const gpur_return_cache *cache, gpur_stream *stream)
{
    const gpur_cache_median_args median = {cache->state, cache->taken, cache->size};
    GPUR_TRY(advance(cache, stream, GPUR_REFRESH_BEGINS));
    GPUR_TRY(gpur_graph_launch(cache->of_chunk, stream, cache->chunks));
    GPUR_TRY(compute_returns(cache, stream));
    GPUR_TRY(advance(cache, stream, GPUR_REFRESH_ENDS));
    return cache->is_prioritized ? gpur_launch_cache_median(stream, gpur_grid_single(cache->device), &median) : GPUR_OK;
}

gpur_status gpur_return_cache_refresh(gpur_return_cache *cache, gpur_stream *stream)
{
    GPUR_TRY(enqueue_refresh(cache, stream));
    atomic_fetch_add(&cache->refreshes, 1);
    atomic_store(&cache->is_filled, 1);
    return GPUR_OK;
}

/* Batches. */

static gpur_status draw(const gpur_return_cache *cache, gpur_stream *stream)
{
    const gpur_train_batch *const batch = &cache->step->batch;
    const gpur_cache_draw_args args = {
        .state = cache->state,
        .train = cache->step->optimizer.state,
        .entry = cache->entry,
        .error = cache->is_prioritized ? cache->taken : NULL,
        .id = batch->id,
        .value = cache->drawn_value,
        .index = cache->drawn,
        .weight = batch->weight,
        .action = batch->action,
        .cache_action = cache->action,
        .seed = cache->step->config.seed,
        .size = cache->size,
        .batch = batch->rows,
        .draw = cache->config.draw,
        .action_is_int64 = batch->fields.action_is_int64,
    };
    return gpur_launch_cache_draw(stream, gpur_grid_elements(cache->device, batch->rows), &args);
}

/* Draws a batch, and gathers its rows. */
static gpur_status gather_batch(const gpur_batch_source *source, gpur_stream *stream)
{
    const gpur_return_cache *const cache = source->step->cache;
    gpur_gather_work work = {source, stream};
    GPUR_TRY(draw(cache, stream));
    if (cache->is_physical)
        return copy_obs(cache, stream, &cache->step->batch, cache->drawn);
    if (gpur_gather_takes_several_launches(&source->plan.ring))
        return gpur_with_window_locked(cache->replay, gpur_gather_locked, &work);
    return gpur_gather_locked(&work);
}

/* The part. */

static gpur_status connect(void *part)
{
    gpur_return_cache *const cache = part;
    if (cache->size == 0)
        return GPUR_OK;
    gpur_train_step *const step = cache->step;
    GPUR_TRY(gpur_batch_source_of_ids(&step->sampled, step, &step->batch, step->batch.id));
    step->sampled.has_feedback = 0;
    step->sampled.gather = gather_batch;
    return gpur_batch_source_of_ids(&cache->rows, step, &cache->chunk, cache->ids);
}

/* Runs a chunk once, as graphs require, and records it. */
static gpur_status start(void *part, gpur_stream *stream)
{
    gpur_return_cache *const cache = part;
    if (cache->size == 0)
        return GPUR_OK;
    GPUR_TRY(advance(cache, stream, GPUR_REFRESH_BEGINS));
    GPUR_TRY(gpur_run_first(stream, record_chunk, cache));
    return gpur_graph_create(cache->device, record_chunk, cache, 1, &cache->of_chunk);
}

const gpur_part gpur_return_cache_part = {
    .open = open,
    .assign = assign,
    .connect = connect,
    .start = start,
    .close = close,
};
