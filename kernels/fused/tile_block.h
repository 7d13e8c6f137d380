/* SPDX-License-Identifier: MIT */
/*
 * The parallel body of a task: a block computes one tile. Chunks of A and B go through shared memory, transposed so
 * that k comes first. While one chunk is multiplied, the loads of the next one into registers are in flight. A worker
 * is a thread with 4 x 4 sums. A small tile has few workers, so several groups of workers share the k of each chunk;
 * their sums are added at the end, in the order of the groups.
 *
 * A block with fewer threads than workers goes over k several times, each time with as many workers as it has
 * threads.
 */
#pragma once

#include "kernels/fused/tile_gemm.h"

enum {
    GPUR_LARGE_SHIFT = GPUR_LARGE_SIDE == 64   ? 6
                       : GPUR_LARGE_SIDE == 32 ? 5
                                               : 4, /* 1 << 6 is 64 */
    GPUR_SMALL_DEPTH = GPUR_LARGE_SIDE / 2,         /* k of a small tile's chunk; a large tile's has half as many */
    GPUR_SMALL_GROUPS = 4,
    GPUR_TILE_WORKERS = GPUR_LARGE_SIDE * GPUR_LARGE_SIDE / 16,
    GPUR_TILE_SUMS = GPUR_LARGE_SIDE * GPUR_LARGE_SIDE, /* of a large tile, or of all groups of a small one */
    GPUR_TILE_LOADS = 4,                                /* loads that a thread has in flight, of A and of B each */
    GPUR_ROW_PADDING = 4, /* numbers; with them a warp that transposes a chunk writes to different banks */
    GPUR_CHUNK_QUADS = GPUR_SMALL_DEPTH * (GPUR_SMALL_SIDE + GPUR_ROW_PADDING) / 4, /* a large tile's is smaller */
};

/* Four numbers that are copied at once. */
typedef struct gpur_quad {
    float v[4];
} __attribute__((aligned(16))) gpur_quad;

/* The sizes of small or large tiles, all powers of two. Both kinds share one code path, since a step runs much of its
 * code only once and has to fetch all of it. */
typedef struct gpur_tile_shape {
    int32_t side, side_shift, depth, depth_shift, groups;
} gpur_tile_shape;

GPUR_FN gpur_tile_shape gpur_tile_shape_of(const gpur_tile_gemm *p)
{
    gpur_tile_shape shape;
    shape.side_shift = p->large ? GPUR_LARGE_SHIFT : GPUR_LARGE_SHIFT - 1;
    shape.depth_shift = p->large ? GPUR_LARGE_SHIFT - 2 : GPUR_LARGE_SHIFT - 1;
    shape.side = 1 << shape.side_shift;
    shape.depth = 1 << shape.depth_shift;
    shape.groups = p->large ? 1 : GPUR_SMALL_GROUPS;
    return shape;
}

/* The block's shared memory: chunks (2, A and B, GPUR_CHUNK_QUADS), sums (groups, side, side), a_sums (side). */
typedef struct gpur_tile_memory {
    gpur_quad *chunks, *sums;
    float *a_sums;
} gpur_tile_memory;

/* The part of an operand that a chunk holds. `rows` rows from `row` on and `k_count` numbers k from `k` on exist; the
 * rest of the chunk is zero. */
typedef struct gpur_chunk {
    const gpur_gemm_operand *operand;
    int32_t row, rows, k, k_count;
} gpur_chunk;

GPUR_FN gpur_chunk gpur_chunk_of(const gpur_tile *tile, int is_b, int32_t done)
{
    gpur_chunk chunk;
    chunk.operand = is_b ? &tile->gemm->b : &tile->gemm->a;
    chunk.row = is_b ? tile->column : tile->row;
    chunk.rows = is_b ? tile->columns : tile->rows;
    chunk.k = tile->k + done;
    chunk.k_count = tile->k_count - done;
    return chunk;
}

/* If k is contiguous in memory, a warp loads runs of 8 k from 4 rows: whole sectors of 32 bytes. Transposed, their 32
 * numbers go to 32 different banks of shared memory. In the race check a warp has 4 lanes. */
enum { GPUR_TRANSPOSE_K = GPUR_WARP == 32 ? 3 : 2, GPUR_TRANSPOSE_ROWS = GPUR_WARP == 32 ? 2 : 0 };

/* Row, and k, of element e of a chunk. Elements are numbered so that neighboring threads read neighboring numbers. */
GPUR_FN int32_t gpur_chunk_row(const gpur_chunk *chunk, gpur_tile_shape shape, int32_t e)
{
    const int32_t low = e >> GPUR_TRANSPOSE_K & ((1 << GPUR_TRANSPOSE_ROWS) - 1);
    if (chunk->operand->step != 1)
        return e & (shape.side - 1);
    return e >> (shape.depth_shift + GPUR_TRANSPOSE_ROWS) << GPUR_TRANSPOSE_ROWS | low;
}
GPUR_FN int32_t gpur_chunk_k(const gpur_chunk *chunk, gpur_tile_shape shape, int32_t e)
{
    const int32_t low = e & ((1 << GPUR_TRANSPOSE_K) - 1);
    if (chunk->operand->step != 1)
        return e >> shape.side_shift;
    return (e >> (GPUR_TRANSPOSE_K + GPUR_TRANSPOSE_ROWS) << GPUR_TRANSPOSE_K & (shape.depth - 1)) | low;
}

/* Whether element e, at row i and k of the chunk, exists in the operand. */
GPUR_FN int gpur_chunk_has(const gpur_chunk *chunk, gpur_tile_shape shape, int32_t e, int32_t i, int32_t k)
{
    return i < chunk->rows && k < chunk->k_count && e < shape.side * shape.depth;
}

/* Loads this thread's elements first + thread, first + thread + threads, ... The loads are in flight together, and
 * nothing here waits for them unless they are added to other splits or multiplied by a derivative. For an element
 * that does not exist, the chunk's first number is loaded. */
GPUR_FN void gpur_chunk_load(gpur_thread at, const gpur_chunk *chunk, gpur_tile_shape shape, int32_t first,
                             float *values)
{
    const gpur_gemm_operand *const f = chunk->operand;
    const int64_t begin = chunk->row * f->row + chunk->k * f->step;
    int64_t from[GPUR_TILE_LOADS];
    for (int n = 0; n < GPUR_TILE_LOADS; n++) {
        const int32_t e = first + n * at.threads + at.thread;
        const int32_t i = gpur_chunk_row(chunk, shape, e), k = gpur_chunk_k(chunk, shape, e);
        from[n] = begin + (gpur_chunk_has(chunk, shape, e, i, k) ? i * f->row + k * f->step : 0);
    }
    for (int n = 0; n < GPUR_TILE_LOADS; n++)
        values[n] = f->x[from[n]];
    for (int32_t split = 1; split < f->k_splits; split++)
        for (int n = 0; n < GPUR_TILE_LOADS; n++)
            values[n] += f->x[split * f->k_split_step + from[n]];
    for (int n = 0; f->y && n < GPUR_TILE_LOADS; n++)
        values[n] *= gpur_activation_derivative(f->y[from[n]], f->activation);
}

/* Stores the loaded numbers in shared memory, and zeros for elements that do not exist. */
GPUR_FN void gpur_chunk_store(gpur_thread at, const gpur_chunk *chunk, gpur_tile_shape shape, int32_t first,
                              const float *values, gpur_quad *to)
{
    float *const numbers = (float *)to;
    for (int n = 0; n < GPUR_TILE_LOADS; n++) {
        const int32_t e = first + n * at.threads + at.thread;
        const int32_t i = gpur_chunk_row(chunk, shape, e), k = gpur_chunk_k(chunk, shape, e);
        if (e < shape.side * shape.depth)
            numbers[k * (shape.side + GPUR_ROW_PADDING) + i] = gpur_chunk_has(chunk, shape, e, i, k) ? values[n] : 0.0f;
    }
}

/* The next chunks of A and B, and their numbers that are in flight. */
typedef struct gpur_chunks_in_flight {
    gpur_chunk a, b;
    float a_values[GPUR_TILE_LOADS], b_values[GPUR_TILE_LOADS];
} gpur_chunks_in_flight;

GPUR_FN void gpur_chunks_in_flight_begin(const gpur_tile *tile, int32_t done, gpur_chunks_in_flight *in_flight)
{
    in_flight->a = gpur_chunk_of(tile, 0, done);
    in_flight->b = gpur_chunk_of(tile, 1, done);
    for (int n = 0; n < GPUR_TILE_LOADS; n++)
        in_flight->a_values[n] = in_flight->b_values[n] = 0.0f;
}

GPUR_FN void gpur_chunks_in_flight_load(gpur_thread at, gpur_tile_shape shape, int32_t first,
                                        gpur_chunks_in_flight *in_flight)
{
    gpur_chunk_load(at, &in_flight->a, shape, first, in_flight->a_values);
    gpur_chunk_load(at, &in_flight->b, shape, first, in_flight->b_values);
}

GPUR_FN void gpur_chunks_in_flight_store(gpur_thread at, gpur_tile_shape shape, int32_t first,
                                         const gpur_chunks_in_flight *in_flight, gpur_quad *to)
{
    gpur_chunk_store(at, &in_flight->a, shape, first, in_flight->a_values, to);
    gpur_chunk_store(at, &in_flight->b, shape, first, in_flight->b_values, to + GPUR_CHUNK_QUADS);
}

/* The group of a worker, which is its share of the depth, and the position of its 4 x 4 sums in the tile. */
typedef struct gpur_worker {
    int32_t group, row, column; /* row, column: in units of 4 */
} gpur_worker;

GPUR_FN gpur_worker gpur_worker_of(gpur_tile_shape shape, int32_t worker)
{
    const int32_t shift = shape.side_shift - 2; /* of the number of workers across the tile */
    gpur_worker w;
    w.group = worker >> 2 * shift;
    w.row = (worker >> shift) & ((1 << shift) - 1);
    w.column = worker & ((1 << shift) - 1);
    return w;
}

/* Adds the products of a chunk to a worker's sums. */
GPUR_FN void gpur_worker_add(const gpur_quad *chunks, gpur_tile_shape shape, gpur_worker w, float *sum)
{
    const int32_t pitch = (shape.side + GPUR_ROW_PADDING) / 4, share = shape.depth / shape.groups;
    const gpur_quad *a = chunks + w.group * share * pitch + w.row;
    const gpur_quad *b = chunks + GPUR_CHUNK_QUADS + w.group * share * pitch + w.column;
    for (int32_t k = 0; k < share; k++, a += pitch, b += pitch) {
        const gpur_quad x = *a, y = *b;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                sum[4 * i + j] += x.v[i] * y.v[j];
    }
}

/* Stores a worker's sums in shared memory. */
GPUR_FN void gpur_worker_store(gpur_quad *sums, gpur_tile_shape shape, gpur_worker w, const float *sum)
{
    const int32_t across = shape.side / 4;
    gpur_quad *const to = sums + (w.group * shape.side + 4 * w.row) * across + w.column;
    for (int i = 0; i < 4; i++) {
        gpur_quad row;
        for (int j = 0; j < 4; j++)
            row.v[j] = sum[4 * i + j];
        to[i * across] = row;
    }
}

/* Adds a chunk of A to the sums of its rows. The sum of a row belongs to the same thread throughout, so it needs no
 * barrier. */
GPUR_FN void gpur_chunk_sums(gpur_thread at, const gpur_quad *chunk, gpur_tile_shape shape, float *a_sums)
{
    const float *const numbers = (const float *)chunk;
    for (int32_t i = at.thread; i < shape.side; i += at.threads)
        for (int32_t k = 0; k < shape.depth; k++)
            a_sums[i] += numbers[k * (shape.side + GPUR_ROW_PADDING) + i];
}

/* State of a thread in one pass over the k of a tile. */
typedef struct gpur_tile_pass_state {
    gpur_tile_shape shape;
    gpur_worker worker;
    int works;     /* 0: this thread has no worker, since there are fewer workers than threads */
    float *a_sums; /* NULL: not wanted, or computed in an earlier pass */
    float sum[16];
} gpur_tile_pass_state;

GPUR_FN void gpur_chunk_add(gpur_thread at, const gpur_quad *chunks, gpur_tile_pass_state *state)
{
    if (state->works)
        gpur_worker_add(chunks, state->shape, state->worker, state->sum);
    if (state->a_sums)
        gpur_chunk_sums(at, chunks, state->shape, state->a_sums);
}

/* Loads the chunks after the first `done` k into `then`, if there are any, and adds the chunks in `now`, if there are
 * any, while the first loads are in flight. With fewer threads than workers, a chunk takes further loads after these.
 */
GPUR_FN void gpur_chunks_next(gpur_thread at, const gpur_tile *tile, int32_t done, const gpur_quad *now,
                              gpur_quad *then, gpur_tile_pass_state *state)
{
    const int more = done < tile->k_count;
    int32_t first = 0;
    gpur_chunks_in_flight in_flight;
    gpur_chunks_in_flight_begin(tile, done, &in_flight);
    do {
        if (more)
            gpur_chunks_in_flight_load(at, state->shape, first, &in_flight);
        if (done > 0 && first == 0)
            gpur_chunk_add(at, now, state);
        if (more)
            gpur_chunks_in_flight_store(at, state->shape, first, &in_flight, then);
        first += GPUR_TILE_LOADS * at.threads;
    } while (more && first < state->shape.side * state->shape.depth);
    gpur_barrier(at);
}

/* One pass over all k of the tile: leaves the workers' sums in shared memory. */
GPUR_FN void gpur_tile_pass(gpur_thread at, const gpur_tile *tile, gpur_tile_memory memory, gpur_tile_pass_state *state)
{
    const int32_t depth = state->shape.depth;
    gpur_quad *now = memory.chunks, *then = memory.chunks + 2 * GPUR_CHUNK_QUADS;
    for (int i = 0; i < 16; i++)
        state->sum[i] = 0.0f;
    for (int32_t done = 0; done < tile->k_count + depth; done += depth) {
        gpur_chunks_next(at, tile, done, now, then, state);
        gpur_quad *const read = now;
        now = then, then = read;
    }
    if (state->works)
        gpur_worker_store(memory.sums, state->shape, state->worker, state->sum);
}

/* Adds the groups' sums, and stores the tile in C. */
GPUR_FN void gpur_tile_end(gpur_thread at, const gpur_tile *tile, gpur_tile_shape shape, gpur_tile_memory memory)
{
    const float *const sums = (const float *)memory.sums;
    const int32_t numbers = shape.side * shape.side;
    for (int32_t e = at.thread; e < numbers; e += at.threads) {
        const int32_t i = e >> shape.side_shift, j = e & (shape.side - 1);
        float sum = sums[e];
        for (int32_t group = 1; group < shape.groups; group++)
            sum += sums[group * numbers + e];
        if (i < tile->rows && j < tile->columns)
            gpur_tile_store(tile, i, j, sum);
    }
    for (int32_t i = at.thread; gpur_tile_has_sums(tile) && i < tile->rows; i += at.threads)
        gpur_tile_store_sum(tile, i, memory.a_sums[i]);
}

/* Computes one tile. Only the barrier between storing the sums and reading them is needed here: a pass ends when no
 * thread reads its chunks any more, and the pass of the next tile has a barrier before it stores sums. */
GPUR_FN void gpur_tile_parallel(gpur_thread at, const gpur_tile *tile)
{
    GPUR_SHARED(gpur_quad, chunks, 4 * GPUR_CHUNK_QUADS);
    GPUR_SHARED(gpur_quad, sums, GPUR_TILE_SUMS / 4);
    GPUR_SHARED(float, a_sums, GPUR_LARGE_SIDE);
    gpur_tile_memory memory;
    gpur_tile_pass_state state;
    memory.chunks = chunks, memory.sums = sums, memory.a_sums = a_sums;
    state.shape = gpur_tile_shape_of(tile->gemm);
    for (int32_t i = at.thread; i < state.shape.side; i += at.threads)
        a_sums[i] = 0.0f;
    for (int32_t first = 0; first < GPUR_TILE_WORKERS; first += at.threads) {
        state.works = first + at.thread < GPUR_TILE_WORKERS;
        state.worker = gpur_worker_of(state.shape, first + at.thread);
        state.a_sums = first == 0 && gpur_tile_has_sums(tile) ? a_sums : (float *)0;
        gpur_tile_pass(at, tile, memory, &state);
    }
    gpur_barrier(at);
    gpur_tile_end(at, tile, state.shape, memory);
}
