/* SPDX-License-Identifier: MIT */
/* The race check's threads, kept from launch to launch: starting them anew took most of the time. */
#include "device/blocks_race_cpu.h"

#include "base/thread.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_WARPS = GPUR_RACE_THREADS / GPUR_WARP, SHARED_BYTES = 65536 };

typedef struct race_block {
    gpur_team team;
    pthread_barrier_t block_barrier;
    pthread_barrier_t warp_barriers[MAX_WARPS];
    jmp_buf escapes[GPUR_RACE_THREADS];
    uint32_t exchange[GPUR_RACE_THREADS];
    _Alignas(64) unsigned char shared[SHARED_BYTES];
} race_block;

typedef struct race_thread {
    gpur_race_pool *pool;
    sem_t start;
    gpur_race_entry entry; /* NULL: end */
    const void *args;
    gpur_place at;
    pthread_t id;
} race_thread;

struct gpur_race_pool {
    sem_t done;
    pthread_barrier_t grid_barrier; /* where blocks are launched together */
    atomic_int running;
    int started;
    race_thread threads[GPUR_RACE_BLOCKS * GPUR_RACE_THREADS]; /* the first `started` are there */
    race_block blocks[GPUR_RACE_BLOCKS];
};

gpur_status gpur_race_pool_create(gpur_device *device, gpur_race_pool **out)
{
    gpur_race_pool *const pool = (gpur_race_pool *)gpur_host_alloc(device, sizeof *pool);
    if (!pool)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for the threads of the race check, %zu bytes", sizeof *pool);
    sem_init(&pool->done, 0, 0);
    *out = pool;
    return GPUR_OK;
}

void gpur_race_pool_destroy(gpur_device *device, gpur_race_pool *pool)
{
    if (!pool)
        return;
    for (int i = 0; i < pool->started; i++) {
        pool->threads[i].entry = NULL;
        sem_post(&pool->threads[i].start);
        pthread_join(pool->threads[i].id, NULL);
        sem_destroy(&pool->threads[i].start);
    }
    sem_destroy(&pool->done);
    gpur_host_free(device, pool, sizeof *pool);
}

/* A kernel that wants more shared memory than there is, or meets nobody, comes back by longjmp: see target_race.h. */
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
            sem_post(&thread->pool->done);
    }
}

/* All threads of a launch are there before the first of them begins: half a block would wait at its barriers. */
static gpur_status start_threads(gpur_race_pool *pool, int count)
{
    while (pool->started < count) {
        race_thread *const thread = &pool->threads[pool->started];
        thread->pool = pool;
        sem_init(&thread->start, 0, 0);
        const gpur_status status = gpur_thread_start(&thread->id, work, thread, "the race check");
        if (status != GPUR_OK) {
            sem_destroy(&thread->start);
            return status;
        }
        pool->started++;
    }
    return GPUR_OK;
}

/* Shared memory of a GPU holds anything at first: here bits that are NaN as a float and nonsense as an index. */
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
    if (team->shared_wanted)
        return gpur_fail(GPUR_DEVICE_ERROR, "a kernel takes %" PRId64 " bytes of shared memory; a block has %d",
                         team->shared_wanted, SHARED_BYTES);
    if (team->met_alone)
        return gpur_fail(GPUR_DEVICE_ERROR, "a kernel meets whose blocks were not launched together");
    return GPUR_OK;
}

static void open_blocks(gpur_race_pool *pool, gpur_grid grid, int count)
{
    pthread_barrier_t *const grid_barrier = grid.together ? &pool->grid_barrier : NULL;
    if (grid_barrier)
        pthread_barrier_init(grid_barrier, NULL, (unsigned)(count * grid.threads));
    for (int b = 0; b < count; b++)
        open_block(&pool->blocks[b], grid.threads, grid_barrier);
}

static gpur_status close_blocks(gpur_race_pool *pool, gpur_grid grid, int count)
{
    if (grid.together)
        pthread_barrier_destroy(&pool->grid_barrier);
    for (int b = 0; b < count; b++)
        close_block(&pool->blocks[b], grid.threads);
    for (int b = 0; b < count; b++)
        GPUR_TRY(check_block(&pool->blocks[b].team));
    return GPUR_OK;
}

gpur_status gpur_race_pool_run(gpur_race_pool *pool, gpur_race_entry entry, const void *args, gpur_grid grid,
                               int64_t first, int count)
{
    const int threads = grid.threads, all = count * threads;
    GPUR_TRY(start_threads(pool, all));
    open_blocks(pool, grid, count);
    atomic_store(&pool->running, all);
    for (int i = 0; i < all; i++) {
        race_thread *const thread = &pool->threads[i];
        const gpur_place at = {.block = first + i / threads,
                               .blocks = grid.blocks,
                               .thread = i % threads,
                               .threads = threads,
                               .team = &pool->blocks[i / threads].team};
        thread->entry = entry, thread->args = args, thread->at = at;
        sem_post(&thread->start);
    }
    gpur_semaphore_wait(&pool->done);
    return close_blocks(pool, grid, count);
}
