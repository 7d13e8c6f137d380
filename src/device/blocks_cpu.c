/* SPDX-License-Identifier: MIT */
/* Blocks of a kernel on the CPU: each is one call, and OpenMP deals them out to the cores. */
#include "device/cpu.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* Waking a team takes microseconds; less work than this is done sooner alone. */
enum { ELEMENTS_PER_BLOCK = 16384, BYTES_PER_BLOCK = 65536 };

static int32_t threads_for(int32_t wanted)
{
#ifdef _OPENMP
    return wanted > 0 ? wanted : omp_get_max_threads();
#else
    (void)wanted;
    return 1;
#endif
}

void gpur_cpu_blocks_open(gpur_device *device)
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
}

void gpur_cpu_run_parts(const gpur_device *device, int64_t parts, gpur_cpu_entry run, const void *args)
{
    if (parts == 1) {
        run(0, 1, args);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(device->threads) schedule(static)
#else
    (void)device;
#endif
    for (int64_t part = 0; part < parts; part++)
        run(part, parts, args);
}

void gpur_cpu_stream_blocks_close(gpur_stream *stream)
{
    (void)stream; /* nothing is kept: OpenMP has its threads */
}

gpur_status gpur_cpu_run_kernel(gpur_stream *stream, int kernel, gpur_grid grid, const void *args)
{
    gpur_cpu_run_parts(stream->device, grid.blocks, gpur_cpu_of(stream->device)->entries[kernel], args);
    return GPUR_OK;
}

static gpur_grid blocks_between(int64_t wanted, int64_t most)
{
    const int64_t blocks = wanted < most ? wanted : most;
    return (gpur_grid){.blocks = blocks > 1 ? blocks : 1, .threads = 1};
}

gpur_grid gpur_cpu_grid_elements(const gpur_device *device, int64_t n)
{
    return blocks_between(n / ELEMENTS_PER_BLOCK, device->threads);
}

gpur_grid gpur_cpu_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes)
{
    (void)rows_per_block; /* a warp's worth on a GPU */
    const int64_t by_bytes = (int64_t)((double)n * (double)bytes / BYTES_PER_BLOCK);
    return blocks_between(by_bytes < n ? by_bytes : n, device->threads);
}

gpur_grid gpur_cpu_grid_single(const gpur_device *device)
{
    (void)device;
    return (gpur_grid){.blocks = 1, .threads = 1};
}

/* One block meets nobody, and is what target_cpu.h counts on. */
gpur_grid gpur_cpu_grid_together(const gpur_device *device, int kernel, gpur_grid wanted)
{
    (void)device, (void)kernel;
    return (gpur_grid){.blocks = 1, .threads = 1, .together = wanted.together};
}
