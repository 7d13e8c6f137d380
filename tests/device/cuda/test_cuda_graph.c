/* SPDX-License-Identifier: MIT */
/* Contents of captured graphs, and the state after a failed capture. Repeated launches are tested in test_stream.c. */
#include "test.h"
#include "device/cuda/cuda.h"

/* y += 1 by `kernels` kernels, with a copy of y behind the second or the last of them, and a fill. */
typedef struct work {
    gpur_device *device;
    float *memory; /* y, the bias 1, the copy of y, a float to fill */
    int kernels;
    int fails;
} work;

static gpur_status record(void *context, gpur_stream *stream)
{
    const work *const w = (const work *)context;
    const gpur_bias_activation_args args = {
        .y = w->memory, .bias = w->memory + 1, .batch = 1, .features = 1, .pitch = 1};
    for (int kernel = 0; kernel < w->kernels; kernel++) {
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_elements(w->device, 1), &args));
        if (w->fails)
            return gpur_fail(GPUR_INVALID_ARGUMENT, "the test wanted this");
        if (kernel == 1 || w->kernels == 1)
            GPUR_TRY(gpur_copy(stream, w->memory + 2, w->memory, sizeof(float)));
    }
    return gpur_fill(stream, w->memory + 3, 1, sizeof(float));
}

static gpur_status open_work(work *w)
{
    const float start[4] = {0.0f, 1.0f, 0.0f, 0.0f};
    *w = (work){.device = test_device(), .kernels = 1};
    GPUR_TRY(gpur_device_alloc(w->device, sizeof start, (void **)&w->memory));
    return gpur_device_copy(w->device, w->memory, start, sizeof start);
}

static void close_work(work *w)
{
    gpur_device_free(w->device, w->memory);
    gpur_device_close(w->device);
}

/* Launches five times and fetches y, the bias and the copy of y. */
static gpur_status launch_five(const work *w, gpur_graph *graph, float y[3])
{
    gpur_stream *stream = NULL;
    GPUR_TRY(gpur_stream_create(w->device, &stream));
    gpur_status status = gpur_graph_launch(graph, stream, 5);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    gpur_stream_destroy(stream);
    return status == GPUR_OK ? gpur_device_copy(w->device, y, w->memory, 3 * sizeof *y) : status;
}

TEST(a_graph_holds_the_work_and_no_host_function_and_a_failed_capture_leaves_the_device_usable)
{
    work w;
    gpur_graph *graph = NULL;
    gpur_cuda_nodes nodes;
    float y[3];
    CHECK_OK(open_work(&w));
    w.fails = 1;
    CHECK_FAILS(gpur_graph_create(w.device, record, &w, 4, &graph), GPUR_INVALID_ARGUMENT, "the test wanted this");
    CHECK(!graph);
    w.fails = 0;
    CHECK_OK(gpur_graph_create(w.device, record, &w, 4, &graph));
    CHECK_OK(gpur_cuda_graph_count_nodes(graph, &nodes));
    CHECK(nodes.kernels == 1 && nodes.copies == 1 && nodes.fills == 1);
    CHECK(nodes.hosts == 0 && nodes.others == 0);
    CHECK_OK(launch_five(&w, graph, y));
    CHECK(y[0] == 5.0f);
    gpur_graph_destroy(graph);
    close_work(&w);
}

/* Two pairs of kernels with a copy in between: the second of each follows dependently. */
TEST(a_kernel_follows_dependently_right_behind_another_and_nothing_else)
{
    work w;
    gpur_graph *graph = NULL;
    int64_t edges = -1;
    float y[3];
    CHECK_OK(open_work(&w));
    w.kernels = 4;
    CHECK_OK(gpur_graph_create(w.device, record, &w, 2, &graph));
    if (gpur_cuda_has_dependent_launches(w.device)) {
        CHECK_OK(gpur_cuda_graph_count_dependents(graph, &edges));
        CHECK_EQUAL(edges, 2);
    }
    CHECK_OK(launch_five(&w, graph, y));
    CHECK(y[0] == 20.0f && y[2] == 18.0f);
    gpur_graph_destroy(graph);
    close_work(&w);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    test_require_cuda();
    RUN(a_graph_holds_the_work_and_no_host_function_and_a_failed_capture_leaves_the_device_usable);
    RUN(a_kernel_follows_dependently_right_behind_another_and_nothing_else);
    return test_main_end();
}
