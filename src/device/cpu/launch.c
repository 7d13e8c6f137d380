/* SPDX-License-Identifier: MIT */
/* Launches on the CPU: a block of a kernel is one call, by the calling thread or one of its helpers. */
#include "device/cpu/cpu.h"

#include <stdlib.h>

/* A block is about ten microseconds of work: for less, a helper does not pay. There are more blocks than threads, so
 * that a helper that starts late still finds some, and one that loses its core delays only a small block. */
enum { ELEMENTS_PER_BLOCK = 16384, BYTES_PER_BLOCK = 65536, BLOCKS_A_THREAD = 4 };

/* OMP_NUM_THREADS is the usual setting for all libraries; of a list such as "4,2" the first number counts. */
static int32_t threads_of_environment(void)
{
    const char *const text = getenv("OMP_NUM_THREADS");
    const long threads = text ? strtol(text, NULL, 10) : 0;
    return threads > 0 && threads <= GPUR_MAX_THREADS ? (int32_t)threads : 0;
}

static int32_t threads_of_machine(void)
{
    const int32_t ours = gpur_usable_cores();
    return ours < GPUR_MAX_THREADS ? ours : GPUR_MAX_THREADS;
}

static int32_t threads_for(int32_t wanted)
{
    const int32_t of_environment = threads_of_environment();
    return wanted > 0 ? wanted : of_environment > 0 ? of_environment : threads_of_machine();
}

gpur_status gpur_cpu_launcher_open(gpur_device *device)
{
    gpur_cpu *const cpu = gpur_cpu_of(device);
    device->threads = threads_for(device->config.threads);
    cpu->entries = gpur_cpu_entries_v1;
    cpu->kernels = "baseline";
#ifdef GPUR_HAS_CPU_VARIANTS
    const int level = gpur_cpu_level();
    if (level == 4)
        cpu->entries = gpur_cpu_entries_v4, cpu->kernels = "x86-64-v4";
    else if (level == 3)
        cpu->entries = gpur_cpu_entries_v3, cpu->kernels = "x86-64-v3";
#endif
    return gpur_helpers_open(&cpu->helpers, device, device->threads);
}

void gpur_cpu_launcher_close(gpur_device *device)
{
    gpur_helpers_close(&gpur_cpu_of(device)->helpers);
}

void gpur_cpu_run_pieces(gpur_device *device, int64_t pieces, int where, gpur_cpu_entry run, const void *args)
{
    gpur_helpers_run(&gpur_cpu_of(device)->helpers, pieces, where, run, args);
}

void gpur_cpu_stream_launcher_close(gpur_stream *stream)
{
    (void)stream; /* the launcher stores nothing in a stream */
}

/* Where a kernel's operands are: a learner's were just computed and are in the cache; rows of a replay are not. */
static int where_of(int kernel)
{
#define CASE(name) case GPUR_KERNEL_ID_##name:
    switch (kernel) {
        GPUR_LEARN_KERNEL_LIST(CASE)
        GPUR_CONV_KERNEL_LIST(CASE)
        return GPUR_IN_CACHE;
    default:
        return GPUR_IN_MEMORY;
    }
#undef CASE
}

gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args)
{
    const gpur_cpu_entry run = gpur_cpu_of(stream->device)->entries[kernel];
    gpur_cpu_run_pieces(stream->device, grid.blocks, where_of(kernel), run, args);
    return GPUR_OK;
}

static gpur_grid blocks_for(const gpur_device *device, int64_t wanted)
{
    const int64_t limit = device->threads == 1 ? 1 : (int64_t)device->threads * BLOCKS_A_THREAD;
    const int64_t blocks = wanted < limit ? wanted : limit;
    return (gpur_grid){.blocks = blocks > 1 ? blocks : 1, .threads = 1};
}

gpur_grid gpur_cpu_grid_elements(const gpur_device *device, int64_t n)
{
    return blocks_for(device, n / ELEMENTS_PER_BLOCK);
}

gpur_grid gpur_cpu_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes)
{
    (void)rows_per_block; /* used on GPUs only */
    const int64_t by_bytes = (int64_t)((double)n * (double)bytes / BYTES_PER_BLOCK);
    return blocks_for(device, by_bytes < n ? by_bytes : n);
}

const int32_t gpur_cpu_has_warps = 0;

gpur_grid gpur_cpu_grid_single(const gpur_device *device)
{
    (void)device;
    return (gpur_grid){.blocks = 1, .threads = 1};
}

/* A grid sync over one block needs no synchronization; kernels/target/cpu.h relies on that. */
gpur_grid gpur_cpu_grid_cooperative(const gpur_device *device, int kernel, gpur_grid wanted)
{
    (void)device, (void)kernel;
    return (gpur_grid){.blocks = 1, .threads = 1, .cooperative = wanted.cooperative};
}
