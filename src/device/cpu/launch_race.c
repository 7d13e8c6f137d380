/* SPDX-License-Identifier: MIT */
/* The launcher of the race check. Its threads are reused for all launches of a stream: starting them for each launch
 * took most of the time. */
#include "device/cpu/launch_race.h"

#include "base/thread.h"
#include "device/cpu/cpu.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_WARPS = GPUR_RACE_THREADS / GPUR_WARP, SHARED_BYTES = 65536 };

typedef struct race_pool race_pool;

typedef struct race_block {
    gpur_team team;
    pthread_barrier_t block_barrier;
    pthread_barrier_t warp_barriers[MAX_WARPS];
    jmp_buf escapes[GPUR_RACE_THREADS];
    uint32_t exchange[GPUR_RACE_THREADS];
    _Alignas(64) unsigned char shared[SHARED_BYTES];
} race_block;

typedef struct race_thread {
    race_pool *pool;
    gpur_semaphore start;
    gpur_race_entry entry; /* NULL: the thread ends */
    const void *args;
    gpur_thread at;
    pthread_t id;
} race_thread;

/* The threads that run the launches of one stream. Each stream has its own: shared threads would order streams that are
 * not ordered, and ThreadSanitizer would miss a forgotten event. */
struct race_pool {
    gpur_semaphore done;
    pthread_barrier_t grid_barrier; /* for cooperative launches */
    atomic_int running;
    int started;
    race_thread threads[GPUR_RACE_BLOCKS * GPUR_RACE_THREADS]; /* the first `started` exist */
    race_block blocks[GPUR_RACE_BLOCKS];
};

static gpur_status create_pool(gpur_device *device, race_pool **out)
{
    race_pool *const pool = (race_pool *)gpur_host_alloc(device, sizeof *pool);
    if (!pool)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the threads of the race check, %zu bytes", sizeof *pool);
    gpur_semaphore_open(&pool->done);
    *out = pool;
    return GPUR_OK;
}

static void destroy_pool(gpur_device *device, race_pool *pool)
{
    if (!pool)
        return;
    for (int i = 0; i < pool->started; i++) {
        pool->threads[i].entry = NULL;
        gpur_semaphore_post(&pool->threads[i].start);
        pthread_join(pool->threads[i].id, NULL);
        gpur_semaphore_close(&pool->threads[i].start);
    }
    gpur_semaphore_close(&pool->done);
    gpur_host_free(device, pool, sizeof *pool);
}

/* A kernel that needs too much shared memory, or calls a grid sync in a launch that is not cooperative, returns here by
 * longjmp: see kernels/target/race.h. */
static void run_entry(const race_thread *thread)
{
    if (setjmp(thread->at.team->escapes[thread->at.thread]) == 0)
        thread->entry(thread->at, thread->args);
}

static void *work(void *context)
{
    race_thread *const thread = (race_thread *)context;
    for (;;) {
        gpur_semaphore_wait(&thread->start);
        if (!thread->entry)
            return NULL;
        run_entry(thread);
        if (atomic_fetch_sub(&thread->pool->running, 1) == 1)
            gpur_semaphore_post(&thread->pool->done);
    }
}

/* Starts all threads of a launch before any of them runs it: a block with too few threads would hang at its
 * barriers. */
static gpur_status start_threads(race_pool *pool, int count)
{
    while (pool->started < count) {
        race_thread *const thread = &pool->threads[pool->started];
        thread->pool = pool;
        gpur_semaphore_open(&thread->start);
        const gpur_status status = gpur_thread_start(&thread->id, work, thread, "the race check");
        if (status != GPUR_OK) {
            gpur_semaphore_close(&thread->start);
            return status;
        }
        pool->started++;
    }
    return GPUR_OK;
}

/* On a GPU, shared memory is uninitialized at first. Here it is filled with bits that are NaN as a float and nonsense
 * as an index. */
static void open_block(race_block *block, int threads, pthread_barrier_t *grid_barrier)
{
    memset(block->shared, 0xff, sizeof block->shared);
    pthread_barrier_init(&block->block_barrier, NULL, (unsigned)threads);
    for (int warp = 0; warp < threads / GPUR_WARP; warp++)
        pthread_barrier_init(&block->warp_barriers[warp], NULL, GPUR_WARP);
    block->team = (gpur_team){.block_barrier = &block->block_barrier,
                              .warp_barriers = block->warp_barriers,
                              .grid_barrier = grid_barrier,
                              .exchange = block->exchange,
                              .escapes = block->escapes,
                              .shared = block->shared,
                              .shared_bytes = SHARED_BYTES};
}

static void close_block(race_block *block, int threads)
{
    for (int warp = 0; warp < threads / GPUR_WARP; warp++)
        pthread_barrier_destroy(&block->warp_barriers[warp]);
    pthread_barrier_destroy(&block->block_barrier);
}

static gpur_status check_block(const gpur_team *team)
{
    if (team->shared_needed)
        return gpur_fail(GPUR_DEVICE_ERROR, "a kernel takes %" PRId64 " bytes of shared memory; a block has %d",
                         team->shared_needed, SHARED_BYTES);
    if (team->sync_not_cooperative)
        return gpur_fail(GPUR_DEVICE_ERROR, "a grid sync in a kernel whose launch is not cooperative");
    return GPUR_OK;
}

static void open_blocks(race_pool *pool, gpur_grid grid, int count)
{
    pthread_barrier_t *const grid_barrier = grid.cooperative ? &pool->grid_barrier : NULL;
    if (grid_barrier)
        pthread_barrier_init(grid_barrier, NULL, (unsigned)(count * grid.threads));
    for (int b = 0; b < count; b++)
        open_block(&pool->blocks[b], grid.threads, grid_barrier);
}

static gpur_status close_blocks(race_pool *pool, gpur_grid grid, int count)
{
    if (grid.cooperative)
        pthread_barrier_destroy(&pool->grid_barrier);
    for (int b = 0; b < count; b++)
        close_block(&pool->blocks[b], grid.threads);
    for (int b = 0; b < count; b++)
        GPUR_TRY(check_block(&pool->blocks[b].team));
    return GPUR_OK;
}

/* Runs blocks `first` to `first + count - 1` of the grid, all at the same time, and waits for them. `count` is at most
 * GPUR_RACE_BLOCKS; for a cooperative launch it is the whole grid. */
static gpur_status run_blocks(race_pool *pool, gpur_race_entry entry, const void *args, gpur_grid grid, int64_t first,
                              int count)
{
    const int threads = grid.threads, all = count * threads;
    GPUR_TRY(start_threads(pool, all));
    open_blocks(pool, grid, count);
    atomic_store(&pool->running, all);
    for (int i = 0; i < all; i++) {
        race_thread *const thread = &pool->threads[i];
        const gpur_thread at = {.block = first + i / threads,
                                .blocks = grid.blocks,
                                .thread = i % threads,
                                .threads = threads,
                                .team = &pool->blocks[i / threads].team};
        thread->entry = entry, thread->args = args, thread->at = at;
        gpur_semaphore_post(&thread->start);
    }
    gpur_semaphore_wait(&pool->done);
    return close_blocks(pool, grid, count);
}

/*
 * Blocks of a kernel in the race check: a block is several real threads with shared memory and real barriers, and
 * several blocks run at the same time (all blocks of a cooperative launch). ThreadSanitizer then reports what would be
 * a race on a GPU. This is slow by design.
 */

/* An odd number of blocks and several warps, so that spans have different lengths. */
enum { DEFAULT_BLOCKS = 3, DEFAULT_THREADS = 2 * GPUR_WARP };

static int32_t whole_warps(int32_t threads)
{
    const int32_t wanted = threads < 1 ? DEFAULT_THREADS : threads < GPUR_RACE_THREADS ? threads : GPUR_RACE_THREADS;
    return (wanted + GPUR_WARP - 1) / GPUR_WARP * GPUR_WARP;
}

gpur_status gpur_race_run(gpur_stream *stream, gpur_race_entry entry, gpur_grid grid, const void *args)
{
    void **const own = gpur_cpu_stream_launcher(stream);
    grid.threads = whole_warps(grid.threads);
    if (!*own)
        GPUR_TRY(create_pool(stream->device, (race_pool **)own));
    for (int64_t first = 0; first < grid.blocks; first += GPUR_RACE_BLOCKS) {
        const int64_t left = grid.blocks - first;
        GPUR_TRY(run_blocks((race_pool *)*own, entry, args, grid, first,
                            left < GPUR_RACE_BLOCKS ? (int)left : GPUR_RACE_BLOCKS));
    }
    return GPUR_OK;
}

gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args)
{
    return gpur_race_run(stream, gpur_race_entries[kernel], grid, args);
}

void gpur_cpu_stream_launcher_close(gpur_stream *stream)
{
    destroy_pool(stream->device, (race_pool *)*gpur_cpu_stream_launcher(stream));
}

gpur_status gpur_cpu_launcher_open(gpur_device *device)
{
    device->threads = 1;
    gpur_cpu_of(device)->kernels = "race check";
    return GPUR_OK;
}

void gpur_cpu_launcher_close(gpur_device *device)
{
    (void)device;
}

void gpur_cpu_run_pieces(gpur_device *device, int64_t pieces, int where, gpur_cpu_entry run, const void *args)
{
    (void)device, (void)where;
    for (int64_t piece = 0; piece < pieces; piece++)
        run(piece, pieces, args);
}

gpur_grid gpur_cpu_grid_elements(const gpur_device *device, int64_t n)
{
    (void)device, (void)n;
    return (gpur_grid){.blocks = DEFAULT_BLOCKS, .threads = DEFAULT_THREADS};
}

gpur_grid gpur_cpu_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes)
{
    (void)rows_per_block, (void)bytes;
    return gpur_cpu_grid_elements(device, n);
}

const int32_t gpur_cpu_has_warps = 1;

gpur_grid gpur_cpu_grid_single(const gpur_device *device)
{
    (void)device;
    return (gpur_grid){.blocks = 1, .threads = DEFAULT_THREADS};
}

/* Launch shapes that are fast on a GPU have more threads than are useful here. A test may force more. */
gpur_grid gpur_cpu_grid_cooperative(const gpur_device *device, int kernel, gpur_grid wanted)
{
    const int32_t limit = device->forced_grid.blocks > 0 ? GPUR_RACE_THREADS : DEFAULT_THREADS;
    (void)kernel;
    wanted.blocks = wanted.blocks < 1 ? 1 : wanted.blocks < GPUR_RACE_BLOCKS ? wanted.blocks : GPUR_RACE_BLOCKS;
    wanted.threads = whole_warps(wanted.threads < limit ? wanted.threads : limit);
    return wanted;
}
