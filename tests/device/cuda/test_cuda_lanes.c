/* SPDX-License-Identifier: MIT */
/* Lanes under the caller's capture: a graph that adds a step, draws and updates priorities, launched a thousand times,
 * gives what the same calls give. It has kernels and nothing else. */
#include "gpureplay/lanes.h"
#include "device/cuda/cuda.h"
#include "test.h"

enum { LANES = 40, STEPS = 12, BATCH = 96, LAUNCHES = 1000, FIELDS = 6 };
enum { OBS, NEXT_OBS, ACTION, REWARD, TERMINATED, TRUNCATED };

static const gpur_field fields[FIELDS] = {
    {"obs", GPUR_FLOAT32, {5}},    {"next_obs", GPUR_FLOAT32, {5}}, {"action", GPUR_INT32, {0}},
    {"reward", GPUR_FLOAT32, {0}}, {"terminated", GPUR_BOOL, {0}},  {"truncated", GPUR_BOOL, {0}},
};
static const int64_t sizes[FIELDS] = {20, 20, 4, 4, 1, 1};

/* A replay with the arrays that its calls read and write. */
typedef struct side {
    gpur_replay *replay;
    void *from[FIELDS], *to[FIELDS];
    int64_t *id;
    float *weight, *discount;
    int32_t *steps;
    int64_t length; /* of the sequences that are drawn; 0: single transitions are */
} side;

static int64_t bytes_per_row(int output)
{
    return output < FIELDS ? sizes[output] : output == FIELDS ? 8 : 4;
}

/* The arrays that a draw writes, one after the other. */
static void *output_of(const side *s, int output)
{
    void *const others[] = {s->id, s->weight, s->discount, s->steps};
    return output < FIELDS ? s->to[output] : others[output - FIELDS];
}

static gpur_status open_side(gpur_device *device, int32_t index_source, side *s)
{
    gpur_replay_config config;
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = FIELDS;
    config.layout = GPUR_LAYOUT_LANES;
    config.lanes = LANES, config.lane_steps = STEPS, config.lane_autoreset = GPUR_AUTORESET_SAME_STEP;
    config.max_batch = BATCH, config.n_step = 3, config.gamma = 0.9f;
    config.index_source = index_source, config.prioritized = index_source >= GPUR_PRIORITIZED_STRATIFIED;
    GPUR_TRY(gpur_replay_create(device, &config, &s->replay));
    for (int f = 0; f < FIELDS; f++) {
        GPUR_TRY(gpur_device_alloc(device, LANES * sizes[f], &s->from[f]));
        GPUR_TRY(gpur_device_alloc(device, BATCH * sizes[f], &s->to[f]));
    }
    GPUR_TRY(gpur_device_alloc(device, BATCH * 8, (void **)&s->id));
    GPUR_TRY(gpur_device_alloc(device, BATCH * 4, (void **)&s->weight));
    GPUR_TRY(gpur_device_alloc(device, BATCH * 4, (void **)&s->discount));
    return gpur_device_alloc(device, BATCH * 4, (void **)&s->steps);
}

static void close_side(gpur_device *device, side *s)
{
    gpur_replay_destroy(s->replay);
    for (int f = 0; f < FIELDS; f++)
        gpur_device_free(device, s->from[f]);
    for (int output = 0; output < FIELDS + 4; output++)
        gpur_device_free(device, output_of(s, output));
}

/* What a training loop enqueues. Weights serve as new priorities. */
static gpur_status enqueue(const side *s, int has_priorities, void *stream)
{
    gpur_lane_draw draw;
    GPUR_TRY(gpur_lane_draw_init(&draw, sizeof draw));
    draw.count = BATCH, draw.fields = s->to, draw.id = s->id, draw.weight = s->weight, draw.discount = s->discount;
    draw.steps = s->steps;
    draw.length = s->length, draw.min_length = s->length > 0 ? 2 : 0;
    GPUR_TRY(gpur_replay_add_lanes(s->replay, (const void *const *)s->from, stream));
    GPUR_TRY(gpur_replay_draw_lanes(s->replay, &draw, stream));
    return has_priorities ? gpur_replay_update_lanes(s->replay, BATCH, s->id, s->weight, stream) : GPUR_OK;
}

/* Captures what the caller's stream is given. A real GPU says what kinds of nodes there are, too. */
static void capture(gpur_stream *stream, const side *s, int has_priorities, cudaGraphExec_t *exec)
{
    cudaStream_t const native = (cudaStream_t)gpur_stream_native(stream);
    cudaGraph_t graph = NULL;
    cudaGraphNode_t nodes[32];
    size_t count = 32;
    CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK_OK(enqueue(s, has_priorities, native));
    CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
    if (cudaGraphGetNodes(graph, nodes, &count) != cudaSuccess) /* the fake one */
        count = 0;
    for (size_t i = 0; i < count; i++) {
        enum cudaGraphNodeType type = cudaGraphNodeTypeHost;
        CHECK(cudaGraphNodeGetType(nodes[i], &type) == cudaSuccess && type == cudaGraphNodeTypeKernel);
    }
    CHECK(cudaGraphInstantiate(exec, graph, 0) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

/* Step t: values that tell step and lane, and ends of both kinds. */
static void put_step(gpur_device *device, const side *s, int64_t t)
{
    float obs[LANES][5], final[LANES][5], reward[LANES];
    int32_t action[LANES];
    uint8_t terminated[LANES], truncated[LANES];
    const void *const from[FIELDS] = {obs, final, action, reward, terminated, truncated};
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t id = t * LANES + lane;
        for (int i = 0; i < 5; i++)
            obs[lane][i] = (float)id, final[lane][i] = -(float)id;
        action[lane] = (int32_t)id, reward[lane] = (float)(id % 7);
        terminated[lane] = id % 11 == 0, truncated[lane] = id % 13 == 0;
    }
    for (int f = 0; f < FIELDS; f++)
        CHECK_OK(gpur_device_copy(device, s->from[f], from[f], LANES * sizes[f]));
}

static int same_outputs(gpur_device *device, const side *a, const side *b)
{
    unsigned char of_a[BATCH * 20], of_b[BATCH * 20];
    int same = 1;
    for (int output = 0; output < FIELDS + 4; output++) {
        const int64_t bytes = BATCH * bytes_per_row(output);
        same &= gpur_device_copy(device, of_a, output_of(a, output), bytes) == GPUR_OK &&
                gpur_device_copy(device, of_b, output_of(b, output), bytes) == GPUR_OK &&
                memcmp(of_a, of_b, (size_t)bytes) == 0;
    }
    return same;
}

/* Zeros with -1 steps if it fails. */
static gpur_lane_stats stats_of(const side *s, void *native)
{
    gpur_lane_stats stats = {.size = sizeof stats};
    if (gpur_replay_get_lane_stats(s->replay, &stats, native) != GPUR_OK)
        stats = (gpur_lane_stats){.steps = -1};
    return stats;
}

static void check(int32_t index_source, int64_t length)
{
    gpur_device *const device = test_device();
    const int has_priorities = index_source >= GPUR_PRIORITIZED_STRATIFIED;
    gpur_stream *stream = NULL;
    cudaGraphExec_t exec = NULL;
    side called = {NULL}, captured = {NULL};
    int64_t wrong = 0;
    CHECK_OK(gpur_stream_create(device, &stream));
    CHECK_OK(open_side(device, index_source, &called));
    CHECK_OK(open_side(device, index_source, &captured));
    called.length = captured.length = length;
    capture(stream, &captured, has_priorities, &exec);
    CHECK_EQUAL(stats_of(&captured, NULL).steps, 0); /* a capture runs nothing */
    for (int64_t t = 0; t < LAUNCHES; t++) {
        put_step(device, &called, t);
        put_step(device, &captured, t);
        CHECK_OK(enqueue(&called, has_priorities, NULL));
        CHECK(cudaGraphLaunch(exec, (cudaStream_t)gpur_stream_native(stream)) == cudaSuccess);
        CHECK_OK(gpur_stream_sync(stream));
        wrong += !same_outputs(device, &called, &captured);
    }
    CHECK_EQUAL(wrong, 0);
    const gpur_lane_stats a = stats_of(&called, NULL), b = stats_of(&captured, gpur_stream_native(stream));
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK(a.steps == LAUNCHES && a.draws == LAUNCHES && a.finals > LAUNCHES && a.transitions > 0);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    close_side(device, &called);
    close_side(device, &captured);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

TEST(a_captured_loop_gives_what_its_calls_give)
{
    check(GPUR_UNIFORM, 0);
    check(GPUR_UNIFORM, 4);
    check(GPUR_UNIFORM_DISTINCT, 0);
    check(GPUR_PRIORITIZED_INDEPENDENT, 0);
    check(GPUR_PRIORITIZED_STRATIFIED, 0);
    check(GPUR_PRIORITIZED_STRATIFIED, 4);
}

/* Numbers cannot be read while they are being captured. */
TEST(statistics_are_refused_under_capture)
{
    gpur_device *const device = test_device();
    gpur_lane_stats stats = {.size = sizeof stats};
    gpur_stream *stream = NULL;
    cudaGraph_t graph = NULL;
    side s = {NULL};
    CHECK_OK(gpur_stream_create(device, &stream));
    CHECK_OK(open_side(device, GPUR_UNIFORM, &s));
    cudaStream_t const native = (cudaStream_t)gpur_stream_native(stream);
    CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK_STATUS(gpur_replay_get_lane_stats(s.replay, &stats, native), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_replay_add_lanes(s.replay, (const void *const *)s.from, native));
    CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK_EQUAL(stats_of(&s, native).steps, 0);
    close_side(device, &s);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

/* On a GPU arrays of the host are refused: a captured copy of them would read the same memory at each launch. */
TEST(host_arrays_are_refused)
{
    gpur_device *const device = test_device();
    static float host[BATCH * 5];
    const void *from[FIELDS];
    side s = {NULL};
    CHECK_OK(open_side(device, GPUR_UNIFORM, &s));
    for (int f = 0; f < FIELDS; f++)
        from[f] = f == OBS ? (const void *)host : s.from[f];
    CHECK_FAILS(gpur_replay_add_lanes(s.replay, from, NULL), GPUR_INVALID_ARGUMENT, "\"obs\"");
    CHECK_EQUAL(stats_of(&s, NULL).steps, 0);
    close_side(device, &s);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    test_require_cuda();
    RUN(a_captured_loop_gives_what_its_calls_give);
    RUN(statistics_are_refused_under_capture);
    RUN(host_arrays_are_refused);
    return test_main_end();
}
