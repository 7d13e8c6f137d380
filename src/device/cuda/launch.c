/* SPDX-License-Identifier: MIT */
/* Launches kernels, and chooses launch shapes for a GPU. */
#include "device/cuda/cuda.h"

#include "base/numbers.h"
#include "kernels/entries.h"

#include <inttypes.h>

enum { WARP = 32, MAX_THREADS = 1024, ELEMENT_THREADS = 256, ROW_THREADS = 512 };

/* A grid this large keeps every multiprocessor busy for a few waves; more blocks would only add their own start-up
 * cost. */
enum { BLOCKS_PER_MULTIPROCESSOR = 32 };

/* With this many blocks per multiprocessor, each has its share of the work, and something to do while one block
 * waits. */
enum { SPREAD_BLOCKS = 2 };

/* Determines the kernel's thread limit. Code that was compiled for an older architecture and reaches this GPU as PTX
 * does not support dependent launches. */
static cudaError_t load(gpur_device *device, int kernel)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    struct cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, gpur_cuda_entries[kernel]);
    if (error)
        return error;
    const int thread_limit = attributes.maxThreadsPerBlock < MAX_THREADS ? attributes.maxThreadsPerBlock : MAX_THREADS;
    cuda->kernels[kernel].max_threads = thread_limit / WARP * WARP;
    if (attributes.ptxVersion < 90)
        cuda->has_dependent_launches = 0;
    return cudaSuccess;
}

static const gpur_cuda_kernel *kernel_of(const gpur_device *device, int kernel)
{
    return &gpur_cuda_of(device)->kernels[kernel];
}

/* Determines the limits of a kernel with a grid sync. */
static cudaError_t prepare_cooperative(gpur_device *device, int kernel)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    gpur_cuda_kernel *const k = &cuda->kernels[kernel];
    const void *const entry = gpur_cuda_entries[kernel];
    int cooperative = 0, blocks = 0;
    cudaError_t error = cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, cuda->ordinal);
    if (!error && cooperative)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry, k->max_threads, 0);
    if (error)
        return error;
    k->resident_blocks = (int64_t)blocks * cuda->multiprocessors;
    if (blocks == 0)
        gpur_cuda_log_once(device, "kernel %s runs as one block: %s", gpur_kernel_names[kernel],
                           cooperative ? "none of its blocks fits a multiprocessor"
                                       : "this GPU has no cooperative launches");
    return cudaSuccess;
}

/* Loads the code of every kernel when the device is opened: lazy loading during a capture would break the capture, and
 * a GPU that this build has no code for should be refused at open, not at the first launch. */
gpur_status gpur_cuda_load_kernels(gpur_device *device)
{
    int before;
    cudaError_t error = gpur_cuda_enter(device, &before);
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* the host program may be capturing in another thread */
    for (int kernel = 0; !error && kernel < GPUR_KERNEL_COUNT; kernel++)
        error = load(device, kernel);
    for (int kernel = 0; !error && kernel < GPUR_KERNEL_COUNT; kernel++)
        if (gpur_kernel_is_cooperative(kernel))
            error = prepare_cooperative(device, kernel);
    gpur_cuda_unrelax(mode);
    const gpur_status status = gpur_cuda_leave(before, error, "loading the kernels");
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
        return gpur_fail(GPUR_UNAVAILABLE,
                         "%s (%s) cannot run this build's kernels, which were built for %s; configure with "
                         "-DGPUREPLAY_CUDA_ARCHITECTURES=native or =release",
                         device->name, device->description, GPUR_CUDA_ARCHITECTURES);
    return status;
}

/* A shape that a test forces on all kernels is reduced to what this kernel allows. */
static gpur_grid clamp_forced(const gpur_device *device, int kernel, gpur_grid grid)
{
    const int32_t thread_limit = gpur_cuda_of(device)->kernels[kernel].max_threads;
    if (device->forced_grid.blocks > 0 && grid.threads > thread_limit)
        grid.threads = thread_limit;
    return grid;
}

static gpur_status check_grid(const gpur_device *device, int kernel, gpur_grid grid)
{
    const int32_t thread_limit = gpur_cuda_of(device)->kernels[kernel].max_threads;
    GPUR_REQUIRE(grid.blocks >= 1 && grid.blocks <= INT32_MAX, "kernel %s: %" PRId64 " blocks; wanted 1 to %" PRId32,
                 gpur_kernel_names[kernel], grid.blocks, INT32_MAX);
    GPUR_REQUIRE(grid.threads >= WARP && grid.threads <= thread_limit && grid.threads % WARP == 0,
                 "kernel %s: %" PRId32 " threads a block; wanted a multiple of %d up to %" PRId32,
                 gpur_kernel_names[kernel], grid.threads, WARP, thread_limit);
    return GPUR_OK;
}

/*
 * Sets the launch's attribute and returns how many there are, 0 or 1. A dependent launch is used only on a stream that
 * we own, directly after a kernel of ours: after a copy or an event CUDA has no such edge, and after a library's kernel
 * it is unknown whether that kernel allows dependents. A cooperative launch starts only after all earlier work of the
 * stream.
 */
static unsigned attribute_of(const gpur_cuda_stream *stream, gpur_grid grid, cudaLaunchAttribute *attribute)
{
    const gpur_device *const device = stream->base.device;
    if (grid.cooperative) {
        attribute->id = cudaLaunchAttributeCooperative;
        attribute->val.cooperative = 1;
        return grid.blocks > 1;
    }
    attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute->val.programmaticStreamSerializationAllowed = 1;
    return gpur_cuda_has_dependent_launches(device) && stream->owned &&
           atomic_load_explicit(&stream->after_kernel, memory_order_relaxed);
}

/* The single parameter of every entry is the argument struct itself, so the driver copies it, and `args` may be freed
 * after the call. */
gpur_status gpur_cuda_launch(gpur_stream *base, int kernel, gpur_grid grid, const void *args, size_t bytes)
{
    (void)bytes;
    grid = clamp_forced(base->device, kernel, grid);
    GPUR_TRY(check_grid(base->device, kernel, grid));
    gpur_cuda_stream *const stream = (gpur_cuda_stream *)base;
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeIgnore};
    const unsigned attributes = attribute_of(stream, grid, &attribute);
    const cudaLaunchConfig_t config = {.gridDim = {(unsigned)grid.blocks, 1, 1},
                                       .blockDim = {(unsigned)grid.threads, 1, 1},
                                       .stream = gpur_cuda_native(base),
                                       .attrs = &attribute,
                                       .numAttrs = attributes};
    void *parameters[] = {(void *)(uintptr_t)args}; /* read only, although CUDA's parameter is not const */
    int before;
    cudaError_t error = gpur_cuda_enter(base->device, &before);
    if (!error)
        error = cudaLaunchKernelExC(&config, gpur_cuda_entries[kernel], parameters);
    atomic_store_explicit(&stream->after_kernel, !error && !grid.cooperative, memory_order_relaxed);
    return gpur_cuda_leave(before, error, gpur_kernel_names[kernel]);
}

static int64_t blocks_for(const gpur_device *device, int64_t n, int64_t each)
{
    const int64_t wanted = n < 1 ? 1 : (n - 1) / each + 1;
    return gpur_min(wanted, (int64_t)BLOCKS_PER_MULTIPROCESSOR * gpur_cuda_of(device)->multiprocessors);
}

gpur_grid gpur_cuda_grid_elements(const gpur_device *device, int64_t n)
{
    const gpur_grid grid = {blocks_for(device, n, ELEMENT_THREADS), ELEMENT_THREADS, 0};
    return grid;
}

/*
 * Uses one thread for every 8 bytes of the rows that a block handles at a time, at least one warp: short rows then get
 * many small blocks. A block handles several rows at a time only if every multiprocessor gets two blocks all the same.
 */
gpur_grid gpur_cuda_grid_rows(const gpur_device *device, int64_t n, int64_t rows_per_block, int64_t bytes)
{
    const int64_t blocks = (int64_t)SPREAD_BLOCKS * gpur_cuda_of(device)->multiprocessors;
    const int64_t spread = n < 1 ? 1 : (n - 1) / blocks + 1;
    const int64_t each = rows_per_block < 1 ? 1 : gpur_min(spread, rows_per_block);
    const int64_t warps = bytes < 1 ? 1 : gpur_min((each * bytes - 1) / (8 * WARP) + 1, ROW_THREADS / WARP);
    const gpur_grid grid = {blocks_for(device, n, each), (int32_t)(warps * WARP), 0};
    return grid;
}

gpur_grid gpur_cuda_grid_single(const gpur_device *device)
{
    (void)device;
    const gpur_grid grid = {1, MAX_THREADS, 0};
    return grid;
}

gpur_grid gpur_cuda_grid_cooperative(const gpur_device *device, int kernel, gpur_grid wanted)
{
    const gpur_cuda_kernel *const k = kernel_of(device, kernel);
    if (wanted.blocks > k->resident_blocks)
        wanted.blocks = k->resident_blocks;
    if (wanted.blocks < 1)
        wanted.blocks = 1;
    wanted.threads = wanted.threads < k->max_threads ? wanted.threads / WARP * WARP : k->max_threads;
    if (wanted.threads < WARP)
        wanted.threads = WARP;
    return wanted;
}
