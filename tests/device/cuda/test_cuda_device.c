/* SPDX-License-Identifier: MIT */
/* CUDA as a device: whose memory an address is in, the blocks of kernels with a grid sync, and the last error that
 * CUDA stores for each thread until it is read: this library leaves the host program's. */
#include "test.h"
#include "device/cuda/cuda.h"
#include "kernels/entries.h"
#include "support/replay_fixture.h"

enum { NO_DEVICE = 9999 };

TEST(host_and_device_memory_are_distinguished)
{
    gpur_device *const device = test_device();
    void *on_device = NULL, *pinned = NULL;
    int on_stack = 0;
    CHECK_OK(gpur_device_alloc(device, 4096, &on_device));
    CHECK_OK(gpur_pinned_alloc(device, 4096, "the test", &pinned));
    const void *const addresses[] = {on_device, (unsigned char *)on_device + 4095, pinned, &on_stack};
    for (int i = 0; i < 4; i++) {
        int answer = -1;
        CHECK_OK(gpur_memory_locate(device, addresses[i], &answer));
        CHECK_EQUAL(answer, i < 2);
    }
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
        CHECK_FAILS(gpur_memory_locate(device, theirs, &answer), GPUR_INVALID_ARGUMENT, "memory of cuda:1");
        CHECK_MESSAGE(test_device_name());
        gpur_device_free(other, theirs);
        gpur_device_close(other);
    }
    gpur_device_close(device);
}

TEST(blocks_of_a_cooperative_kernel_fit_the_gpu)
{
    gpur_device *const device = test_device();
    for (int kernel = 0; kernel < GPUR_KERNEL_COUNT; kernel++)
        CHECK(!gpur_kernel_is_cooperative(kernel) || gpur_cuda_of(device)->kernels[kernel].resident_blocks >= 1);
    gpur_device_close(device);
}

static gpur_status record_fill(void *context, gpur_stream *stream)
{
    return gpur_fill(stream, context, 1, 4096);
}

TEST(calls_that_succeed_leave_the_host_programs_error)
{
    const gpur_replay_config config = replay_fixture_plain_config(1000, 100, 32, GPUR_FLUSH_AUTO);
    gpur_device *const device = test_device();
    gpur_graph *graph = NULL;
    gpur_batch *batch = NULL;
    void *memory = NULL;
    replay_fixture s;
    (void)cudaGetLastError();
    const cudaError_t theirs = cudaSetDevice(NO_DEVICE); /* an error of the host program that it has not noticed yet */
    CHECK(theirs != cudaSuccess);
    CHECK(replay_fixture_open(&s, device, &config, 1) && replay_fixture_append(&s, 500) == GPUR_OK);
    CHECK_OK(gpur_replay_sample(s.replay, 32, NULL, &batch));
    CHECK_OK(gpur_batch_sync(batch));
    gpur_batch_release(batch);
    CHECK_OK(gpur_device_alloc(device, 4096, &memory));
    CHECK_OK(gpur_graph_create(device, record_fill, memory, 2, &graph));
    gpur_graph_destroy(graph);
    gpur_device_free(device, memory);
    replay_fixture_close(&s);
    CHECK_EQUAL(cudaGetLastError(), theirs);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    test_require_cuda();
    RUN(host_and_device_memory_are_distinguished);
    RUN(memory_of_another_gpu_is_refused_by_name);
    RUN(blocks_of_a_cooperative_kernel_fit_the_gpu);
    RUN(calls_that_succeed_leave_the_host_programs_error);
    return test_main_end();
}
