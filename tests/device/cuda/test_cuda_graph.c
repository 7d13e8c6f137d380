/* SPDX-License-Identifier: MIT */
/* Contents of captured graphs, and the state after a failed capture. Repeated launches are tested in test_stream.c. */
#include "test.h"
#include "device/cuda/cuda.h"

#include <pthread.h>

/* y += 1 by a kernel, a copy of y, and a fill: one graph node of each kind. */
typedef struct work {
    gpur_device *device;
    float *memory; /* y, the bias 1, the copy of y, a float to fill */
    int fails;
    int beside; /* 1: the calls of another thread during the capture succeeded */
} work;

static gpur_status record(void *context, gpur_stream *stream)
{
    const work *const w = (const work *)context;
    const gpur_bias_activation_args args = {
        .y = w->memory, .bias = w->memory + 1, .batch = 1, .features = 1, .pitch = 1};
    GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_elements(w->device, 1), &args));
    if (w->fails)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "the test wanted this");
    GPUR_TRY(gpur_copy(stream, w->memory + 2, w->memory, sizeof(float)));
    return gpur_fill(stream, w->memory + 3, 1, sizeof(float));
}

static gpur_status open_work(work *w)
{
    const float start[4] = {0.0f, 1.0f, 0.0f, 0.0f};
    w->device = test_device();
    w->fails = w->beside = 0;
    GPUR_TRY(gpur_device_alloc(w->device, sizeof start, (void **)&w->memory));
    return gpur_device_copy(w->device, w->memory, start, sizeof start);
}

static void close_work(work *w)
{
    gpur_device_free(w->device, w->memory);
    gpur_device_close(w->device);
}

TEST(a_recording_holds_the_work_and_no_host_function)
{
    work w;
    gpur_graph *recording = NULL;
    gpur_cuda_nodes nodes;
    CHECK_OK(open_work(&w));
    CHECK_OK(gpur_graph_create(w.device, record, &w, 4, &recording));
    CHECK_OK(gpur_cuda_graph_count_nodes(recording, &nodes));
    CHECK_EQUAL(nodes.kernels, 1);
    CHECK_EQUAL(nodes.copies, 1);
    CHECK_EQUAL(nodes.fills, 1);
    CHECK_EQUAL(nodes.hosts, 0);
    CHECK_EQUAL(nodes.others, 0);
    gpur_graph_destroy(recording);
    close_work(&w);
}

/* Replays five times and fetches y, the bias and the copy of y. */
static gpur_status replay_five(const work *w, gpur_graph *recording, float y[3])
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_stream_create(w->device, &stream));
    gpur_status status = gpur_graph_launch(recording, stream, 5);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    gpur_stream_destroy(stream);
    return status == GPUR_OK ? gpur_device_copy(w->device, y, w->memory, 3 * sizeof *y) : status;
}

TEST(a_failed_recording_says_why_and_leaves_the_device_usable)
{
    work w;
    gpur_graph *recording = NULL;
    float y[3];
    CHECK_OK(open_work(&w));
    w.fails = 1;
    CHECK_STATUS(gpur_graph_create(w.device, record, &w, 2, &recording), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("the test wanted this");
    CHECK(!recording);
    w.fails = 0;
    CHECK_OK(gpur_graph_create(w.device, record, &w, 2, &recording));
    CHECK_OK(replay_five(&w, recording, y));
    CHECK(y[0] == 5.0f);
    gpur_graph_destroy(recording);
    close_work(&w);
}

/* What another thread may do while this one captures: calls that wait for the device. */
static void *use_the_device(void *context)
{
    work *const w = (work *)context;
    float y = -1.0f;
    void *memory = NULL;
    gpur_status status = gpur_device_copy(w->device, &y, w->memory, sizeof y);
    if (status == GPUR_OK)
        status = gpur_device_alloc(w->device, 4096, &memory);
    gpur_device_free(w->device, memory);
    if (status == GPUR_OK)
        status = gpur_device_sync(w->device);
    w->beside = status == GPUR_OK && y == 0.0f;
    if (status != GPUR_OK)
        fprintf(stderr, "beside a recording: %s\n", gpur_last_error());
    return NULL;
}

static gpur_status record_beside_another_thread(void *context, gpur_stream *stream)
{
    work *const w = (work *)context;
    pthread_t thread;
    GPUR_TRY(record(context, stream));
    if (pthread_create(&thread, NULL, use_the_device, context) != 0)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no thread for the test");
    pthread_join(thread, NULL);
    return w->beside ? GPUR_OK : gpur_fail(GPUR_DEVICE_ERROR, "the other thread was refused");
}

TEST(another_thread_may_copy_allocate_and_sync_while_one_records)
{
    work w;
    gpur_graph *recording = NULL;
    CHECK_OK(open_work(&w));
    CHECK_OK(gpur_graph_create(w.device, record_beside_another_thread, &w, 2, &recording));
    gpur_graph_destroy(recording);
    close_work(&w);
}

/* Two pairs of kernels with a copy in between. */
static gpur_status record_pairs(void *context, gpur_stream *stream)
{
    const work *const w = (const work *)context;
    const gpur_bias_activation_args args = {
        .y = w->memory, .bias = w->memory + 1, .batch = 1, .features = 1, .pitch = 1};
    for (int kernel = 0; kernel < 4; kernel++) {
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_elements(w->device, 1), &args));
        if (kernel == 1)
            GPUR_TRY(gpur_copy(stream, w->memory + 2, w->memory, sizeof(float)));
    }
    return GPUR_OK;
}

static void check_pairs(int on, int64_t wanted)
{
    work w;
    gpur_graph *recording = NULL;
    int64_t edges = -1;
    float y[3];
    CHECK_OK(open_work(&w));
    gpur_device_dependent_launches(w.device, on);
    CHECK_OK(gpur_graph_create(w.device, record_pairs, &w, 2, &recording));
    if (gpur_cuda_has_dependent_launches(w.device)) {
        CHECK_OK(gpur_cuda_graph_count_dependents(recording, &edges));
        CHECK_EQUAL(edges, wanted);
    }
    CHECK_OK(replay_five(&w, recording, y));
    CHECK(y[0] == 20.0f && y[2] == 18.0f);
    gpur_graph_destroy(recording);
    close_work(&w);
}

TEST(a_kernel_follows_dependently_right_behind_another_and_nothing_else)
{
    check_pairs(0, 0);
    check_pairs(1, 2);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_graph: %s has no graphs\n", test_device_name());
        return 77;
    }
    RUN(a_recording_holds_the_work_and_no_host_function);
    RUN(a_failed_recording_says_why_and_leaves_the_device_usable);
    RUN(another_thread_may_copy_allocate_and_sync_while_one_records);
    RUN(a_kernel_follows_dependently_right_behind_another_and_nothing_else);
    return test_main_end();
}
