/* SPDX-License-Identifier: MIT */
/* The caller's own CUDA streams, also while they are captured and while they write observations. A second stream of
 * the library stands for the host program's; the calls under test know only its cudaStream_t. */
#include "test.h"
#include "device/device.h"
#include "device/gemm.h"
#include "support/file_utils.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum { FLOATS = 1 << 20, ROWS = 64, ACTS = 8, OBS = ACTS * FIXTURE_FEATURES };

/* Bytes 0 and 0xbf alternately (0 and -1.498 as floats), and `byte` at the end. */
static gpur_status fill_slowly(gpur_stream *stream, float *memory, int byte)
{
    for (int i = 0; i < 200; i++)
        GPUR_TRY(gpur_fill(stream, memory, i % 2 ? 0xbf : 0, FLOATS * sizeof(float)));
    return gpur_fill(stream, memory, byte, FLOATS * sizeof(float));
}

static int last_byte(gpur_device *device, const float *memory)
{
    unsigned char last = 0;
    const gpur_status status = gpur_device_copy(device, &last, (const unsigned char *)(memory + FLOATS) - 1, 1);
    return status == GPUR_OK ? last : -1;
}

TEST(streams_and_the_host_wait_for_the_callers_stream_and_it_waits_for_them)
{
    gpur_device *const device = test_device();
    gpur_stream *ours = NULL, *theirs = NULL;
    float *a = NULL, *b = NULL;
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
    CHECK_EQUAL(last_byte(device, b), 7);
    CHECK_EQUAL(last_byte(device, a), 9);
    CHECK_OK(fill_slowly(theirs, a, 5));
    CHECK_OK(gpur_device_wait_stream(device, native));
    CHECK_OK(gpur_copy(ours, b, a, FLOATS * sizeof(float)));
    CHECK_OK(gpur_stream_sync(ours));
    CHECK_EQUAL(last_byte(device, b), 5);
    CHECK_OK(gpur_stream_sync(theirs)); /* the stream was left open */
    CHECK_STATUS(gpur_device_wait_stream(device, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_device_wait_stream(NULL, native), GPUR_INVALID_ARGUMENT);
    gpur_device_free(device, a);
    gpur_device_free(device, b);
    gpur_stream_destroy(theirs);
    gpur_stream_destroy(ours);
    gpur_device_close(device);
}

TEST(a_device_uses_the_callers_stream_and_leaves_it_open)
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

/* Checks a batch that was just sampled, and releases it. */
static void check_batch(replay_fixture *s, gpur_batch *batch)
{
    CHECK_EQUAL(count_wrong_bytes(&s->row_tags, batch, NULL), 0);
    gpur_batch_release(batch);
}

/* Captures a user's graph, unrelated to the library, on the stream that `batch` was sampled for. Meanwhile nothing can
 * be sampled into the batch, which is released if `is_last`. Nothing of ours may get into that graph, and no memory
 * that the caller's stream may still read is used again. */
static void capture_around(replay_fixture *s, cudaStream_t native, gpur_batch *batch, int is_last)
{
    gpur_batch *meanwhile = NULL;
    cudaGraph_t graph = NULL;
    size_t nodes = 1;
    CHECK(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK_STATUS(gpur_replay_sample_into(s->replay, NULL, batch), GPUR_WOULD_BLOCK);
    if (is_last)
        gpur_batch_release(batch);
    CHECK_OK(gpur_replay_sample(s->replay, ROWS, NULL, &meanwhile));
    CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes) == cudaSuccess);
    CHECK_EQUAL(nodes, 0);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK_EQUAL(batches_made(s->replay), 2);
    check_batch(s, meanwhile);
}

/* At the end the replay is destroyed while a batch still waits for the end of a capture. */
TEST(a_batch_whose_stream_is_captured_is_not_used_again_before_the_end_of_the_capture)
{
    const gpur_replay_config config = replay_fixture_plain_config(1000, 100, ROWS, GPUR_FLUSH_AUTO);
    for (int round = 0; round < 3; round++) {
        gpur_stream *theirs = NULL;
        gpur_batch *batches[2] = {NULL, NULL};
        replay_fixture s;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1) && replay_fixture_append(&s, 500) == GPUR_OK);
        gpur_device *const device = s.device;
        gpur_device_retain(device);
        CHECK_OK(gpur_stream_create(device, &theirs));
        void *const native = gpur_stream_native(theirs);
        CHECK_OK(gpur_replay_sample(s.replay, ROWS, native, &batches[0]));
        CHECK_EQUAL(batches_made(s.replay), 1);
        capture_around(&s, (cudaStream_t)native, batches[0], round > 0);
        if (round == 0) {
            CHECK_OK(gpur_replay_sample_into(s.replay, NULL, batches[0]));
            check_batch(&s, batches[0]);
        }
        for (int i = 0; i < 2 && round < 2; i++)
            CHECK_OK(gpur_replay_sample(s.replay, ROWS, native, &batches[i]));
        CHECK_EQUAL(batches_made(s.replay), 2); /* both are reused */
        for (int i = 0; i < 2 && round < 2; i++)
            check_batch(&s, batches[i]);
        replay_fixture_close(&s);
        gpur_stream_destroy(theirs);
        gpur_device_release(device);
    }
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

TEST(an_act_waits_for_the_stream_that_makes_its_observations)
{
    static learner_fixture fixture;
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_device *const device = test_device();
    gpur_learner *learner = NULL;
    gpur_stream *theirs = NULL;
    float *array = NULL;
    CHECK_OK(learner_fixture_open(&fixture, device, FIXTURE_ROWS));
    CHECK_OK(gpur_dqn_create(fixture.replay, &config, &learner));
    CHECK_OK(gpur_stream_create(device, &theirs));
    CHECK_OK(gpur_device_alloc(device, FLOATS * sizeof(float), (void **)&array));
    for (int round = 0; round < 10; round++)
        check_round(learner, theirs, array, 0x3f - round % 3);
    gpur_stream_destroy(theirs);
    gpur_device_free(device, array);
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
    gpur_device_close(device);
}

/* A host program's thread that captures a stream of its own in the global mode, as PyTorch does, while others work. */
typedef struct capturing {
    pthread_barrier_t turns; /* the capture has begun; the others are done */
    cudaError_t begun, filled, ended;
    size_t nodes;
} capturing;

static void *capture_meanwhile(void *context)
{
    capturing *const c = context;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    void *memory = NULL;
    const int is_ready = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                         cudaMalloc(&memory, 256) == cudaSuccess;
    c->begun = is_ready ? cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) : cudaErrorUnknown;
    pthread_barrier_wait(&c->turns);
    pthread_barrier_wait(&c->turns);
    c->filled = cudaMemsetAsync(memory, 0, 256, stream);
    c->ended = cudaStreamEndCapture(stream, &graph);
    if (graph)
        (void)cudaGraphGetNodes(graph, NULL, &c->nodes), (void)cudaGraphDestroy(graph);
    (void)cudaFree(memory);
    (void)cudaStreamDestroy(stream);
    return NULL;
}

static int is_fake(gpur_device *device)
{
    return strstr(gpur_gemm_library(device), "fake") != NULL;
}

/* A full replay of rows of zeros, for a preset whose observations are these. */
static gpur_status open_zeros(gpur_device *device, gpur_field obs, gpur_replay **out)
{
    enum { COUNT = 500 };
    gpur_field fields[] = {
        obs, {"action", GPUR_INT32, {0}}, {"reward", GPUR_FLOAT32, {0}}, obs, {"terminated", GPUR_BOOL, {0}}};
    gpur_replay_config config;
    gpur_writer *writer = NULL;
    const int64_t bytes = obs.dtype == GPUR_UINT8 ? 4 * 84 * 84 : 27 * 4;
    fields[3].name = "next_obs";
    GPUR_TRY(gpur_replay_config_init(&config, sizeof config));
    config.fields = fields, config.field_count = 5, config.capacity = 2 * COUNT, config.max_batch = 64;
    GPUR_TRY(gpur_replay_create(device, &config, out));
    GPUR_TRY(gpur_writer_create(*out, 1, &writer));
    unsigned char *const zeros = calloc(COUNT, (size_t)bytes);
    const void *const arrays[] = {zeros, zeros, zeros, zeros, zeros};
    const gpur_status status =
        zeros ? gpur_writer_append_fields(writer, COUNT, arrays, NULL, NULL) : GPUR_OUT_OF_MEMORY;
    gpur_writer_destroy(writer);
    free(zeros);
    return status;
}

/* Acts alone, too, on a number of observations that no train step has. */
static gpur_status train_and_act(gpur_device *device, gpur_replay *replay, const char *preset, gpur_learner **out)
{
    static const float obs[7 * 4 * 84 * 84];
    int32_t actions[7];
    gpur_dqn_config config;
    GPUR_TRY(gpur_dqn_config_init(&config, sizeof config));
    GPUR_TRY(gpur_dqn_config_preset(&config, preset));
    if (is_fake(device)) /* whose products are slow */
        config.batch_size = 2;
    GPUR_TRY(gpur_dqn_create(replay, &config, out));
    GPUR_TRY(gpur_learner_train(*out, is_fake(device) ? 2 : 16));
    GPUR_TRY(gpur_learner_act(*out, is_fake(device) ? 1 : 7, obs, 0.0f, actions, NULL));
    return gpur_learner_sync(*out);
}

static gpur_status save(gpur_learner *learner)
{
#ifdef GPUR_HAS_FILES
    return gpur_learner_save(learner, test_file_path("learner"), NULL);
#else
    (void)learner;
    return GPUR_OK;
#endif
}

static gpur_status train_actor_critic(gpur_device *device)
{
    static const float obs[4 * 27];
    const int32_t actions[4] = {0, 1, 2, 3};
    const float returns[4] = {0.5f, 1, -1, 0};
    gpur_actor_critic_config config;
    gpur_learner *learner = NULL;
    gpur_actor_critic_losses losses = {.size = sizeof losses};
    const gpur_actor_critic_batch batch = {
        .size = sizeof batch, .count = 4, .obs = obs, .actions = actions, .returns = returns};
    GPUR_TRY(gpur_actor_critic_config_init(&config, sizeof config));
    config.network.trunk[0].units = 40, config.network.num_actions = 4;
    config.obs = (gpur_field){"obs", GPUR_FLOAT32, {27}};
    config.max_batch = 8;
    GPUR_TRY(gpur_actor_critic_create(device, &config, &learner));
    const gpur_status status = gpur_actor_critic_train(learner, &batch, &losses);
    gpur_learner_destroy(learner);
    return status;
}

/* All that loads code or takes memory, from the opening of a device to its end. */
TEST(a_capture_of_the_host_programs_in_another_thread_succeeds)
{
    static const struct {
        const char *preset;
        gpur_field obs;
    } kinds[] = {{"melee-gpu", {"obs", GPUR_FLOAT32, {27}}}, {"nature-dqn", {"obs", GPUR_UINT8, {4, 84, 84}}}};
    capturing c = {.begun = cudaErrorUnknown};
    pthread_t thread;
    CHECK(pthread_barrier_init(&c.turns, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, capture_meanwhile, &c) == 0);
    pthread_barrier_wait(&c.turns);
    gpur_device *const device = test_device();
    for (int i = 0; i < 2; i++) {
        gpur_replay *replay = NULL;
        gpur_learner *learner = NULL;
        CHECK_OK(open_zeros(device, kinds[i].obs, &replay));
        CHECK_OK(train_and_act(device, replay, kinds[i].preset, &learner));
        CHECK_OK(save(learner));
        gpur_learner_destroy(learner);
        gpur_replay_destroy(replay);
    }
    CHECK_OK(train_actor_critic(device));
    gpur_device_close(device);
    pthread_barrier_wait(&c.turns);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&c.turns);
    CHECK_EQUAL(c.begun, cudaSuccess);
    CHECK_EQUAL(c.filled, cudaSuccess);
    CHECK_EQUAL(c.ended, cudaSuccess);
    CHECK_EQUAL(c.nodes, 1);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    test_require_cuda();
    RUN(a_capture_of_the_host_programs_in_another_thread_succeeds); /* first: then code is still to be loaded */
    RUN(streams_and_the_host_wait_for_the_callers_stream_and_it_waits_for_them);
    RUN(a_device_uses_the_callers_stream_and_leaves_it_open);
    RUN(a_batch_whose_stream_is_captured_is_not_used_again_before_the_end_of_the_capture);
    RUN(an_act_waits_for_the_stream_that_makes_its_observations);
    test_remove_folder();
    return test_main_end();
}
