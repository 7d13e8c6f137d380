/* SPDX-License-Identifier: MIT */
/*
 * Failing CUDA calls. A single failure is reported, leaks nothing, and the device stays usable. A permanent error is
 * reported by every later call, and all objects can still be destroyed. On "cuda:0" the calls that do not fail are
 * real; with "cpu" the runtime is the fake one (pretend/faults.h).
 */
#include "test.h"
#include "support/counting_alloc.h"
#include "device/cuda/pretend/faults.h"
#include "device/cuda/pretend/pretend.h"
#include "device/gemm.h"
#include "support/file_scene.h"
#include "base/status.h"

enum { STEPS = 32, MOST_CALLS = 100000 };

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
static int may_stay_untold(const char *name)
{
    static const char *const list[] = {"cudaStreamSynchronize", "cudaEventQuery", "cudaThreadExchangeStreamCaptureMode",
                                       NULL};
    return ends_something(name) || is_one_of(name, list);
}

/* Appends rows from device memory. */
static gpur_status append_arrays(file_scene *s)
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

static gpur_status keep_and_load(file_scene *s)
{
#ifdef GPUR_HAS_FILES
    GPUR_TRY(gpur_replay_save(s->replay, scene_path("replay"), NULL));
    GPUR_TRY(gpur_learner_save(s->learner, scene_path("learner"), NULL));
    GPUR_TRY(gpur_replay_load(s->replay, scene_path("replay"), NULL));
    return gpur_learner_load(s->learner, scene_path("learner"), NULL);
#else
    (void)s;
    return GPUR_OK;
#endif
}

static gpur_status play(file_scene *s, gpur_device *device, int variant)
{
    GPUR_TRY(scene_open(s, device, variant));
    GPUR_TRY(scene_begin(s, 0));
    GPUR_TRY(scene_run(s, 0, STEPS));
    if (variant < 7) /* layout rows */
        GPUR_TRY(append_arrays(s));
    if (variant == 9)
        GPUR_TRY(keep_and_load(s));
    return scene_finish(s);
}

/* Uses every object once, as far as it gets, and destroys everything. */
static gpur_status use(gpur_device *device, int variant)
{
    static file_scene scene;
    const gpur_status status = play(&scene, device, variant);
    scene_close(&scene);
    return status;
}

static const char *gpu(void)
{
    return test_on_cuda() ? test_device_name() : "cuda:0";
}

static gpur_status open_gpu(counting_alloc *counts, gpur_device **device)
{
    gpur_device_config config = test_device_config();
    config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = counts;
    return gpur_device_open(gpu(), &config, device);
}

static int64_t used_by(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    return gpur_device_get_info(device, &info) == GPUR_OK ? info.memory_used : -1;
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
        CHECK_OK(open_gpu(&counts, &device));
        faults.heard = count_call;
        const gpur_status status = use(device, alternate(v));
        faults.heard = NULL;
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
    TEST_REQUIRE(ends_something(name) || pretend_alive() == before, "after a failing %s %lld objects are left", name,
                 (long long)(pretend_alive() - before));
    TEST_REQUIRE(!faults.pretend || pretend_last_error == cudaSuccess, "after a failing %s CUDA's last error is %d",
                 name, (int)pretend_last_error);
}

static void fail_once(const char *name, int64_t nth, cudaError_t error, gpur_status wanted)
{
    counting_alloc counts = {0};
    gpur_device *device = NULL;
    const int64_t alive = pretend_alive();
    CHECK_OK(open_gpu(&counts, &device));
    faults_begin(name, nth, error, 0);
    const gpur_status status = use(device, alternate(nth));
    faults_end();
    TEST_REQUIRE(faults.failed, "the %lldth %s was not made", (long long)nth, name);
    TEST_REQUIRE(status == wanted || (status == GPUR_OK && may_stay_untold(name)),
                 "where the %lldth %s fails, the status is %s; wanted %s; last error: %s", (long long)nth, name,
                 gpur_status_name(status), gpur_status_name(wanted), gpur_last_error());
    CHECK(status == GPUR_OK || gpur_last_error()[0]);
    if (wanted == GPUR_OUT_OF_MEMORY)
        CHECK_MESSAGE("bytes wanted");
    CHECK_EQUAL(used_by(device), 0);
    CHECK_OK(use(device, alternate(nth + 1)));
    gpur_device_close(device);
    check_nothing_left(&counts, name, alive);
}

TEST(every_allocation_that_fails_is_refused_and_survived)
{
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(names[i], "cudaMalloc") != 0 && strcmp(names[i], "cudaHostAlloc") != 0)
            continue;
        CHECK(calls_of(i, 0) > 3 && calls_of(i, 1) > 3 && calls_of(i, 2) > 3);
        for (int64_t nth = 1; nth < MOST_CALLS && nth <= calls_of(i, nth); nth += test_on_cuda() ? 4 : 1)
            fail_once(names[i], nth, cudaErrorMemoryAllocation, GPUR_OUT_OF_MEMORY);
    }
}

/* The first three calls, one in the middle and the last; in the long form, every call. On a GPU, where each takes a
 * while, the first and one in the middle. */
static int64_t next_after(int64_t nth, int64_t calls)
{
    if (test_is_long() || (nth < 3 && !test_on_cuda()))
        return nth + 1;
    return nth < calls / 2 ? calls / 2 : nth < calls && !test_on_cuda() ? calls : calls + 1;
}

TEST(every_kind_of_call_that_fails_is_reported_and_survived)
{
    for (int i = 0; i < NAMES; i++)
        for (int64_t nth = 1; nth <= calls_of(i, nth); nth = next_after(nth, calls_of(i, nth)))
            fail_once(names[i], nth, cudaErrorUnknown, GPUR_DEVICE_ERROR);
}

static void fail_opening(const char *name, int64_t nth)
{
    /* These only find out what a device lacks, so their failure is not an error. */
    static const char *const tried[] = {"cudaFuncSetAttribute", "cudaOccupancyMaxActiveClusters", NULL};
    counting_alloc counts = {0};
    gpur_device *device = NULL;
    const int64_t alive = pretend_alive();
    faults_begin(name, nth, cudaErrorUnknown, 0);
    const gpur_status status = open_gpu(&counts, &device);
    faults_end();
    gpur_device_close(device);
    TEST_REQUIRE(status != GPUR_OK ? !device && gpur_last_error()[0] : is_one_of(name, tried),
                 "where the %lldth %s fails, opening is %s: %s", (long long)nth, name, gpur_status_name(status),
                 gpur_last_error());
    check_nothing_left(&counts, name, alive);
}

TEST(a_device_that_cannot_be_opened_leaves_nothing)
{
    for (int i = 0; i < NAMES; i++) {
        counting_alloc counts = {0};
        gpur_device *device = NULL;
        faults_begin(names[i], 0, cudaSuccess, 0);
        CHECK_OK(open_gpu(&counts, &device));
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
    CHECK_OK(open_gpu(&counts, &device));
    faults_begin(NULL, nth, cudaErrorIllegalAddress, 1);
    CHECK_STATUS(use(device, alternate(nth)), GPUR_DEVICE_ERROR);
    CHECK_MESSAGE("cudaErrorIllegalAddress");
    CHECK_STATUS(gpur_device_sync(device), GPUR_DEVICE_ERROR);
    CHECK_STATUS(gpur_device_alloc(device, 100, &memory), GPUR_DEVICE_ERROR);
    CHECK_STATUS(use(device, alternate(nth + 1)), GPUR_DEVICE_ERROR);
    gpur_device_close(device);
    CHECK_EQUAL(counts.blocks, 0);
    CHECK_EQUAL(counts.wrong_sizes, 0);
    faults_end();
    pretend_last_error = cudaSuccess; /* set by the destroying calls; nothing reads it any more */
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

/* Opened and left open, so that cuBLASLt is loaded only once, not for every device. */
static gpur_device *open_keeper(void)
{
    gpur_device *keeper = NULL;
    if (gpur_device_open(gpu(), NULL, &keeper) == GPUR_OK)
        (void)gpur_gemm_library(keeper);
    return keeper;
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    faults.pretend = !test_on_cuda();
    gpur_device *const keeper = open_keeper();
    count_calls();
    RUN(a_device_that_cannot_be_opened_leaves_nothing);
    RUN(every_allocation_that_fails_is_refused_and_survived);
    RUN(every_kind_of_call_that_fails_is_reported_and_survived);
    RUN(after_an_error_that_stays_every_call_says_so_and_all_can_be_destroyed);
    gpur_device_close(keeper);
    scene_remove_folder();
    return test_main_end();
}
