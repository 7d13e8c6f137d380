/* SPDX-License-Identifier: MIT */
/* CUDA stores each thread's last error until it is read. This library leaves the host program's error and none of its
 * own. */
#include "test.h"
#include "device/cuda/cuda.h"

enum { NO_DEVICE = 9999 };

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
    gpur_recording *recording = NULL;
    void *memory = NULL, *pinned = NULL;
    int on_device = 0;
    GPUR_TRY(gpur_stream_create(device, &stream));
    GPUR_TRY(gpur_event_create(device, &event));
    GPUR_TRY(gpur_device_alloc(device, 4096, &memory));
    GPUR_TRY(gpur_pinned_alloc(device, 4096, "the test", &pinned));
    GPUR_TRY(gpur_recording_create(device, record_fill, memory, 2, &recording));
    GPUR_TRY(gpur_recording_replay(recording, stream, 3));
    GPUR_TRY(gpur_event_record(event, stream));
    GPUR_TRY(gpur_event_sync(event));
    (void)gpur_event_done(event);
    GPUR_TRY(gpur_memory_locate(device, memory, &on_device));
    gpur_recording_destroy(recording);
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
        printf("test_cuda_errors: %s makes no errors of CUDA's\n", test_device_name());
        return 77;
    }
    RUN(a_success_leaves_the_host_programs_error);
    RUN(a_failure_leaves_no_error_of_ours);
    RUN(calls_that_succeed_leave_the_host_programs_error);
    return test_main_end();
}
