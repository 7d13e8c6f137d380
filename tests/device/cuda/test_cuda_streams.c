/* SPDX-License-Identifier: MIT */
/* What only CUDA has: the caller's own streams, also while they are captured and while they write observations; and
 * dependent launches, which change no result. */
#include "test.h"
#include "device/device.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"

#include <cuda_runtime_api.h>

enum { FLOATS = 1 << 20, ROWS = 64, ACTS = 8, OBS = ACTS * FIXTURE_FEATURES, MOST = 4000 };

static learner_fixture world;

/* Bytes 0 and 0xbf alternately (0 and -1.498 as floats), and `byte` at the end. */
static gpur_status fill_slowly(gpur_stream *stream, float *memory, int byte)
{
    for (int i = 0; i < 200; i++)
        GPUR_TRY(gpur_fill(stream, memory, i % 2 ? 0xbf : 0, FLOATS * sizeof(float)));
    return gpur_fill(stream, memory, byte, FLOATS * sizeof(float));
}

/* A second stream of ours stands for the host program's; the first knows only its cudaStream_t. */
TEST(a_stream_waits_for_the_callers_and_the_callers_for_it)
{
    gpur_device *const device = test_device();
    gpur_stream *ours = NULL, *theirs = NULL;
    float *a = NULL, *b = NULL;
    unsigned char last[2] = {0, 0};
    CHECK_OK(gpur_stream_create(device, &ours));
    CHECK_OK(gpur_stream_create(device, &theirs));
    CHECK_OK(gpur_device_alloc(device, FLOATS * sizeof(float), (void **)&a));
    CHECK_OK(gpur_device_alloc(device, FLOATS * sizeof(float), (void **)&b));
    void *const native = gpur_stream_native(theirs);
    CHECK(native != NULL && native != gpur_stream_native(ours));
    CHECK_OK(fill_slowly(theirs, a, 7));
    CHECK_OK(gpur_stream_wait_native(ours, native));
    CHECK_OK(gpur_copy(ours, b, a, FLOATS * sizeof(float)));
    CHECK_OK(gpur_native_wait_stream(native, ours));
    CHECK_OK(gpur_fill(theirs, a, 9, FLOATS * sizeof(float)));
    CHECK_OK(gpur_device_copy(device, &last[0], (unsigned char *)b + FLOATS * sizeof(float) - 1, 1));
    CHECK_OK(gpur_device_copy(device, &last[1], (unsigned char *)a + FLOATS * sizeof(float) - 1, 1));
    CHECK_EQUAL(last[0], 7);
    CHECK_EQUAL(last[1], 9);
    gpur_device_free(device, a);
    gpur_device_free(device, b);
    gpur_stream_destroy(theirs);
    gpur_stream_destroy(ours);
    gpur_device_close(device);
}

TEST(the_host_waits_for_the_callers_stream)
{
    gpur_device *const device = test_device();
    gpur_stream *theirs = NULL, *ours = NULL;
    float *a = NULL;
    unsigned char last = 0;
    CHECK_OK(gpur_stream_create(device, &theirs));
    CHECK_OK(gpur_stream_create(device, &ours));
    CHECK_OK(gpur_device_alloc(device, FLOATS * sizeof(float), (void **)&a));
    CHECK_OK(fill_slowly(theirs, a, 7));
    CHECK_OK(gpur_device_wait_stream(device, gpur_stream_native(theirs)));
    CHECK_OK(gpur_copy(ours, &last, (unsigned char *)a + FLOATS * sizeof(float) - 1, 1));
    CHECK_OK(gpur_stream_sync(ours));
    CHECK_EQUAL(last, 7);
    CHECK_OK(gpur_stream_sync(theirs)); /* the stream was left open */
    CHECK_STATUS(gpur_device_wait_stream(device, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_wait_stream(NULL, gpur_stream_native(theirs)), GPUR_INVALID_ARGUMENT);
    gpur_device_free(device, a);
    gpur_stream_destroy(ours);
    gpur_stream_destroy(theirs);
    gpur_device_close(device);
}

TEST(a_device_takes_the_callers_stream_and_leaves_it_open)
{
    gpur_device *const owner = test_device();
    gpur_device_config config = test_device_config();
    gpur_stream *theirs = NULL, *wrapped = NULL;
    gpur_device *device = NULL;
    CHECK_OK(gpur_stream_create(owner, &theirs));
    config.stream = gpur_stream_native(theirs);
    CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
    CHECK_OK(gpur_stream_create_main(device, &wrapped));
    CHECK(gpur_stream_native(wrapped) == gpur_stream_native(theirs));
    gpur_stream_destroy(wrapped);
    gpur_device_close(device);
    CHECK_OK(gpur_stream_sync(theirs));
    gpur_stream_destroy(theirs);
    gpur_device_close(owner);
}

static int64_t batches_made(gpur_replay *replay)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(replay, &stats) == GPUR_OK ? stats.batches_made : -1;
}

static int open_replay(replay_fixture *s)
{
    const gpur_replay_config config = replay_fixture_plain_config(1000, 100, ROWS, GPUR_FLUSH_AUTO);
    return replay_fixture_open(s, test_device(), &config, 1) && replay_fixture_append(s, 500) == GPUR_OK;
}

/* Captures a user's graph, unrelated to the library, on a stream that a batch was sampled for, and releases `last`, the
 * last reference to that batch (NULL: none), or samples into `kept` again. Nothing of ours may get into that graph. */
static void capture_around(gpur_stream *theirs, replay_fixture *s, gpur_batch *last, gpur_batch *kept)
{
    const cudaStream_t native = (cudaStream_t)gpur_stream_native(theirs);
    gpur_batch *meanwhile = NULL;
    cudaGraph_t graph = NULL;
    size_t nodes = 1;
    CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    gpur_batch_release(last);
    if (kept)
        CHECK_STATUS(gpur_replay_sample_into(s->replay, NULL, kept), GPUR_WOULD_BLOCK);
    CHECK_OK(gpur_replay_sample(s->replay, ROWS, NULL, &meanwhile)); /* not into the memory that may still be read */
    CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes) == cudaSuccess);
    CHECK_EQUAL(nodes, 0);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK_EQUAL(count_wrong_bytes(&s->row_tags, meanwhile, NULL), 0);
    gpur_batch_release(meanwhile);
}

TEST(a_batch_released_while_its_stream_is_captured_waits_for_the_end_of_the_capture)
{
    gpur_stream *theirs = NULL;
    gpur_batch *first = NULL, *batches[2] = {NULL, NULL};
    replay_fixture s;
    CHECK(open_replay(&s));
    CHECK_OK(gpur_stream_create(s.device, &theirs));
    void *const native = gpur_stream_native(theirs);
    CHECK_OK(gpur_replay_sample(s.replay, ROWS, native, &first));
    CHECK_EQUAL(batches_made(s.replay), 1);
    capture_around(theirs, &s, first, NULL);
    CHECK_EQUAL(batches_made(s.replay), 2);
    for (int i = 0; i < 2; i++)
        CHECK_OK(gpur_replay_sample(s.replay, ROWS, native, &batches[i]));
    CHECK_EQUAL(batches_made(s.replay), 2); /* both are reused */
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batches[i], NULL), 0);
        gpur_batch_release(batches[i]);
    }
    gpur_stream_destroy(theirs);
    replay_fixture_close(&s);
}

TEST(a_batch_is_not_drawn_into_anew_while_its_stream_is_captured)
{
    gpur_stream *theirs = NULL;
    gpur_batch *batch = NULL;
    replay_fixture s;
    CHECK(open_replay(&s));
    CHECK_OK(gpur_stream_create(s.device, &theirs));
    CHECK_OK(gpur_replay_sample(s.replay, ROWS, gpur_stream_native(theirs), &batch));
    capture_around(theirs, &s, NULL, batch);
    CHECK_OK(gpur_replay_sample_into(s.replay, NULL, batch));
    CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
    gpur_batch_release(batch);
    gpur_stream_destroy(theirs);
    replay_fixture_close(&s);
}

TEST(a_replay_closes_over_batches_whose_stream_is_captured)
{
    gpur_stream *theirs = NULL;
    gpur_batch *batch = NULL;
    cudaGraph_t graph = NULL;
    replay_fixture s;
    CHECK(open_replay(&s));
    gpur_device *const device = s.device;
    gpur_device_retain(device);
    CHECK_OK(gpur_stream_create(device, &theirs));
    const cudaStream_t native = (cudaStream_t)gpur_stream_native(theirs);
    CHECK_OK(gpur_replay_sample(s.replay, ROWS, native, &batch));
    CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    gpur_batch_release(batch);
    CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    replay_fixture_close(&s);
    gpur_stream_destroy(theirs);
    gpur_device_release(device);
}

static gpur_learner *open_learner(gpur_device *device)
{
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    if (learner_fixture_open(&world, device, FIXTURE_ROWS) != GPUR_OK)
        return NULL;
    return gpur_learner_create(world.replay, &config, &learner) == GPUR_OK ? learner : NULL;
}

/* Acts on the last observations of a long array, because these are written last. */
static void check_round(gpur_learner *learner, gpur_stream *theirs, float *array, int byte)
{
    float obs[OBS], want[ACTS * FIXTURE_ACTIONS], q[ACTS * FIXTURE_ACTIONS];
    int32_t best[ACTS], actions[ACTS];
    const float *const made = array + FLOATS - OBS;
    void *const native = gpur_stream_native(theirs);
    memset(obs, byte, sizeof obs);
    CHECK_OK(gpur_learner_q_values(learner, ACTS, obs, want, NULL));
    CHECK_OK(gpur_learner_act(learner, ACTS, obs, 0.0f, best, NULL));
    CHECK_OK(fill_slowly(theirs, array, byte));
    CHECK_OK(gpur_learner_q_values(learner, ACTS, made, q, native));
    CHECK(memcmp(q, want, sizeof q) == 0);
    CHECK_OK(fill_slowly(theirs, array, byte));
    CHECK_OK(gpur_learner_act(learner, ACTS, made, 0.0f, actions, native));
    CHECK_OK(gpur_fill(theirs, array, 0, FLOATS * sizeof(float)));
    CHECK(memcmp(actions, best, sizeof best) == 0);
}

/* A second stream of ours stands for the host program's; the learner knows only its cudaStream_t. */
TEST(an_act_waits_for_the_stream_that_makes_its_observations)
{
    gpur_device *const device = test_device();
    gpur_learner *const learner = open_learner(device);
    gpur_stream *theirs = NULL;
    float *array = NULL;
    CHECK(learner);
    CHECK_OK(gpur_stream_create(device, &theirs));
    CHECK_OK(gpur_device_alloc(device, FLOATS * sizeof(float), (void **)&array));
    for (int round = 0; round < 10; round++)
        check_round(learner, theirs, array, 0x3f - round % 3);
    gpur_stream_destroy(theirs);
    gpur_device_free(device, array);
    gpur_learner_destroy(learner);
    learner_fixture_close(&world);
    gpur_device_close(device);
}

static int64_t train(int on, float *weights)
{
    gpur_device *const device = test_device();
    const gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    int64_t count = -1;
    gpur_device_dependent_launches(device, on);
    gpur_status status = learner_fixture_open(&world, device, FIXTURE_ROWS);
    if (status == GPUR_OK)
        status = gpur_learner_create(world.replay, &config, &learner);
    if (status == GPUR_OK)
        status = gpur_learner_train(learner, 50);
    if (status == GPUR_OK)
        count = learner_fixture_weights(learner, GPUR_WEIGHTS_ONLINE, weights, MOST);
    gpur_learner_destroy(learner);
    learner_fixture_close(&world);
    gpur_device_close(device);
    return count;
}

TEST(a_learner_learns_the_same_bits_by_dependent_launches)
{
    static float plain[MOST], dependent[MOST];
    const int64_t count = train(0, plain);
    CHECK(count > 0);
    CHECK_EQUAL(train(1, dependent), count);
    CHECK(memcmp(plain, dependent, (size_t)count * sizeof *plain) == 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (!test_on_cuda()) {
        printf("test_cuda_streams: %s is not a CUDA device\n", test_device_name());
        return 77;
    }
    RUN(a_stream_waits_for_the_callers_and_the_callers_for_it);
    RUN(the_host_waits_for_the_callers_stream);
    RUN(a_device_takes_the_callers_stream_and_leaves_it_open);
    RUN(a_batch_released_while_its_stream_is_captured_waits_for_the_end_of_the_capture);
    RUN(a_batch_is_not_drawn_into_anew_while_its_stream_is_captured);
    RUN(a_replay_closes_over_batches_whose_stream_is_captured);
    RUN(an_act_waits_for_the_stream_that_makes_its_observations);
    RUN(a_learner_learns_the_same_bits_by_dependent_launches);
    return test_main_end();
}
