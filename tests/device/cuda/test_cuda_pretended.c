/* SPDX-License-Identifier: MIT */
/*
 * The library's CUDA files on the fake runtime (pretend/faults.h): a run gives the same results as on the CPU device,
 * leaks nothing, and survives host memory running out at any point. test_cross and its like compare a real GPU with the
 * CPU.
 */
#include "test.h"
#include "base/status.h"
#include "support/counting_alloc.h"
#include "device/cuda/pretend/faults.h"
#include "device/cuda/pretend/pretend.h"
#include "device/device.h"
#include "learn/learner.h"
#include "support/file_scene.h"
#include "support/replay_kit.h"

#include <stdlib.h>

enum { STEPS = 32 };

/* Values of any type: the bits are equal, or they are floats that differ by rounding. */
static int is_near(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (fabsf(a) > 1e-6f && fabsf(a - b) <= 1e-3f * fabsf(a)) ||
           (fabsf(a) > 1e-30f && fabsf(b) > 1e-30f && fabsf(a - b) < 1e-6f);
}

/* Samples, links, actions, losses and weights of a whole run, without prioritized sampling, whose priorities are
 * rounded. */
TEST(the_pretended_gpu_does_what_the_cpu_does)
{
    static const int variants[] = {0, 1, 2, 3, 6, 7};
    static file_scene sides[2];
    for (int i = 0; i < 6; i++) {
        gpur_device *devices[2] = {NULL, NULL};
        CHECK_OK(gpur_device_open("cuda:0", NULL, &devices[0]));
        CHECK_OK(gpur_device_open("cpu", NULL, &devices[1]));
        for (int side = 0; side < 2; side++) {
            CHECK_OK(scene_open(&sides[side], devices[side], variants[i]));
            CHECK_OK(scene_begin(&sides[side], 0));
            CHECK_OK(scene_run(&sides[side], 0, STEPS));
            CHECK_OK(scene_finish(&sides[side]));
        }
        CHECK(sides[0].traced > 500);
        CHECK_EQUAL(sides[0].traced, sides[1].traced);
        for (int t = 0; t < sides[0].traced; t++)
            TEST_REQUIRE(is_near(sides[0].trace[t], sides[1].trace[t]), "variant %d, %d: %.9g; the CPU has %.9g",
                         variants[i], t, (double)sides[0].trace[t], (double)sides[1].trace[t]);
        for (int side = 0; side < 2; side++) {
            scene_close(&sides[side]);
            gpur_device_close(devices[side]);
        }
        CHECK_EQUAL(pretend_alive(), 0);
    }
}

static gpur_status play(file_scene *s, gpur_device *device, int variant)
{
    GPUR_TRY(scene_open(s, device, variant));
    GPUR_TRY(scene_begin(s, 0));
    GPUR_TRY(scene_run(s, 0, STEPS));
#ifdef GPUR_HAS_FILES
    GPUR_TRY(gpur_replay_save(s->replay, scene_path("replay"), NULL));
    GPUR_TRY(gpur_learner_save(s->learner, scene_path("learner"), NULL));
    GPUR_TRY(gpur_replay_load(s->replay, scene_path("replay"), NULL));
    GPUR_TRY(gpur_learner_load(s->learner, scene_path("learner"), NULL));
#endif
    return scene_finish(s);
}

/* Lets the nth allocation after opening the device, and all later ones, fail. GPUR_OK: there were fewer. */
static gpur_status play_without(const char *name, int variant, int64_t nth)
{
    static file_scene scene;
    counting_alloc counts = {0};
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
    GPUR_TRY(gpur_device_open(name, &config, &device));
    counts.fail_at = counts.calls + nth;
    const gpur_status status = play(&scene, device, variant);
    scene_close(&scene);
    gpur_device_close(device);
    if (counts.blocks != 0 || counts.wrong_sizes != 0 || pretend_alive() != 0)
        return gpur_fail(GPUR_INVALID_ARGUMENT, "%lld blocks and %lld objects of CUDA's are left",
                         (long long)counts.blocks, (long long)pretend_alive());
    return status;
}

TEST(host_memory_that_runs_out_anywhere_is_refused_and_leaves_nothing)
{
    static const char *const names[] = {"cuda:0", "cpu"};
    static const int variants[] = {4, 9};
    for (int i = 0; i < 4; i++) {
        gpur_status status = GPUR_OUT_OF_MEMORY;
        int64_t nth = 1;
        for (; status == GPUR_OUT_OF_MEMORY; nth++)
            status = play_without(names[i / 2], variants[i % 2], nth);
        TEST_REQUIRE(status == GPUR_OK, "%s, variant %d, allocation %lld: %s: %s", names[i / 2], variants[i % 2],
                     (long long)nth - 1, gpur_status_name(status), gpur_last_error());
        CHECK(nth > 20);
    }
}

enum { ROWS = 40 };

static int open_replay(kit_scene *s)
{
    const gpur_replay_config config = kit_plain_config(1000, 100, 512, GPUR_FLUSH_AUTO);
    gpur_device *device = NULL;
    return gpur_device_open("cuda:0", NULL, &device) == GPUR_OK && kit_open(s, device, &config, 1) &&
           kit_append_next(s, 600) == GPUR_OK;
}

/* PyTorch captures in the global mode: until the capture ends, CUDA refuses calls that may wait for the device, on
 * every thread. */
TEST(a_capture_of_the_host_programs_hinders_nothing)
{
    gpur_batch *batch = NULL;
    kit_scene s;
    pretend_global_capture(1);
    CHECK(open_replay(&s));
    for (int64_t count = 8; count <= 512; count *= 4) { /* memory that grows is allocated and freed */
        CHECK_OK(gpur_replay_sample(s.replay, count, NULL, &batch));
        CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    kit_close(&s);
    pretend_global_capture(0);
    CHECK_EQUAL(pretend_alive(), 0);
}

/* The library asks CUDA whether a stream is being captured before it enqueues anything behind it. If CUDA answers that
 * the stream no longer exists, the batch's memory is not reused, and nothing else happens. */
TEST(a_batch_whose_stream_is_gone_is_given_up)
{
    gpur_batch *batch = NULL;
    gpur_stream *theirs = NULL;
    gpur_replay_stats stats = {.size = sizeof stats};
    kit_scene s;
    CHECK(open_replay(&s));
    CHECK_OK(gpur_stream_create(s.device, &theirs));
    for (int is_redrawn = 0; is_redrawn < 2; is_redrawn++) {
        CHECK_OK(gpur_replay_sample(s.replay, ROWS, gpur_stream_native(theirs), &batch));
        faults_begin("cudaStreamIsCapturing", 1, cudaErrorInvalidResourceHandle, 0);
        if (is_redrawn) {
            CHECK_STATUS(gpur_replay_resample(s.replay, NULL, batch), GPUR_WOULD_BLOCK);
            CHECK_MESSAGE("is gone");
            faults_begin("cudaStreamIsCapturing", 1, cudaErrorLaunchFailure, 0); /* the device itself failed */
            CHECK_STATUS(gpur_replay_resample(s.replay, NULL, batch), GPUR_DEVICE_ERROR);
            CHECK_MESSAGE("cudaStreamIsCapturing");
        }
        faults_begin("cudaStreamIsCapturing", 1, cudaErrorInvalidResourceHandle, 0);
        gpur_batch_release(batch);
        CHECK(faults.failed);
        faults_end();
        CHECK_OK(gpur_replay_sample(s.replay, ROWS, NULL, &batch));
        CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
        CHECK_EQUAL(stats.batches_made, 2 + is_redrawn);
        CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    gpur_stream_destroy(theirs);
    kit_close(&s);
    CHECK_EQUAL(pretend_alive(), 0);
}

TEST(asking_an_event_leaves_an_error_of_the_host_programs)
{
    gpur_device *device = NULL;
    gpur_event *event = NULL;
    CHECK_OK(gpur_device_open("cuda:0", NULL, &device));
    CHECK_OK(gpur_event_create(device, &event));
    pretend_last_error = cudaErrorInvalidValue;
    faults_begin("cudaEventQuery", 1, cudaErrorNotReady, 0);
    (void)gpur_event_done(event);
    faults_end();
    CHECK_EQUAL(pretend_last_error, cudaErrorInvalidValue);
    pretend_last_error = cudaSuccess;
    faults_begin("cudaEventQuery", 1, cudaErrorNotReady, 0);
    CHECK(!gpur_event_done(event));
    faults_end();
    CHECK_EQUAL(pretend_last_error, cudaSuccess);
    CHECK(gpur_event_done(event));
    gpur_event_destroy(event);
    gpur_device_close(device);
}

static int synced; /* 1: a stream was synchronized after the call that failed */

static void hear_sync(const char *name)
{
    synced |= faults.failed && strcmp(name, "cudaStreamSynchronize") == 0;
}

static void check_waits(gpur_status status, const char *what, int64_t nth)
{
    faults_end();
    TEST_REQUIRE(status != GPUR_OK && faults.failed, "%s: copy %d did not fail", what, (int)nth);
    TEST_REQUIRE(synced, "%s: copy %d failed, and nothing waited for those before it", what, (int)nth);
}

/* The copies before one that fails may still read the caller's memory. */
TEST(a_call_whose_copy_fails_waits_for_the_copies_before_it)
{
    static file_scene s;
    gpur_device *device = NULL;
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_open("cuda:0", NULL, &device));
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_OK(gpur_learner_weight(s.learner, 0, &info));
    gpur_optimizer *const optimizer = &s.learner->step.optimizer;
    float *const weights = calloc((size_t)optimizer->count, sizeof *weights);
    CHECK(weights && info.count <= optimizer->count);
    faults.heard = hear_sync;
    for (int64_t nth = 2; nth <= 3; nth++) {
        synced = 0;
        faults_begin("cudaMemcpyAsync", nth, cudaErrorInvalidValue, 0);
        check_waits(gpur_learner_write_weights(s.learner, GPUR_WEIGHTS_ONLINE, info.name, weights, info.count),
                    "gpur_learner_write_weights", nth);
        synced = 0;
        faults_begin("cudaMemcpyAsync", nth, cudaErrorInvalidValue, 0);
        check_waits(gpur_optimizer_reset(optimizer, s.learner->stream, weights), "gpur_optimizer_reset", nth);
    }
    faults.heard = NULL;
    free(weights);
    scene_close(&s);
    gpur_device_close(device);
    CHECK_EQUAL(pretend_alive(), 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (test_on_cuda()) {
        printf("test_cuda_pretended: %s is real\n", test_device_name());
        return 77;
    }
    faults.pretend = 1;
    RUN(the_pretended_gpu_does_what_the_cpu_does);
    RUN(host_memory_that_runs_out_anywhere_is_refused_and_leaves_nothing);
    RUN(a_capture_of_the_host_programs_hinders_nothing);
    RUN(a_batch_whose_stream_is_gone_is_given_up);
    RUN(a_call_whose_copy_fails_waits_for_the_copies_before_it);
    RUN(asking_an_event_leaves_an_error_of_the_host_programs);
    scene_remove_folder();
    return test_main_end();
}
