/* SPDX-License-Identifier: MIT */
/*
 * What every test program uses. Called as `test_x [device [executor]]`: "cpu" or "cuda:0", "inline" or "thread".
 * Prints one line if all tests pass; exits 77, which ctest shows as skipped, when the device is not here.
 *
 *   TEST(append_past_capacity_overwrites_oldest) { CHECK_OK(gpur_...); CHECK(count == 3); }
 *   int main(int argc, char **argv)
 *   {
 *       test_main_begin(argc, argv);
 *       RUN(append_past_capacity_overwrites_oldest);
 *       return test_main_end();
 *   }
 *
 * A failing CHECK prints why and returns from its function; the program goes on with the next test.
 */
#pragma once

#include "gpureplay.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *program, *device, *executor, *test;
    int tests;
    atomic_int failures; /* of the program; tests may check on several threads */
} test_state;

/* IN_RACE_CHECK: the parallel kernel bodies run, with a host thread for each GPU thread. This is slow, so loops are
 * short, and tests that check no kernel are skipped. IS_WATCHED: ThreadSanitizer is on, and convolutions are skipped
 * because they take too long. */
#ifdef GPUR_RACE_CHECK
enum { IN_RACE_CHECK = 1 };
#else
enum { IN_RACE_CHECK = 0 };
#endif
#ifdef __SANITIZE_THREAD__
enum { IS_WATCHED = 1 };
#else
enum { IS_WATCHED = 0 };
#endif

#define TEST(name) static void name(void)
#define RUN(name) test_run(#name, name)

#define TEST_REQUIRE(holds, ...)                                                                                       \
    do {                                                                                                               \
        if (!(holds)) {                                                                                                \
            test_fail(__FILE__, __LINE__);                                                                             \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

#define CHECK(condition) TEST_REQUIRE(condition, "%s does not hold", #condition)

/* Integers of any type that fits 64 bits. */
#define CHECK_EQUAL(got, want)                                                                                         \
    do {                                                                                                               \
        const long long test_got_ = (long long)(got), test_want_ = (long long)(want);                                  \
        TEST_REQUIRE(test_got_ == test_want_, "%s is %lld; wanted %lld", #got, test_got_, test_want_);                 \
    } while (0)

/* |got - want| <= tolerance; NaN is near nothing. */
#define CHECK_NEAR(got, want, tolerance)                                                                               \
    do {                                                                                                               \
        const double test_got_ = (double)(got), test_want_ = (double)(want), test_by_ = (double)(tolerance);           \
        TEST_REQUIRE(fabs(test_got_ - test_want_) <= test_by_, "%s is %.9g; wanted %.9g +- %.3g", #got, test_got_,     \
                     test_want_, test_by_);                                                                            \
    } while (0)

#define CHECK_STATUS(call, want)                                                                                       \
    do {                                                                                                               \
        const gpur_status test_got_ = (call), test_want_ = (want);                                                     \
        TEST_REQUIRE(test_got_ == test_want_, "%s is %s; wanted %s; last error: %s", #call,                            \
                     gpur_status_name(test_got_), gpur_status_name(test_want_), gpur_last_error());                    \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(call, GPUR_OK)

/* The last error of this thread contains `part`. */
#define CHECK_MESSAGE(part)                                                                                            \
    TEST_REQUIRE(strstr(gpur_last_error(), part), "the last error is \"%s\"; wanted \"%s\" in it", gpur_last_error(),  \
                 part)

#define CHECK_FAILS(call, status, part)                                                                                \
    do {                                                                                                               \
        CHECK_STATUS(call, status);                                                                                    \
        CHECK_MESSAGE(part);                                                                                           \
    } while (0)

static inline void test_fail(const char *file, int line)
{
    atomic_fetch_add(&test_state.failures, 1);
    fprintf(stderr, "%s:%d: in %s: ", file, line, test_state.test ? test_state.test : "main");
}

static inline void test_run(const char *name, void (*test)(void))
{
    test_state.test = name;
    test_state.tests++;
    test();
}

/* The names given on the command line. */
static inline const char *test_device_name(void)
{
    return test_state.device;
}
static inline int test_on_cuda(void)
{
    return strncmp(test_state.device, "cuda", 4) == 0;
}
static inline int32_t test_executor(void)
{
    return strcmp(test_state.executor, "thread") == 0 ? GPUR_EXECUTOR_THREAD : GPUR_EXECUTOR_INLINE;
}

/* GPUR_TEST_LONG=1 asks for the full counts; without it a program takes a few seconds at most. */
static inline int test_is_long(void)
{
    const char *const text = getenv("GPUR_TEST_LONG");
    return text && strcmp(text, "1") == 0;
}

/* So many rounds of a random schedule: ten times as many with the long form, fewer where each one is slower: by stream
 * threads, under sanitizers, and on CUDA, where each call that waits for the device takes microseconds. */
static inline uint64_t test_rounds(uint64_t rounds)
{
    rounds = test_is_long() ? 10 * rounds : rounds;
    if (test_executor() == GPUR_EXECUTOR_THREAD)
        rounds /= 10;
    if (test_on_cuda())
        rounds /= 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    rounds /= 10;
#endif
    return rounds;
}

/* A config for the executor under test, for tests that set more. */
static inline gpur_device_config test_device_config(void)
{
    gpur_device_config config;
    if (gpur_device_config_init(&config, sizeof config) != GPUR_OK) {
        fprintf(stderr, "gpur_device_config_init: %s\n", gpur_last_error());
        exit(1);
    }
    config.executor = test_executor();
    return config;
}

/* Bytes of device memory that are allocated; -1 on an error. */
static inline int64_t test_memory_used(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    return gpur_device_get_info(device, &info) == GPUR_OK ? info.memory_used : -1;
}

/* The device under test, open. Leaves the program when it cannot be had: 77 when it is not here, else 1. */
static inline gpur_device *test_device_of(gpur_device_config config)
{
    gpur_device *device = NULL;
    const gpur_status status = gpur_device_open(test_state.device, &config, &device);
    if (status == GPUR_OK)
        return device;
    printf("%s: no device %s: %s\n", test_state.program, test_state.device, gpur_last_error());
    exit(status == GPUR_UNAVAILABLE ? 77 : 1);
}
static inline gpur_device *test_device(void)
{
    return test_device_of(test_device_config());
}

/* The same with convolutions that give the same bits in each run. */
static inline gpur_device *test_device_deterministic(void)
{
    gpur_device_config config = test_device_config();
    config.deterministic = 1;
    return test_device_of(config);
}

static inline int test_main_begin(int argc, char **argv)
{
    const char *const slash = strrchr(argv[0], '/');
    test_state.program = slash ? slash + 1 : argv[0];
    test_state.device = argc > 1 ? argv[1] : "cpu";
    test_state.executor = argc > 2 ? argv[2] : "inline";
    if (strcmp(test_state.executor, "inline") != 0 && strcmp(test_state.executor, "thread") != 0) {
        fprintf(stderr, "%s: executor is \"%s\"; it must be \"inline\" or \"thread\"\n", test_state.program,
                test_state.executor);
        exit(1);
    }
    gpur_device_close(test_device());
    return 0;
}

/* Leaves a program that only concerns CUDA devices. */
static inline void test_require_cuda(void)
{
    if (test_on_cuda())
        return;
    printf("%s: %s is not a CUDA device\n", test_state.program, test_state.device);
    exit(77);
}

/* The exit status of the program. A program without a test has failed. */
static inline int test_main_end(void)
{
    const int failures = atomic_load(&test_state.failures);
    printf("%s %s %s: %d tests", test_state.program, test_state.device, test_state.executor, test_state.tests);
    if (failures)
        printf(", %d checks failed", failures);
    printf("\n");
    return failures || test_state.tests == 0;
}
