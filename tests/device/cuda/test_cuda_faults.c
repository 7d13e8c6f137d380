/* SPDX-License-Identifier: MIT */
/*
 * The library's CUDA files, and CUDA calls that fail. A single failure is reported, leaks nothing, and the device stays
 * usable. A permanent error is reported by every later call, and all objects can still be destroyed. On "cuda:0" the
 * calls that do not fail are real; with "cpu" the runtime is the fake one (fake_cuda.h), where a run also survives host
 * memory running out at any point.
 */
#include "test.h"
#include "base/status.h"
#include "device/gemm.h"
#include "learn/dqn/dqn.h"
#include "support/counting_alloc.h"
#include "support/cuda/fake_cuda.h"
#include "support/checkpoint_fixture.h"
#include "support/replay_fixture.h"

enum { STEPS = 32, MAX_CALLS = 100000 };

static const char *const names[] = {
#define NAME(name, parameters, arguments) #name,
    RUNTIME_LIST(NAME) "cudaStreamEndCapture"};
enum { NAMES = sizeof names / sizeof *names };

static int is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return 1;
    return 0;
}

/* Calls that destroy an object, whose failure leaves CUDA's object alive; and the call that precedes all of them. */
static int ends_something(const char *name)
{
    static const char *const list[] = {"cudaGetDevice", "cudaFree", "cudaFreeHost", NULL};
    return is_one_of(name, list) || strstr(name, "Destroy") != NULL;
}

/* Calls whose failure may stay unreported: in functions that return nothing, in statistics, or where it only makes a
 * later call fail, which reports it. */
static int may_stay_unreported(const char *name)
{
    static const char *const list[] = {"cudaStreamSynchronize", "cudaEventSynchronize", "cudaEventQuery",
                                       "cudaThreadExchangeStreamCaptureMode", NULL};
    return ends_something(name) || is_one_of(name, list);
}

/* Appends rows from device memory. */
static gpur_status append_arrays(checkpoint_fixture *s)
{
    gpur_writer *writer = NULL;
    void *memory = NULL;
    gpur_status status = gpur_device_alloc(s->device, 4096, &memory);
    const void *const arrays[] = {memory, memory, memory, memory, memory, memory, memory, memory};
    if (status == GPUR_OK)
        status = gpur_writer_create(s->replay, 1, &writer);
    if (status == GPUR_OK)
        status = gpur_writer_append_fields(writer, 4, arrays, NULL, NULL);
    gpur_writer_destroy(writer);
    gpur_device_free(s->device, memory);
    return status;
}

static gpur_status save_and_load(checkpoint_fixture *s)
{
#ifdef GPUR_HAS_FILES
    GPUR_TRY(gpur_replay_save(s->replay, test_file_path("replay"), NULL));
    GPUR_TRY(gpur_learner_save(s->learner, test_file_path("learner"), NULL));
    GPUR_TRY(gpur_replay_load(s->replay, test_file_path("replay"), NULL));
    return gpur_learner_load(s->learner, test_file_path("learner"), NULL);
#else
    (void)s;
    return GPUR_OK;
#endif
}

/* A policy with the learner's network: pulls, acts, and takes its own weights back. */
static gpur_status use_policy(gpur_policy *policy, gpur_learner *learner)
{
    static unsigned char weights[1 << 16];
    const float obs[2 * CHECKPOINT_FEATURES] = {0}, epsilon[2] = {0.5f, 0.5f};
    const int64_t bytes = gpur_policy_weights_bytes(policy);
    const gpur_policy_input input = {.size = sizeof input, .count = 2, .obs = obs, .epsilon = epsilon};
    int32_t actions[2];
    const gpur_policy_output output = {.size = sizeof output, .actions = actions};
    GPUR_TRY(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_TARGET));
    GPUR_TRY(gpur_policy_act(policy, &input, &output));
    GPUR_REQUIRE(bytes <= (int64_t)sizeof weights, "the weights have %d bytes", (int)bytes);
    GPUR_TRY(gpur_policy_get_weights(policy, weights, bytes));
    return gpur_policy_set_weights(policy, weights, bytes);
}

static gpur_status act_by_policy(checkpoint_fixture *s)
{
    gpur_policy *policy = NULL;
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.network = gpur_dqn_of(s->learner)->config.network;
    config.obs = (gpur_field){"obs", GPUR_FLOAT32, {CHECKPOINT_FEATURES}};
    config.streams = 2;
    GPUR_TRY(gpur_policy_create(s->device, &config, &policy));
    const gpur_status status = use_policy(policy, s->learner);
    gpur_policy_destroy(policy);
    return status;
}

/* Uses every object once, as far as it gets. */
static gpur_status run_variant(checkpoint_fixture *s, gpur_device *device, int variant)
{
    GPUR_TRY(checkpoint_fixture_open(s, device, variant));
    GPUR_TRY(checkpoint_fixture_begin(s, 0));
    GPUR_TRY(checkpoint_fixture_run(s, 0, STEPS));
    if (variant < 7) /* layout rows */
        GPUR_TRY(append_arrays(s));
    if (variant == 4)
        GPUR_TRY(act_by_policy(s));
    if (variant == 9)
        GPUR_TRY(save_and_load(s));
    return checkpoint_fixture_finish(s);
}

/* The same, and destroys everything. */
static gpur_status use(gpur_device *device, int variant)
{
    static checkpoint_fixture fixture;
    const gpur_status status = run_variant(&fixture, device, variant);
    checkpoint_fixture_close(&fixture);
    return status;
}

static const char *gpu(void)
{
    return test_on_cuda() ? test_device_name() : "cuda:0";
}

static gpur_status open_counted(const char *name, counting_alloc *counts, gpur_device **device)
{
    gpur_device_config config = test_device_config();
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = counts;
    return gpur_device_open(name, &config, device);
}

enum { VARIANTS = 3 };

static int alternate(int64_t nth)
{
    static const int variants[VARIANTS] = {4, 9, 2}; /* prioritized; everything, with layout frames; scatter */
    return variants[nth % VARIANTS];
}

/* How many calls of each name `use` makes. */
static int64_t calls_by_name[VARIANTS][NAMES], *counting;

static void count_call(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        counting[i] += strcmp(names[i], name) == 0;
}

static void count_calls(void)
{
    for (int v = 0; v < VARIANTS; v++) {
        counting_alloc counts = {0};
        gpur_device *device = NULL;
        counting = calls_by_name[v];
        CHECK_OK(open_counted(gpu(), &counts, &device));
        faults.on_call = count_call;
        const gpur_status status = use(device, alternate(v));
        faults.on_call = NULL;
        gpur_device_close(device);
        CHECK_OK(status);
    }
}

static int64_t calls_of(int name, int64_t nth)
{
    return calls_by_name[nth % VARIANTS][name];
}

/* Ignores the objects that existed `before`, left by earlier failures to destroy. */
static void check_nothing_left(const counting_alloc *counts, const char *name, int64_t before)
{
    CHECK_EQUAL(counts->blocks, 0);
    CHECK_EQUAL(counts->wrong_sizes, 0);
    TEST_REQUIRE(ends_something(name) || fake_alive() == before, "after a failing %s %lld objects are left", name,
                 (long long)(fake_alive() - before));
    TEST_REQUIRE(!faults.fake || fake_last_error == cudaSuccess, "after a failing %s CUDA's last error is %d", name,
                 (int)fake_last_error);
}

/* Ends the faults. A change of the capture mode that failed leaves this thread in the relaxed mode, in which what
 * follows would be tested less. */
static void end_faults(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    cuda_faults_end();
    CHECK(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
}

static void fail_once(const char *name, int64_t nth, cudaError_t error, gpur_status wanted)
{
    counting_alloc counts = {0};
    gpur_device *device = NULL;
    const int64_t alive = fake_alive();
    CHECK_OK(open_counted(gpu(), &counts, &device));
    cuda_faults_begin(name, nth, error, 0);
    const gpur_status status = use(device, alternate(nth));
    end_faults();
    TEST_REQUIRE(faults.failed, "the %lldth %s was not made", (long long)nth, name);
    TEST_REQUIRE(status == wanted || (status == GPUR_OK && may_stay_unreported(name)),
                 "where the %lldth %s fails, the status is %s; wanted %s; last error: %s", (long long)nth, name,
                 gpur_status_name(status), gpur_status_name(wanted), gpur_last_error());
    CHECK(status == GPUR_OK || gpur_last_error()[0]);
    if (wanted == GPUR_OUT_OF_MEMORY)
        CHECK_MESSAGE("bytes wanted");
    CHECK_EQUAL(test_memory_used(device), 0);
    CHECK_OK(use(device, alternate(nth + 1)));
    gpur_device_close(device);
    check_nothing_left(&counts, name, alive);
}

/* The first three calls, one in the middle and the last; in the long form, every call. On a GPU, where each takes a
 * while, the first and one in the middle. */
static int64_t next_after(int64_t nth, int64_t calls)
{
    if (test_is_long() || (nth < 3 && !test_on_cuda()))
        return nth + 1;
    return nth < calls / 2 ? calls / 2 : nth < calls && !test_on_cuda() ? calls : calls + 1;
}

/* Allocations fail one by one, for lack of memory. */
TEST(every_kind_of_call_that_fails_is_reported_and_survived)
{
    for (int i = 0; i < NAMES; i++) {
        const int allocates = strcmp(names[i], "cudaMalloc") == 0 || strcmp(names[i], "cudaHostAlloc") == 0;
        CHECK(!allocates || (calls_of(i, 0) > 3 && calls_of(i, 1) > 3 && calls_of(i, 2) > 3));
        for (int64_t nth = 1; allocates && nth < MAX_CALLS && nth <= calls_of(i, nth); nth += test_on_cuda() ? 4 : 1)
            fail_once(names[i], nth, cudaErrorMemoryAllocation, GPUR_OUT_OF_MEMORY);
        for (int64_t nth = 1; nth <= calls_of(i, nth); nth = next_after(nth, calls_of(i, nth)))
            fail_once(names[i], nth, cudaErrorUnknown, GPUR_DEVICE_ERROR);
    }
}

static void fail_opening(const char *name, int64_t nth)
{
    counting_alloc counts = {0};
    gpur_device *device = NULL;
    const int64_t alive = fake_alive();
    cuda_faults_begin(name, nth, cudaErrorUnknown, 0);
    const gpur_status status = open_counted(gpu(), &counts, &device);
    end_faults();
    gpur_device_close(device);
    const int is_refused = status != GPUR_OK && !device && gpur_last_error()[0];
    const int changes_mode = strcmp(name, "cudaThreadExchangeStreamCaptureMode") == 0; /* which no call needs here */
    TEST_REQUIRE(is_refused || (changes_mode && status == GPUR_OK), "where the %lldth %s fails, opening is %s: %s",
                 (long long)nth, name, gpur_status_name(status), gpur_last_error());
    check_nothing_left(&counts, name, alive);
}

TEST(a_device_that_cannot_be_opened_leaves_nothing)
{
    for (int i = 0; i < NAMES; i++) {
        counting_alloc counts = {0};
        gpur_device *device = NULL;
        cuda_faults_begin(names[i], 0, cudaSuccess, 0);
        CHECK_OK(open_counted(gpu(), &counts, &device));
        const int64_t calls = faults.calls;
        gpur_device_close(device);
        for (int64_t nth = 1; nth <= calls; nth = next_after(nth, calls))
            fail_opening(names[i], nth);
    }
}

/* As after an illegal address: from the nth call on every call fails, whatever its name. */
static void fail_for_ever(int64_t nth)
{
    counting_alloc counts = {0};
    gpur_device *device = NULL;
    void *memory = NULL;
    CHECK_OK(open_counted(gpu(), &counts, &device));
    cuda_faults_begin(NULL, nth, cudaErrorIllegalAddress, 1);
    CHECK_FAILS(use(device, alternate(nth)), GPUR_DEVICE_ERROR, "cudaErrorIllegalAddress");
    CHECK_STATUS(gpur_device_sync(device), GPUR_DEVICE_ERROR);
    CHECK_STATUS(gpur_device_alloc(device, 100, &memory), GPUR_DEVICE_ERROR);
    CHECK_STATUS(use(device, alternate(nth + 1)), GPUR_DEVICE_ERROR);
    gpur_device_close(device);
    CHECK_EQUAL(counts.blocks, 0);
    CHECK_EQUAL(counts.wrong_sizes, 0);
    end_faults();
    fake_last_error = cudaSuccess; /* set by the destroying calls; nothing reads it any more */
}

TEST(after_an_error_that_stays_every_call_says_so_and_all_can_be_destroyed)
{
    const int64_t points = test_is_long() ? 1000 : test_on_cuda() ? 4 : 50;
    gpur_device *cpu = NULL;
    int64_t calls = 0;
    for (int i = 0; i < NAMES; i++)
        calls += calls_of(i, 0);
    CHECK(calls > 1000);
    for (int64_t i = 0; i < points; i++)
        fail_for_ever(1 + i * calls / 3 / points); /* early enough in every variant: before objects are destroyed */
    CHECK_OK(gpur_device_open("cpu", NULL, &cpu));
    CHECK_OK(use(cpu, alternate(0)));
    gpur_device_close(cpu);
}

/* ---- on the fake runtime alone ---- */

/* Lets each allocation after opening the device fail, and all later ones with it. */
TEST(host_memory_that_runs_out_anywhere_is_refused_and_leaves_nothing)
{
    static const char *const names_of_devices[] = {"cuda:0", "cpu"};
    for (int i = 0; i < 4; i++) {
        gpur_status status = GPUR_OUT_OF_MEMORY;
        int64_t nth = 1;
        for (; status == GPUR_OUT_OF_MEMORY; nth++) {
            counting_alloc counts = {0};
            gpur_device *device = NULL;
            CHECK_OK(open_counted(names_of_devices[i / 2], &counts, &device));
            counts.fail_at = counts.calls + nth;
            status = use(device, i % 2 ? 9 : 4);
            gpur_device_close(device);
            CHECK(counts.blocks == 0 && counts.wrong_sizes == 0 && fake_alive() == 0);
        }
        TEST_REQUIRE(status == GPUR_OK && nth > 20, "%s, variant %d, allocation %lld: %s: %s", names_of_devices[i / 2],
                     i % 2 ? 9 : 4, (long long)nth - 1, gpur_status_name(status), gpur_last_error());
    }
}

enum { ROWS = 40 };

static int open_replay(replay_fixture *s)
{
    const gpur_replay_config config = replay_fixture_plain_config(1000, 100, 512, GPUR_FLUSH_AUTO);
    gpur_device *device = NULL;
    return gpur_device_open("cuda:0", NULL, &device) == GPUR_OK && replay_fixture_open(s, device, &config, 1) &&
           replay_fixture_append(s, 600) == GPUR_OK;
}

/* PyTorch captures in the global mode: until the capture ends, CUDA refuses calls that may wait for the device, on
 * every thread. */
TEST(a_capture_of_the_host_programs_hinders_nothing)
{
    gpur_batch *batch = NULL;
    gpur_device *device = NULL;
    replay_fixture s;
    fake_global_capture(1);
    CHECK(open_replay(&s));
    for (int64_t count = 8; count <= 512; count *= 4) { /* memory that grows is allocated and freed */
        CHECK_OK(gpur_replay_sample(s.replay, count, NULL, &batch));
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    replay_fixture_close(&s);
    for (int v = 0; v < VARIANTS; v++) { /* learners, policies and files */
        CHECK_OK(gpur_device_open("cuda:0", NULL, &device));
        CHECK_OK(use(device, alternate(v)));
        gpur_device_close(device);
    }
    CHECK_EQUAL(fake_global_capture(0), 0);
    CHECK_EQUAL(fake_alive(), 0);
}

/* The library asks CUDA whether a stream is being captured before it enqueues anything behind it. If CUDA answers that
 * the stream no longer exists, the batch's memory is not reused, and nothing else happens. */
TEST(a_batch_whose_stream_is_gone_is_given_up)
{
    gpur_batch *batch = NULL;
    gpur_stream *theirs = NULL;
    gpur_replay_stats stats = {.size = sizeof stats};
    replay_fixture s;
    CHECK(open_replay(&s));
    CHECK_OK(gpur_stream_create(s.device, &theirs));
    for (int is_redrawn = 0; is_redrawn < 2; is_redrawn++) {
        CHECK_OK(gpur_replay_sample(s.replay, ROWS, gpur_stream_native(theirs), &batch));
        cuda_faults_begin("cudaStreamIsCapturing", 1, cudaErrorInvalidResourceHandle, 0);
        if (is_redrawn) {
            CHECK_FAILS(gpur_replay_sample_into(s.replay, NULL, batch), GPUR_WOULD_BLOCK, "is gone");
            cuda_faults_begin("cudaStreamIsCapturing", 1, cudaErrorLaunchFailure, 0); /* the device itself failed */
            CHECK_FAILS(gpur_replay_sample_into(s.replay, NULL, batch), GPUR_DEVICE_ERROR, "cudaStreamIsCapturing");
        }
        cuda_faults_begin("cudaStreamIsCapturing", 1, cudaErrorInvalidResourceHandle, 0);
        gpur_batch_release(batch);
        CHECK(faults.failed);
        cuda_faults_end();
        CHECK_OK(gpur_replay_sample(s.replay, ROWS, NULL, &batch));
        CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
        CHECK_EQUAL(stats.batches_made, 2 + is_redrawn);
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
        gpur_batch_release(batch);
    }
    gpur_stream_destroy(theirs);
    replay_fixture_close(&s);
    CHECK_EQUAL(fake_alive(), 0);
}

static int synced; /* 1: a stream was synchronized after the call that failed */

static void note_sync(const char *name)
{
    synced |= faults.failed && strcmp(name, "cudaStreamSynchronize") == 0;
}

/* The copies before one that fails may still read the caller's memory. */
TEST(a_call_whose_copy_fails_waits_for_the_copies_before_it)
{
    static checkpoint_fixture s;
    gpur_device *device = NULL;
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_open("cuda:0", NULL, &device));
    CHECK_OK(checkpoint_fixture_open(&s, device, 0));
    CHECK_OK(gpur_learner_get_weight_info(s.learner, 0, &info));
    gpur_optimizer *const optimizer = &gpur_dqn_of(s.learner)->step.optimizer;
    float *const weights = calloc((size_t)optimizer->count, sizeof *weights);
    CHECK(weights && info.count <= optimizer->count);
    faults.on_call = note_sync;
    for (int64_t i = 0; i < 4; i++) {
        synced = 0;
        cuda_faults_begin("cudaMemcpyAsync", 2 + i / 2, cudaErrorInvalidValue, 0);
        const gpur_status status =
            i % 2 ? gpur_optimizer_reset(optimizer, s.learner->stream, weights)
                  : gpur_learner_write_weights(s.learner, GPUR_WEIGHTS_ONLINE, info.name, weights, info.count);
        cuda_faults_end();
        TEST_REQUIRE(status != GPUR_OK && faults.failed && synced, "case %d: %s", (int)i, gpur_status_name(status));
    }
    faults.on_call = NULL;
    free(weights);
    checkpoint_fixture_close(&s);
    gpur_device_close(device);
    CHECK_EQUAL(fake_alive(), 0);
}

TEST(asking_an_event_leaves_an_error_of_the_host_programs)
{
    static const cudaError_t errors[] = {cudaErrorInvalidValue, cudaSuccess};
    gpur_device *device = NULL;
    gpur_event *event = NULL;
    CHECK_OK(gpur_device_open("cuda:0", NULL, &device));
    CHECK_OK(gpur_event_create(device, &event));
    for (int i = 0; i < 2; i++) {
        fake_last_error = errors[i];
        cuda_faults_begin("cudaEventQuery", 1, cudaErrorNotReady, 0);
        CHECK_EQUAL(gpur_event_done(event), i == 0); /* with an error of theirs it waits instead of asking */
        cuda_faults_end();
        CHECK_EQUAL(fake_last_error, errors[i]);
    }
    CHECK(gpur_event_done(event));
    gpur_event_destroy(event);
    gpur_device_close(device);
}

/* "auto" where CUDA counts no GPUs for this reason: the CPU, or the failure. */
static void check_auto(cudaError_t reason, gpur_status wanted, const char *text)
{
    gpur_device *device = NULL;
    cuda_faults_begin("cudaGetDeviceCount", 1, reason, 0);
    const gpur_status status = gpur_device_open("auto", NULL, &device);
    cuda_faults_end();
    CHECK_EQUAL(status, wanted);
    CHECK(wanted == GPUR_OK ? strcmp(gpur_device_name(device), "cpu") == 0 : !device);
    if (wanted != GPUR_OK)
        CHECK_MESSAGE(text);
    gpur_device_close(device);
}

TEST(auto_passes_over_a_missing_driver_and_not_over_a_gpu_that_fails)
{
    check_auto(cudaErrorInsufficientDriver, GPUR_OK, "");
    check_auto(cudaErrorNoDevice, GPUR_OK, "");
    check_auto(cudaErrorUnknown, GPUR_DEVICE_ERROR, "cuda:0: cudaGetDeviceCount: ");
    check_auto(cudaErrorInitializationError, GPUR_DEVICE_ERROR, "a process that was forked");
}

TEST(a_device_takes_no_stream_that_is_another_one_in_each_thread)
{
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    config.stream = (void *)cudaStreamPerThread;
    CHECK_FAILS(gpur_device_open("cuda:0", &config, &device), GPUR_INVALID_ARGUMENT, "another one in each thread");
    CHECK(!device);
}

#if CUDART_VERSION >= 12080
TEST(a_stream_of_another_gpu_is_refused)
{
    gpur_device *device = NULL, *other = NULL;
    gpur_device_config config = test_device_config();
    gpur_stream *theirs = NULL, *borrowed = NULL;
    CHECK_OK(gpur_device_open("cuda:0", NULL, &device));
    CHECK_OK(gpur_stream_create(device, &theirs));
    config.stream = gpur_stream_native(theirs);
    fake.of_streams = 1;
    CHECK_FAILS(gpur_device_open("cuda:0", &config, &other), GPUR_INVALID_ARGUMENT, "of cuda:1; it must be of cuda:0");
    CHECK_FAILS(gpur_device_wait_stream(device, config.stream), GPUR_INVALID_ARGUMENT, "of cuda:1");
    CHECK_FAILS(gpur_stream_borrow(device, config.stream, &borrowed), GPUR_INVALID_ARGUMENT, "of cuda:1");
    fake.of_streams = 0;
    CHECK_OK(gpur_device_open("cuda:0", &config, &other));
    gpur_device_close(other);
    gpur_stream_destroy(theirs);
    gpur_device_close(device);
    CHECK_EQUAL(fake_alive(), 0);
}
#endif

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    faults.fake = !test_on_cuda();
    if (faults.fake) { /* first: a failed destruction below leaves objects */
        RUN(host_memory_that_runs_out_anywhere_is_refused_and_leaves_nothing);
        RUN(a_capture_of_the_host_programs_hinders_nothing);
        RUN(a_batch_whose_stream_is_gone_is_given_up);
        RUN(a_call_whose_copy_fails_waits_for_the_copies_before_it);
        RUN(asking_an_event_leaves_an_error_of_the_host_programs);
        RUN(auto_passes_over_a_missing_driver_and_not_over_a_gpu_that_fails);
        RUN(a_device_takes_no_stream_that_is_another_one_in_each_thread);
#if CUDART_VERSION >= 12080
        RUN(a_stream_of_another_gpu_is_refused);
#endif
    }
    gpur_device *first = NULL; /* left open, so that cuBLASLt is loaded only once, not for every device */
    if (gpur_device_open(gpu(), NULL, &first) == GPUR_OK)
        (void)gpur_gemm_library(first);
    count_calls();
    RUN(a_device_that_cannot_be_opened_leaves_nothing);
    RUN(every_kind_of_call_that_fails_is_reported_and_survived);
    RUN(after_an_error_that_stays_every_call_says_so_and_all_can_be_destroyed);
    gpur_device_close(first);
    test_remove_folder();
    return test_main_end();
}
