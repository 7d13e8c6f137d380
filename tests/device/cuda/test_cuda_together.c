/* SPDX-License-Identifier: MIT */
/*
 * How kernels with a grid sync are launched on this GPU: the largest cluster and the largest cooperative grid that fit.
 * On a GPU with clusters, a cluster of eight blocks must fit: otherwise every launch would silently become a
 * cooperative grid.
 */
#include "test.h"
#include "device/cuda/cuda.h"
#include "kernels/entries.h"

enum { PORTABLE = 8 }; /* blocks that a cluster can have on every GPU that has clusters */

static int largest_cluster(const gpur_cuda_kernel *kernel)
{
    int largest = 0;
    for (int blocks = 2; blocks < 32; blocks++)
        if (kernel->clusters >> blocks & 1)
            largest = blocks;
    return largest;
}

TEST(blocks_that_meet_are_a_cluster_where_there_are_clusters)
{
    gpur_device *const device = test_device();
    const gpur_cuda *const cuda = gpur_cuda_of(device);
    for (int kernel = 0; kernel < GPUR_KERNEL_COUNT; kernel++) {
        const gpur_cuda_kernel *const k = &cuda->kernels[kernel];
        if (!gpur_kernel_meets(kernel))
            continue;
        printf("  %s: at most %lld blocks together, as one cluster %d\n", gpur_kernel_names[kernel],
               (long long)k->blocks_at_once, largest_cluster(k));
        CHECK(k->blocks_at_once >= 1);
        CHECK(!cuda->has_clusters || largest_cluster(k) >= PORTABLE);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_together: %s has no clusters\n", test_device_name());
        return 77;
    }
    RUN(blocks_that_meet_are_a_cluster_where_there_are_clusters);
    return test_main_end();
}
