/* SPDX-License-Identifier: MIT */
/*
 * The parallel body of a task: a block computes one tile. Chunks of A and B go through shared memory, transposed so
 * that k comes first. A chunk is as deep as shared memory allows, since each one costs a round trip to the second-level
 * cache: a thread has all its loads of a chunk in flight at once, and those of the next one while this one is
 * multiplied.
 *
 * A worker is a thread with 4 x 4 sums. A small tile has few of them, so several groups of workers share the k: group g
 * takes k = g, g + groups, and so on. Their sums are added at the end, in the order of the groups. A block with fewer
 * threads than that goes over k several times, each time for some of the tile's numbers.
 */
#pragma once

#include "kernels/fused/tile_gemm.h"

enum {
    GPUR_SMALL_GROUPS = 4,
    GPUR_TILE_LOADS = 4,  /* loads of four numbers that a thread has in flight, of A and of B each */
    GPUR_ROW_PADDING = 4, /* numbers; with them threads that transpose a chunk write to different banks */
    GPUR_CHUNK_NUMBERS = GPUR_LARGE_SIDE * GPUR_LARGE_SIDE, /* without the padding, of small tiles, too */
    GPUR_CHUNK_QUADS = GPUR_CHUNK_NUMBERS / GPUR_SMALL_SIDE * (GPUR_SMALL_SIDE + GPUR_ROW_PADDING) / 4,
    GPUR_MAX_WORKERS = GPUR_CHUNK_NUMBERS / 16,
};

/* Four numbers that are copied at once. */
typedef struct gpur_quad {
    float v[4];
} __attribute__((aligned(16))) gpur_quad;

/* The sizes of small or large tiles, all powers of two. Both kinds share one code path, since a step runs much of its
 * code only once and has to fetch all of it. */
typedef struct gpur_tile_shape {
    int32_t side, side_shift, depth, groups;
} gpur_tile_shape;

GPUR_FN gpur_tile_shape gpur_tile_shape_of(const gpur_tile_gemm *p)
{
    gpur_tile_shape shape;
    shape.side_shift = gpur_tile_width_shift(p);
    shape.side = 1 << shape.side_shift;
    shape.depth = GPUR_CHUNK_NUMBERS >> shape.side_shift;
    shape.groups = p->large ? 1 : GPUR_SMALL_GROUPS;
    return shape;
}

/* The part of an operand that a chunk holds. `rows` rows from `row` on and `k_count` numbers k from `k` on exist. The
 * chunk holds k up to the next multiple of 4, with zeros for what does not exist. */
typedef struct gpur_chunk {
    const gpur_gemm_operand *operand;
    int32_t row, rows, k, k_count;
} gpur_chunk;

GPUR_FN gpur_chunk gpur_chunk_of(const gpur_tile *tile, int is_b, int32_t done, gpur_tile_shape shape)
{
    gpur_chunk chunk;
    chunk.operand = is_b ? &tile->gemm->b : &tile->gemm->a;
    chunk.row = is_b ? tile->column : tile->row;
    chunk.rows = is_b ? tile->columns : tile->rows;
    chunk.k = tile->k + done;
    chunk.k_count = gpur_min_i32(tile->k_count - done, shape.depth);
    return chunk;
}

/* How many k the chunk holds. */
GPUR_FN int32_t gpur_chunk_depth(const gpur_chunk *chunk)
{
    return (chunk->k_count + 3) & ~3;
}

/* Four neighboring numbers of a chunk: along k if k is contiguous in memory, else along the rows. */
typedef struct gpur_place {
    int32_t row, k; /* of the first */
    int32_t along_k;
} gpur_place;

/* Place number e. A warp loads runs of 16 k from 8 rows, or a run of rows. Neither the store of a run nor its
 * transposition has many threads write to the same bank. k is the slowest, so that a shallow chunk needs few loads. */
GPUR_FN gpur_place gpur_place_of(const gpur_chunk *chunk, gpur_tile_shape shape, int32_t e)
{
    gpur_place place;
    place.along_k = chunk->operand->step == 1;
    if (place.along_k) {
        place.row = e >> 2 & (shape.side - 1);
        place.k = (e & 3) * 4 + (e >> (2 + shape.side_shift)) * 16;
    } else {
        place.row = (e & (shape.side / 4 - 1)) * 4;
        place.k = e >> (shape.side_shift - 2);
    }
    return place;
}

/* How many of the four numbers exist; 0 or less: none. */
GPUR_FN int32_t gpur_place_count(const gpur_chunk *chunk, gpur_place place)
{
    if (place.along_k)
        return place.row < chunk->rows ? chunk->k_count - place.k : 0;
    return place.k < chunk->k_count ? chunk->rows - place.row : 0;
}

/* Loads four numbers from `from` on, or zeros if they do not exist. Nothing is computed from them here: that would wait
 * for the load. */
GPUR_FN gpur_quad gpur_quad_load(const float *from, int exists)
{
    gpur_quad quad = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (exists)
        quad = *(const gpur_quad *)from;
    return quad;
}

/* Loads `count` numbers, at most 4, that may be anywhere; zeros in place of the others. */
GPUR_FN gpur_quad gpur_quad_gather(const gpur_gemm_operand *f, const float *from, int32_t count)
{
    const int64_t stride = f->step == 1 ? 1 : f->row;
    gpur_quad quad;
    for (int j = 0; j < 4; j++)
        quad.v[j] = j < count ? from[j * stride] : 0.0f;
    return quad;
}

/* Adds the other splits, in their order, and multiplies by the derivative. The loads of four splits are in flight
 * together. */
GPUR_FN void gpur_quad_finish(const gpur_gemm_operand *f, int64_t offset, gpur_quad *quad)
{
    const gpur_quad y = gpur_quad_load(f->y + offset, 1);
    for (int32_t split = 1; split < f->k_splits; split += 4) {
        gpur_quad more[4];
        for (int n = 0; n < 4; n++)
            more[n] = gpur_quad_load(f->x + (split + n) * f->k_split_step + offset, split + n < f->k_splits);
        for (int n = 0; n < 4; n++)
            for (int j = 0; j < 4; j++)
                quad->v[j] += more[n].v[j];
    }
    for (int j = 0; j < 4; j++)
        quad->v[j] *= gpur_activation_derivative(y.v[j], f->activation);
}

/* Loads this thread's places first + thread, first + thread + threads, ... Nothing here waits for a load unless the
 * numbers are added to other splits and multiplied by a derivative, which only those of A are. */
GPUR_FN void gpur_chunk_load(gpur_thread at, const gpur_chunk *chunk, gpur_tile_shape shape, int32_t first, int is_a,
                             gpur_quad *quads)
{
    const gpur_gemm_operand *const f = chunk->operand;
    int64_t from[GPUR_TILE_LOADS];
    int32_t count[GPUR_TILE_LOADS];
    for (int n = 0; n < GPUR_TILE_LOADS; n++) {
        const gpur_place place = gpur_place_of(chunk, shape, first + n * at.threads + at.thread);
        from[n] = (chunk->row + place.row) * f->row + (chunk->k + place.k) * f->step;
        count[n] = gpur_place_count(chunk, place);
    }
    for (int n = 0; n < GPUR_TILE_LOADS; n++)
        quads[n] =
            f->in_quads ? gpur_quad_load(f->x + from[n], count[n] > 0) : gpur_quad_gather(f, f->x + from[n], count[n]);
    for (int n = 0; n < GPUR_TILE_LOADS && is_a; n++)
        if (f->y && count[n] > 0)
            gpur_quad_finish(f, from[n], &quads[n]);
}

/* Stores the loaded numbers in shared memory, and zeros for those that do not exist. */
GPUR_FN void gpur_chunk_store(gpur_thread at, const gpur_chunk *chunk, gpur_tile_shape shape, int32_t first,
                              const gpur_quad *quads, gpur_quad *to)
{
    const int32_t pitch = shape.side + GPUR_ROW_PADDING, depth = gpur_chunk_depth(chunk);
    float *const numbers = (float *)to;
    for (int n = 0; n < GPUR_TILE_LOADS; n++) {
        const gpur_place place = gpur_place_of(chunk, shape, first + n * at.threads + at.thread);
        const int32_t index = place.k * pitch + place.row, count = gpur_place_count(chunk, place);
        gpur_quad quad;
        for (int j = 0; j < 4; j++)
            quad.v[j] = j < count ? quads[n].v[j] : 0.0f;
        if (place.k < depth && place.along_k)
            for (int j = 0; j < 4; j++)
                numbers[index + j * pitch] = quad.v[j];
        else if (place.k < depth)
            to[index / 4] = quad;
    }
}

/* The next chunks of A and B, and their numbers that are in flight. */
typedef struct gpur_chunks_in_flight {
    gpur_chunk a, b;
    gpur_quad a_quads[GPUR_TILE_LOADS], b_quads[GPUR_TILE_LOADS];
} gpur_chunks_in_flight;

GPUR_FN void gpur_chunks_load(gpur_thread at, const gpur_tile *tile, gpur_tile_shape shape, int32_t done, int32_t first,
                              gpur_chunks_in_flight *in_flight)
{
    in_flight->a = gpur_chunk_of(tile, 0, done, shape);
    in_flight->b = gpur_chunk_of(tile, 1, done, shape);
    gpur_chunk_load(at, &in_flight->a, shape, first, 1, in_flight->a_quads);
    gpur_chunk_load(at, &in_flight->b, shape, first, 0, in_flight->b_quads);
}

/* The group of a worker, and the position of its 4 x 4 sums in the tile. */
typedef struct gpur_worker {
    int32_t group, row, column; /* row, column: in units of 4 */
    int32_t works;              /* 0: this thread has no worker in this pass */
} gpur_worker;

/* This thread's worker in the pass for the positions from `first` on, `count` of them. */
GPUR_FN gpur_worker gpur_worker_of(gpur_thread at, gpur_tile_shape shape, int32_t first, int32_t count)
{
    const int32_t shift = shape.side_shift - 2; /* of the number of workers across the tile */
    const int32_t group = (int32_t)((uint32_t)at.thread / (uint32_t)count);
    const int32_t position = first + at.thread - group * count;
    gpur_worker w;
    w.group = group;
    w.row = position >> shift;
    w.column = position & ((1 << shift) - 1);
    w.works = group < shape.groups && position < 1 << 2 * shift;
    return w;
}

/* Adds the products of the chunks to a worker's sums. */
GPUR_FN void gpur_worker_add(const gpur_quad *chunks, gpur_tile_shape shape, int32_t depth, gpur_worker w, float *sum)
{
    const int32_t pitch = (shape.side + GPUR_ROW_PADDING) / 4;
    const gpur_quad *a = chunks + w.group * pitch + w.row;
    const gpur_quad *b = chunks + GPUR_CHUNK_QUADS + w.group * pitch + w.column;
    for (int32_t k = w.group; k < depth; k += shape.groups, a += shape.groups * pitch, b += shape.groups * pitch) {
        const gpur_quad x = *a, y = *b;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                sum[4 * i + j] += x.v[i] * y.v[j];
    }
}

/* Adds a chunk of A to the sums of its rows. The sum of a row belongs to the same thread throughout, so it needs no
 * barrier. */
GPUR_FN void gpur_chunk_sums(gpur_thread at, const gpur_quad *chunk, gpur_tile_shape shape, int32_t depth,
                             float *a_sums)
{
    const float *const numbers = (const float *)chunk;
    for (int32_t i = at.thread; i < shape.side; i += at.threads) {
        float sum = a_sums[i];
        for (int32_t k = 0; k < depth; k++)
            sum += numbers[k * (shape.side + GPUR_ROW_PADDING) + i];
        a_sums[i] = sum;
    }
}

/* One pass over all k of the tile. `a_sums`: NULL if they are not wanted, or computed in an earlier pass. Each round
 * loads the next chunk, or, in a block with few threads, a part of it, and first multiplies the chunk before. */
GPUR_FN void gpur_tile_pass(gpur_thread at, const gpur_tile *tile, gpur_tile_shape shape, gpur_worker worker,
                            gpur_quad *chunks, float *a_sums, float *sum)
{
    gpur_chunks_in_flight next;
    int32_t depth = 0; /* of the chunk in shared memory, that is not multiplied yet */
    for (int i = 0; i < 16; i++)
        sum[i] = 0.0f;
    for (int32_t done = 0, first = 0; done < tile->k_count || depth > 0;) {
        const int more = done < tile->k_count;
        if (more)
            gpur_chunks_load(at, tile, shape, done, first, &next);
        if (depth > 0) {
            if (worker.works)
                gpur_worker_add(chunks, shape, depth, worker, sum);
            if (a_sums)
                gpur_chunk_sums(at, chunks, shape, depth, a_sums);
            gpur_barrier(at);
        }
        depth = 0;
        if (more) {
            gpur_chunk_store(at, &next.a, shape, first, next.a_quads, chunks);
            gpur_chunk_store(at, &next.b, shape, first, next.b_quads, chunks + GPUR_CHUNK_QUADS);
            first += GPUR_TILE_LOADS * at.threads;
        }
        if (more && first >= GPUR_CHUNK_NUMBERS / 4) {
            depth = gpur_chunk_depth(&next.a);
            first = 0, done += shape.depth;
            gpur_barrier(at);
        }
    }
}

/* Adds the groups' sums, and stores them in C. A thread stores the rows of its worker's position whose number, modulo
 * the number of groups, is its group. `count`: positions of the pass. */
GPUR_FN void gpur_tile_end(gpur_thread at, const gpur_tile *tile, gpur_tile_shape shape, gpur_worker w, int32_t count,
                           gpur_quad *sums, const float *sum, const float *bias)
{
    const int32_t position = at.thread - w.group * count;
    for (int r = 0; r < 4 && w.works; r++)
        for (int j = 0; j < 4; j++)
            sums[(w.group * 4 + r) * count + position].v[j] = sum[4 * r + j];
    gpur_barrier(at);
    for (int32_t r = w.group; r < 4 && w.works; r += shape.groups) {
        gpur_quad total = sums[r * count + position];
        for (int32_t group = 1; group < shape.groups; group++)
            for (int j = 0; j < 4; j++)
                total.v[j] += sums[(group * 4 + r) * count + position].v[j];
        for (int j = 0; j < 4; j++)
            if (4 * w.row + r < tile->rows && 4 * w.column + j < tile->columns)
                gpur_tile_store(tile, 4 * w.row + r, 4 * w.column + j, total.v[j], bias[j]);
    }
    gpur_barrier(at);
}

/* Computes one tile. The sums take the place of the chunks, which no thread reads any more when a pass has ended. */
GPUR_FN void gpur_tile_parallel(gpur_thread at, const gpur_tile *tile)
{
    GPUR_SHARED(gpur_quad, chunks, 2 * GPUR_CHUNK_QUADS);
    GPUR_SHARED(float, a_sums, GPUR_LARGE_SIDE);
    const gpur_tile_shape shape = gpur_tile_shape_of(tile->gemm);
    const int32_t threads = gpur_min_i32(at.threads, GPUR_MAX_WORKERS);
    const int32_t count = threads / shape.groups > 0 ? threads / shape.groups : 1; /* positions of a pass */
    for (int32_t i = at.thread; i < shape.side; i += at.threads)
        a_sums[i] = 0.0f;
    for (int32_t first = 0; first < shape.side * shape.side / 16; first += count) {
        const gpur_worker worker = gpur_worker_of(at, shape, first, count);
        float sum[16], bias[4];
        for (int j = 0; j < 4; j++)
            bias[j] = gpur_tile_bias(tile, 4 * worker.column + j);
        gpur_tile_pass(at, tile, shape, worker, chunks, first == 0 && gpur_tile_has_sums(tile) ? a_sums : (float *)0,
                       sum);
        gpur_tile_end(at, tile, shape, worker, count, chunks, sum, bias);
    }
    for (int32_t i = at.thread; gpur_tile_has_sums(tile) && i < tile->rows; i += at.threads)
        *gpur_tile_sum_at(tile, i) = a_sums[i];
}
