/* SPDX-License-Identifier: MIT */
/*
 * Blocks of a kernel in the race check: each is several real threads that share memory and meet at real barriers, and
 * several blocks run at once: all of them where they meet. ThreadSanitizer then sees what would race on a GPU. Slow,
 * and meant to be.
 */
#include "device/blocks_race_cpu.h"

#include "device/cpu.h"

/* An odd number of blocks and several warps, so that no span comes out even. */
enum { DEFAULT_BLOCKS = 3, DEFAULT_THREADS = 2 * GPUR_WARP };

static int32_t whole_warps(int32_t threads)
{
    const int32_t wanted = threads < 1 ? DEFAULT_THREADS : threads < GPUR_RACE_THREADS ? threads : GPUR_RACE_THREADS;
    return (wanted + GPUR_WARP - 1) / GPUR_WARP * GPUR_WARP;
}

gpur_status gpur_race_run(gpur_stream *stream, gpur_race_entry entry, gpur_grid grid, const void *args)
{
    void **const own = gpur_cpu_stream_blocks(stream);
    grid.threads = whole_warps(grid.threads);
    if (!*own)
        GPUR_TRY(gpur_race_pool_create(stream->device, (gpur_race_pool **)own));
    for (int64_t first = 0; first < grid.blocks; first += GPUR_RACE_BLOCKS) {
        const int64_t left = grid.blocks - first;
        GPUR_TRY(gpur_race_pool_run((gpur_race_pool *)*own, entry, args, grid, first,
                                    left < GPUR_RACE_BLOCKS ? (int)left : GPUR_RACE_BLOCKS));
    }
    return GPUR_OK;
}

gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args)
{
    return gpur_race_run(stream, gpur_race_entries[kernel], grid, args);
}

void gpur_cpu_stream_blocks_close(gpur_stream *stream)
{
    gpur_race_pool_destroy(stream->device, (gpur_race_pool *)*gpur_cpu_stream_blocks(stream));
}

gpur_status gpur_cpu_blocks_open(gpur_device *device)
{
    device->threads = 1;
    gpur_cpu_of(device)->kernels = "race check";
    return GPUR_OK;
}

void gpur_cpu_blocks_close(gpur_device *device)
{
    (void)device;
}

void gpur_cpu_run_parts(gpur_device *device, int64_t parts, int where, gpur_cpu_entry run, const void *args)
{
    (void)device, (void)where;
    for (int64_t part = 0; part < parts; part++)
        run(part, parts, args);
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

gpur_grid gpur_cpu_grid_single(const gpur_device *device)
{
    (void)device;
    return (gpur_grid){.blocks = 1, .threads = DEFAULT_THREADS};
}

/* Shapes that are good for a GPU have more threads than show anything here; a test forces what it wants. */
gpur_grid gpur_cpu_grid_together(const gpur_device *device, int kernel, gpur_grid wanted)
{
    const int32_t most = device->forced_grid.blocks > 0 ? GPUR_RACE_THREADS : DEFAULT_THREADS;
    (void)kernel;
    wanted.blocks = wanted.blocks < 1 ? 1 : wanted.blocks < GPUR_RACE_BLOCKS ? wanted.blocks : GPUR_RACE_BLOCKS;
    wanted.threads = whole_warps(wanted.threads < most ? wanted.threads : most);
    return wanted;
}
