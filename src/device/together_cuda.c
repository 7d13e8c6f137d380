/* SPDX-License-Identifier: MIT */
/*
 * Launches whose blocks all run at the same time, so that they can meet: as one cluster, which the hardware starts as a
 * whole and gives a barrier, or as a cooperative grid, which the driver starts when all of it fits. gpur_meet of
 * target_cuda.h finds out which of the two it is in.
 */
#include "device/device_cuda.h"
#include "kernels/entries.h"

enum { WARP = 32, MOST_IN_CLUSTER = 16 };

static const gpur_cuda_kernel *kernel_of(const gpur_device *device, int kernel)
{
    return &gpur_cuda_of(device)->kernels[kernel];
}

static cudaLaunchAttribute cluster_of(int64_t blocks)
{
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension};
    attribute.val.clusterDim.x = (unsigned)blocks;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    return attribute;
}

/* Bit n: the device holds a cluster of n of the kernel's largest blocks. More than 8 must be allowed first, and a size
 * that CUDA will not hear of, then or now, is one that does not fit. */
static uint32_t clusters_that_fit(const void *entry, int32_t threads)
{
    uint32_t fit = 0;
    gpur_cuda_forget(cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    for (int blocks = 2; blocks <= MOST_IN_CLUSTER; blocks++) {
        cudaLaunchAttribute cluster = cluster_of(blocks);
        const cudaLaunchConfig_t config = {.gridDim = {(unsigned)blocks, 1, 1},
                                           .blockDim = {(unsigned)threads, 1, 1},
                                           .attrs = &cluster,
                                           .numAttrs = 1};
        int clusters = 0;
        const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, entry, &config);
        gpur_cuda_forget(error);
        if (!error && clusters >= 1)
            fit |= (uint32_t)1 << blocks;
    }
    return fit;
}

cudaError_t gpur_cuda_prepare_together(gpur_device *device, int kernel)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    gpur_cuda_kernel *const k = &cuda->kernels[kernel];
    const void *const entry = gpur_cuda_entries[kernel];
    int cooperative = 0, blocks = 0;
    cudaError_t error = cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, cuda->ordinal);
    if (!error && cooperative)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry, k->most_threads, 0);
    if (error)
        return error;
    k->blocks_at_once = (int64_t)blocks * cuda->multiprocessors;
    if (cuda->has_clusters && cooperative)
        k->clusters = clusters_that_fit(entry, k->most_threads);
    if (blocks == 0)
        gpur_cuda_log_once(device, "kernel %s runs as one block: %s", gpur_kernel_names[kernel],
                           cooperative ? "none of its blocks fits a multiprocessor"
                                       : "this GPU has no cooperative launches");
    else if (cuda->has_clusters && k->clusters == 0)
        gpur_cuda_log_once(device, "kernel %s runs without clusters: not even one of 2 of its blocks fits this GPU",
                           gpur_kernel_names[kernel]);
    return cudaSuccess;
}

gpur_grid gpur_cuda_grid_together(const gpur_device *device, int kernel, gpur_grid wanted)
{
    const gpur_cuda_kernel *const k = kernel_of(device, kernel);
    if (wanted.blocks > k->blocks_at_once)
        wanted.blocks = k->blocks_at_once;
    if (wanted.blocks < 1)
        wanted.blocks = 1;
    wanted.threads = wanted.threads < k->most_threads ? wanted.threads / WARP * WARP : k->most_threads;
    if (wanted.threads < WARP)
        wanted.threads = WARP;
    return wanted;
}

cudaLaunchAttribute gpur_cuda_together(const gpur_device *device, int kernel, gpur_grid grid)
{
    const uint32_t clusters = grid.together == GPUR_TOGETHER_GRID ? 0 : kernel_of(device, kernel)->clusters;
    if (grid.blocks <= MOST_IN_CLUSTER && (clusters >> grid.blocks & 1))
        return cluster_of(grid.blocks);
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeCooperative};
    attribute.val.cooperative = 1;
    return attribute;
}
