/* SPDX-License-Identifier: MIT */
/*
 * A kernel that accesses invalid memory: CUDA then fails every later call of the process on that GPU. The calls report
 * it, all objects can be destroyed, and the process can still use the CPU. A program of its own, because no other test
 * of the process could use the GPU afterwards.
 */
#include "learn/dqn/dqn.h"
#include "support/learner_fixture.h"
#include "replay/sampler/consumer.h"
#include "test.h"

/* Writes a window to an invalid address. */
static gpur_status trap(gpur_learner *learner)
{
    gpur_stream *stream = NULL;
    gpur_window_set_args args = {.window = (gpur_window *)(uintptr_t)4096};
    GPUR_TRY(gpur_consumer_begin(learner->replay, gpur_consumer_without_publishing, &stream));
    const gpur_status status = gpur_launch_window_set(stream, gpur_grid_single(learner->device), &args);
    GPUR_TRY(gpur_consumer_end(learner->replay, status));
    return gpur_stream_sync(stream);
}

#define CHECK_DEAD(call)                                                                                               \
    do {                                                                                                               \
        CHECK_STATUS(call, GPUR_DEVICE_ERROR);                                                                         \
        CHECK_MESSAGE("cudaError");                                                                                    \
    } while (0)

static void check_dead(gpur_device *device, learner_fixture *fixture, gpur_learner *learner)
{
    const float obs[FIXTURE_FEATURES] = {0};
    gpur_device_info info = {.size = sizeof info};
    gpur_batch *batch = NULL;
    void *memory = NULL;
    int32_t action = -1;
    CHECK_DEAD(trap(learner));
    CHECK_DEAD(gpur_device_sync(device));
    CHECK_DEAD(gpur_device_alloc(device, 100, &memory));
    CHECK_DEAD(gpur_device_get_info(device, &info));
    CHECK_DEAD(gpur_replay_sample(fixture->replay, 16, NULL, &batch));
    CHECK(!batch);
    CHECK_DEAD(gpur_learner_sync(learner));
    CHECK_DEAD(gpur_learner_act(learner, 1, obs, 0.0f, &action, NULL));
    for (int i = 0; i < 3; i++) /* at most two launches are enqueued before a call waits for one */
        if (gpur_learner_train(learner, 1) != GPUR_OK)
            break;
    CHECK_DEAD(gpur_learner_train(learner, 1));
}

static gpur_status train_on(gpur_device *device, learner_fixture *fixture, gpur_learner **learner)
{
    const gpur_dqn_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    GPUR_TRY(learner_fixture_open(fixture, device, FIXTURE_ROWS));
    GPUR_TRY(gpur_dqn_create(fixture->replay, &config, learner));
    GPUR_TRY(gpur_learner_train(*learner, 20));
    return gpur_learner_sync(*learner);
}

TEST(a_kernel_that_faults_is_told_by_every_call_and_the_cpu_goes_on)
{
    static learner_fixture fixture;
    const char *const names[] = {test_device_name(), "cpu"};
    for (int i = 0; i < 2; i++) {
        gpur_device *device = NULL;
        gpur_learner *learner = NULL;
        CHECK_OK(gpur_device_open(names[i], NULL, &device));
        CHECK_OK(train_on(device, &fixture, &learner));
        if (i == 0)
            check_dead(device, &fixture, learner);
        gpur_learner_destroy(learner);
        learner_fixture_close(&fixture);
        gpur_device_close(device);
    }
    gpur_device *again = NULL;
    CHECK(gpur_device_open(names[0], NULL, &again) != GPUR_OK);
    CHECK(!again && gpur_last_error()[0]);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    test_require_cuda();
    RUN(a_kernel_that_faults_is_told_by_every_call_and_the_cpu_goes_on);
    return test_main_end();
}
