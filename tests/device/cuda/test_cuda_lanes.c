/* SPDX-License-Identifier: MIT */
/* Lanes under the caller's capture: a graph that adds a step, resets lanes, draws and updates priorities, launched a
 * thousand times, gives what the same calls give. It has kernels and nothing else. */
#include "gpureplay/lanes.h"
#include "device/cuda/cuda.h"
#include "support/file_utils.h"
#include "test.h"

enum { LANES = 40, STEPS = 12, BATCH = 96, LAUNCHES = 1000, FIELDS = 6, STACK = 5 };
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
    uint8_t *which; /* lanes that are reset after the step */
    int64_t *id;
    float *weight, *discount;
    int32_t *steps;
    int64_t length; /* of the sequences that are drawn; 0: single transitions are */
    int is_stack;   /* 1: obs is a stack of five frames of one number */
    float stacks[LANES][STACK];
    int has_ended[LANES];
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
    config.lanes = LANES, config.capacity = LANES * STEPS, config.lane_autoreset = GPUR_AUTORESET_SAME_STEP;
    config.max_batch = BATCH, config.n_step = 3, config.gamma = 0.9f;
    config.frame_stack = s->is_stack ? STACK : 1;
    config.index_source = index_source, config.prioritized = index_source >= GPUR_PRIORITIZED_STRATIFIED;
    GPUR_TRY(gpur_replay_create(device, &config, &s->replay));
    for (int f = 0; f < FIELDS; f++) {
        GPUR_TRY(gpur_device_alloc(device, LANES * sizes[f], &s->from[f]));
        GPUR_TRY(gpur_device_alloc(device, BATCH * sizes[f], &s->to[f]));
    }
    GPUR_TRY(gpur_device_alloc(device, LANES, (void **)&s->which));
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
    gpur_device_free(device, s->which);
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
    GPUR_TRY(gpur_replay_reset_lanes(s->replay, s->which, stream));
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

/* The stacks of step t. Those of the first steps of an episode have zeros; some are broken. */
static void put_stacks(side *s, int64_t t, float (*obs)[5], float (*final)[5])
{
    for (int lane = 0; lane < LANES; lane++) {
        float *const stack = s->stacks[lane];
        for (int i = 0; i < STACK; i++)
            stack[i] = i == STACK - 1 ? (float)(t * LANES + lane + 1) : s->has_ended[lane] ? 0.0f : stack[i + 1];
        for (int i = 0; i < STACK; i++) {
            obs[lane][i] = stack[i] + (float)((t * LANES + lane) % 17 == 0 && i == 2);
            final[lane][i] = i == STACK - 1 ? -1.0f : stack[i + 1];
        }
    }
}

/* Step t: values that tell step and lane, and ends of both kinds. */
static void put_step(gpur_device *device, side *s, int64_t t)
{
    float obs[LANES][5], final[LANES][5], reward[LANES];
    int32_t action[LANES];
    uint8_t terminated[LANES], truncated[LANES], which[LANES];
    const void *const from[FIELDS] = {obs, final, action, reward, terminated, truncated};
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t id = t * LANES + lane;
        for (int i = 0; i < 5; i++)
            obs[lane][i] = (float)id, final[lane][i] = -(float)id;
        action[lane] = (int32_t)id, reward[lane] = (float)(id % 7);
        terminated[lane] = id % 11 == 0, truncated[lane] = id % 13 == 0, which[lane] = id % 19 == 0;
    }
    if (s->is_stack)
        put_stacks(s, t, obs, final);
    for (int lane = 0; lane < LANES; lane++)
        s->has_ended[lane] = terminated[lane] || truncated[lane] || which[lane];
    CHECK_OK(gpur_device_copy(device, s->which, which, sizeof which));
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

static void check(int32_t index_source, int64_t length, int is_stack)
{
    gpur_device *const device = test_device();
    const int has_priorities = index_source >= GPUR_PRIORITIZED_STRATIFIED;
    gpur_stream *stream = NULL;
    cudaGraphExec_t exec = NULL;
    side called = {.is_stack = is_stack}, captured = {.is_stack = is_stack};
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
    CHECK(a.without_final > LAUNCHES);
    CHECK((a.broken_stacks > 0) == is_stack);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    close_side(device, &called);
    close_side(device, &captured);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

TEST(a_captured_loop_gives_what_its_calls_give)
{
    check(GPUR_UNIFORM, 0, 0);
    check(GPUR_UNIFORM, 4, 0);
    check(GPUR_UNIFORM_DISTINCT, 0, 0);
    check(GPUR_PRIORITIZED_INDEPENDENT, 0, 0);
    check(GPUR_PRIORITIZED_STRATIFIED, 0, 0);
    check(GPUR_PRIORITIZED_STRATIFIED, 4, 0);
    check(GPUR_UNIFORM, 0, 1);
    check(GPUR_PRIORITIZED_STRATIFIED, 4, 1);
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

/* A replay on the stream of the caller, who captures it, and beside it one of rows; and where a file may be. */
static struct {
    gpur_device *owner, *device;
    gpur_stream *stream;
    cudaStream_t native;
    gpur_replay *rows;
    gpur_learner *learner;
    side s;
    const char *path;
} own;

static void open_own(void)
{
    gpur_device_config device_config = test_device_config();
    gpur_replay_config config;
    gpur_dqn_config learner;
    memset(&own, 0, sizeof own);
    own.owner = test_device();
    CHECK_OK(gpur_stream_create(own.owner, &own.stream));
    own.native = (cudaStream_t)gpur_stream_native(own.stream);
    device_config.stream = own.native;
    CHECK_OK(gpur_device_open(test_device_name(), &device_config, &own.device));
    CHECK_OK(open_side(own.device, GPUR_PRIORITIZED_STRATIFIED, &own.s));
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = FIELDS, config.capacity = BATCH;
    CHECK_OK(gpur_replay_create(own.device, &config, &own.rows));
    CHECK_OK(gpur_dqn_config_init(&learner, sizeof learner));
    learner.network.trunk[0] = (gpur_layer){.kind = GPUR_DENSE, .units = 8, .activation = GPUR_RELU};
    learner.network.trunk_count = 1, learner.network.num_actions = 3, learner.batch_size = 8;
    CHECK_OK(gpur_dqn_create(own.s.replay, &learner, &own.learner));
    own.path = test_file_path("lanes");
}

static void close_own(void)
{
    gpur_learner_destroy(own.learner);
    gpur_replay_destroy(own.rows);
    close_side(own.device, &own.s);
    gpur_device_close(own.device);
    gpur_stream_destroy(own.stream);
    gpur_device_close(own.owner);
}

static void check_refusals_under_capture(void)
{
    gpur_replay *const replay = own.s.replay;
    gpur_lane_stats stats = {.size = sizeof stats};
    gpur_priority_stats priorities = {.size = sizeof priorities};
    gpur_learner_stats trained = {.size = sizeof trained};
    gpur_batch *batch = NULL;
    gpur_writer *writer = NULL;
    int64_t wrong = 0;
    const char *const is_captured = "is being captured into a graph";
    CHECK_FAILS(enqueue(&own.s, 1, NULL), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_replay_update_lanes(replay, 1, own.s.id, own.s.weight, NULL), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_replay_get_lane_stats(replay, &stats, NULL), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_replay_get_lane_stats(replay, &stats, own.native), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_replay_get_priority_stats(replay, &priorities), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_replay_check_priorities(replay, &wrong), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_learner_train(own.learner, 1), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_OK(gpur_learner_get_stats(own.learner, &trained)); /* which waits for no stream */
    CHECK_FAILS(gpur_device_wait_stream(own.device, own.native), GPUR_INVALID_ARGUMENT, is_captured);
#ifdef GPUR_HAS_FILES
    CHECK_FAILS(gpur_replay_load(replay, own.path, NULL), GPUR_INVALID_ARGUMENT, is_captured);
    CHECK_FAILS(gpur_replay_save(replay, own.path, NULL), GPUR_INVALID_ARGUMENT, is_captured);
#endif
    /* The doors of host writers and of lanes, each on the other's replay. */
    CHECK_FAILS(gpur_writer_create(replay, 1, &writer), GPUR_INVALID_ARGUMENT, "GPUR_LAYOUT_LANES");
    CHECK_FAILS(gpur_replay_sample(replay, 1, NULL, &batch), GPUR_INVALID_ARGUMENT, "gpur_replay_draw_lanes");
    CHECK_FAILS(gpur_replay_add_lanes(own.rows, (const void *const *)own.s.from, own.native), GPUR_INVALID_ARGUMENT,
                "layout is 0");
}

/* What waits, or is of another layout, is refused while the caller captures the device's own stream; the capture goes
 * on, in each mode. */
TEST(a_capture_outlives_what_is_refused_during_it)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal};
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    open_own();
    put_step(own.device, &own.s, 0);
#ifdef GPUR_HAS_FILES
    CHECK_OK(gpur_replay_save(own.s.replay, own.path, NULL));
#endif
    for (int i = 0; i < 2; i++) {
        CHECK(cudaStreamBeginCapture(own.native, modes[i]) == cudaSuccess);
        check_refusals_under_capture();
        CHECK_OK(enqueue(&own.s, 1, own.native));
        check_refusals_under_capture();
        CHECK(cudaStreamEndCapture(own.native, &graph) == cudaSuccess);
        CHECK_EQUAL(stats_of(&own.s, NULL).steps, i);
        CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
        CHECK(cudaGraphLaunch(exec, own.native) == cudaSuccess);
        CHECK_EQUAL(stats_of(&own.s, NULL).steps, i + 1);
        CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    }
    CHECK_OK(gpur_learner_train(own.learner, 1));
    close_own();
    test_remove_folder();
}

/* While another stream is captured in the global mode, calls on a stream of one's own run at once, and are not in the
 * graph. On the legacy default stream they cannot run. */
TEST(other_streams_than_the_captured_one_are_not_in_the_graph)
{
    gpur_device *const device = test_device();
    cudaStream_t captured = NULL;
    cudaGraph_t graph = NULL;
    size_t count = 1;
    side s = {NULL};
    CHECK_OK(open_side(device, GPUR_UNIFORM, &s));
    put_step(device, &s, 0);
    CHECK(cudaStreamCreateWithFlags(&captured, cudaStreamDefault) == cudaSuccess);
    CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK_FAILS(enqueue(&s, 0, (void *)cudaStreamLegacy), GPUR_INVALID_ARGUMENT, "the legacy default stream");
    CHECK_EQUAL(stats_of(&s, NULL).steps, 0);
    CHECK_OK(enqueue(&s, 0, NULL));
    CHECK_EQUAL(stats_of(&s, NULL).steps, 1);
    CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    CHECK(cudaGraphGetNodes(graph, NULL, &count) == cudaSuccess && count == 0);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess && cudaStreamDestroy(captured) == cudaSuccess);
    CHECK_OK(enqueue(&s, 0, (void *)cudaStreamLegacy));
    CHECK_EQUAL(stats_of(&s, NULL).steps, 2);
    close_side(device, &s);
    gpur_device_close(device);
}

/* A replay may go before a graph with its calls, and while such a graph is being captured on a stream of the caller's,
 * if the graph is not launched any more. */
TEST(a_replay_may_be_destroyed_before_its_graph)
{
    gpur_device *const device = test_device();
    gpur_stream *stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    side s = {NULL}, other = {NULL};
    CHECK_OK(gpur_stream_create(device, &stream));
    cudaStream_t const native = (cudaStream_t)gpur_stream_native(stream);
    CHECK_OK(open_side(device, GPUR_UNIFORM, &s));
    capture(stream, &s, 0, &exec);
    CHECK_OK(open_side(device, GPUR_UNIFORM, &other));
    CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK_OK(enqueue(&other, 0, native));
    close_side(device, &other);
    close_side(device, &s);
    CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
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
    RUN(a_capture_outlives_what_is_refused_during_it);
    RUN(other_streams_than_the_captured_one_are_not_in_the_graph);
    RUN(a_replay_may_be_destroyed_before_its_graph);
    RUN(host_arrays_are_refused);
    return test_main_end();
}
