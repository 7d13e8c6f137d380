/* SPDX-License-Identifier: MIT */
/*
 * CUDA as a device: whose memory an address is in, launch shapes that a GPU refuses, the clusters of kernels with a
 * grid sync, and the last error that CUDA stores for each thread until it is read: this library leaves the host
 * program's and none of its own.
 */
#include "test.h"
#include "device/cuda/cuda.h"
#include "kernels/entries.h"

enum {
    NO_DEVICE = 9999,
    PORTABLE = 8 /* blocks that a cluster can have on every GPU that has clusters */
};

TEST(host_memory_is_told_from_device_memory)
{
    gpur_device *const device = test_device();
    void *on_device = NULL, *pinned = NULL;
    int on_stack = 0, answer = -1;
    CHECK_OK(gpur_device_alloc(device, 4096, &on_device));
    CHECK_OK(gpur_pinned_alloc(device, 4096, "the test", &pinned));
    CHECK_OK(gpur_memory_locate(device, on_device, &answer));
    CHECK_EQUAL(answer, 1);
    CHECK_OK(gpur_memory_locate(device, pinned, &answer));
    CHECK_EQUAL(answer, 0);
    CHECK_OK(gpur_memory_locate(device, (unsigned char *)on_device + 4095, &answer));
    CHECK_EQUAL(answer, 1);
    CHECK_OK(gpur_memory_locate(device, &on_stack, &answer));
    CHECK_EQUAL(answer, 0);
    gpur_pinned_free(device, pinned);
    gpur_device_free(device, on_device);
    gpur_device_close(device);
}

/* Copying an array of another GPU on the host would be a fault. Only machines with two GPUs can test this. */
TEST(memory_of_another_gpu_is_refused_by_name)
{
    gpur_device *const device = test_device();
    gpur_device *other = NULL;
    void *theirs = NULL;
    int answer = -1;
    if (gpur_device_open("cuda:1", NULL, &other) == GPUR_OK) {
        CHECK_OK(gpur_device_alloc(other, 4096, &theirs));
        CHECK_STATUS(gpur_memory_locate(device, theirs, &answer), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("memory of cuda:1");
        CHECK_MESSAGE(test_device_name());
        gpur_device_free(other, theirs);
        gpur_device_close(other);
    }
    gpur_device_close(device);
}

TEST(a_launch_shape_that_no_gpu_has_is_refused_with_its_numbers)
{
    static const gpur_grid bad[] = {{1, 31, 0}, {1, 0, 0}, {1, 1056, 0}, {(int64_t)1 << 31, 32, 0}};
    gpur_device *const device = test_device();
    gpur_stream *stream = NULL;
    const gpur_bias_activation_args nothing = {.batch = 0};
    CHECK_OK(gpur_stream_create(device, &stream));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_STATUS(gpur_launch_bias_activation(stream, bad[i], &nothing), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("bias_activation");
        CHECK_MESSAGE("wanted");
    }
    CHECK_OK(gpur_launch_bias_activation(stream, (gpur_grid){1, 1024, 0}, &nothing));
    CHECK_OK(gpur_stream_sync(stream));
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

static int largest_cluster(const gpur_cuda_kernel *kernel)
{
    int largest = 0;
    for (int blocks = 2; blocks < 32; blocks++)
        if (kernel->clusters >> blocks & 1)
            largest = blocks;
    return largest;
}

/* Without a cluster every launch would silently become a cooperative grid. */
TEST(blocks_that_meet_are_a_cluster_where_there_are_clusters)
{
    gpur_device *const device = test_device();
    const gpur_cuda *const cuda = gpur_cuda_of(device);
    for (int kernel = 0; kernel < GPUR_KERNEL_COUNT; kernel++) {
        const gpur_cuda_kernel *const k = &cuda->kernels[kernel];
        if (!gpur_kernel_is_cooperative(kernel))
            continue;
        printf("  %s: at most %lld blocks together, as one cluster %d\n", gpur_kernel_names[kernel],
               (long long)k->resident_blocks, largest_cluster(k));
        CHECK(k->resident_blocks >= 1);
        CHECK(!cuda->has_clusters || largest_cluster(k) >= PORTABLE);
    }
    gpur_device_close(device);
}

/* Makes an error of the host program that it has not noticed yet. (Without a driver the error is permanent.) */
static cudaError_t make_a_mistake(void)
{
    (void)cudaGetLastError();
    return cudaSetDevice(NO_DEVICE);
}

TEST(a_success_leaves_the_host_programs_error)
{
    const cudaError_t theirs = make_a_mistake();
    CHECK(theirs != cudaSuccess);
    gpur_cuda_leave_quietly(-1, cudaSuccess);
    CHECK_EQUAL(cudaPeekAtLastError(), theirs);
    CHECK_OK(gpur_cuda_leave(-1, cudaSuccess, "nothing"));
    CHECK_EQUAL(cudaPeekAtLastError(), theirs);
}

TEST(a_failure_leaves_no_error_of_ours)
{
    const cudaError_t ours = make_a_mistake();
    CHECK_STATUS(gpur_cuda_leave(-1, ours, "cudaSetDevice"), GPUR_DEVICE_ERROR);
    CHECK_EQUAL(cudaPeekAtLastError(), cudaSuccess);
    CHECK_MESSAGE("cudaSetDevice: ");
    gpur_cuda_leave_quietly(-1, make_a_mistake());
    CHECK_EQUAL(cudaPeekAtLastError(), cudaSuccess);
}

static gpur_status record_fill(void *context, gpur_stream *stream)
{
    return gpur_fill(stream, context, 1, 4096);
}

static gpur_status use_and_release_one_of_each(gpur_device *device)
{
    gpur_stream *stream = NULL;
    gpur_event *event = NULL;
    gpur_graph *recording = NULL;
    void *memory = NULL, *pinned = NULL;
    int on_device = 0;
    GPUR_TRY(gpur_stream_create(device, &stream));
    GPUR_TRY(gpur_event_create(device, &event));
    GPUR_TRY(gpur_device_alloc(device, 4096, &memory));
    GPUR_TRY(gpur_pinned_alloc(device, 4096, "the test", &pinned));
    GPUR_TRY(gpur_graph_create(device, record_fill, memory, 2, &recording));
    GPUR_TRY(gpur_graph_launch(recording, stream, 3));
    GPUR_TRY(gpur_event_record(event, stream));
    GPUR_TRY(gpur_event_sync(event));
    (void)gpur_event_done(event);
    GPUR_TRY(gpur_memory_locate(device, memory, &on_device));
    gpur_graph_destroy(recording);
    gpur_event_destroy(event);
    gpur_stream_destroy(stream);
    gpur_pinned_free(device, pinned);
    gpur_device_free(device, memory);
    return gpur_device_sync(device);
}

TEST(calls_that_succeed_leave_the_host_programs_error)
{
    gpur_device *const device = test_device();
    const cudaError_t theirs = make_a_mistake();
    CHECK_OK(use_and_release_one_of_each(device));
    gpur_device_close(device);
    CHECK_EQUAL(cudaGetLastError(), theirs);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_device: %s is not a CUDA device\n", test_device_name());
        return 77;
    }
    RUN(host_memory_is_told_from_device_memory);
    RUN(memory_of_another_gpu_is_refused_by_name);
    RUN(a_launch_shape_that_no_gpu_has_is_refused_with_its_numbers);
    RUN(blocks_that_meet_are_a_cluster_where_there_are_clusters);
    RUN(a_success_leaves_the_host_programs_error);
    RUN(a_failure_leaves_no_error_of_ours);
    RUN(calls_that_succeed_leave_the_host_programs_error);
    return test_main_end();
}
