/* SPDX-License-Identifier: MIT */
/* Helper threads of a CPU device: each piece is run exactly once, the caller never waits for a helper that has not
 * begun a piece, and failures with threads only cost speed. */
#include "test.h"
#include "device/cpu/helpers.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

/* What pthread_create does from now on: it works as usual, fails, or starts threads that wait for `held`. */
enum { STARTS, REFUSES, HOLDS };
static atomic_int threads_now, threads_asked;
static sem_t held;

typedef struct held_start {
    void *(*run)(void *);
    void *context;
} held_start;

static void *start_when_let(void *context)
{
    const held_start start = *(held_start *)context;
    free(context);
    while (sem_wait(&held) != 0)
        ;
    return start.run(start.context);
}

/* Overrides the C library's function. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    void *const found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &found, sizeof real);
    atomic_fetch_add(&threads_asked, 1);
    if (atomic_load(&threads_now) == REFUSES || !real)
        return EAGAIN;
    if (atomic_load(&threads_now) == STARTS)
        return real(thread, attributes, run, context);
    held_start *const start = malloc(sizeof *start);
    start->run = run, start->context = context;
    return real(thread, attributes, start_when_let, start);
}

static gpur_device *device;

static gpur_helpers *open_helpers(int32_t threads)
{
    gpur_helpers *const helpers = aligned_alloc(alignof(gpur_helpers), sizeof *helpers);
    memset(helpers, 0, sizeof *helpers);
    return gpur_helpers_open(helpers, device, threads) == GPUR_OK ? helpers : NULL;
}

static void close_helpers(gpur_helpers *helpers)
{
    gpur_helpers_close(helpers);
    free(helpers);
}

enum { MAX_PIECES = 300 };

/* Plain memory, so that ThreadSanitizer checks whether the caller may read what helpers wrote. */
typedef struct tally {
    int runs[MAX_PIECES];
    int64_t pieces;
    gpur_helpers *inner; /* each piece runs a job of its own with them; NULL: it does not */
} tally;

static void add_one(int64_t piece, int64_t pieces, const void *args)
{
    tally *const t = *(tally *const *)args;
    t->runs[piece] += pieces == t->pieces;
}

static void count(int64_t piece, int64_t pieces, const void *args)
{
    tally *const t = *(tally *const *)args;
    volatile uint32_t x = 0;
    for (int i = 0; i < (int)(piece * 37 % 500); i++)
        x = x * 5 + 1;
    if (t->inner) {
        tally inner = {.pieces = 5};
        tally *const of_inner = &inner;
        gpur_helpers_run(t->inner, 5, GPUR_IN_CACHE, add_one, &of_inner);
        for (int i = 0; i < 5; i++)
            t->runs[piece] += inner.runs[i] != 1;
    }
    t->runs[piece] += pieces == t->pieces;
}

/* Runs jobs with random numbers of pieces; returns how many pieces were not run exactly once. */
static int64_t count_wrong(gpur_helpers *helpers, int works, uint32_t seed, int is_nested)
{
    int64_t wrong = 0;
    static _Thread_local tally of_thread;
    tally *const t = &of_thread;
    for (int work = 0; work < works; work++) {
        memset(t, 0, sizeof *t);
        seed = seed * 1664525u + 1013904223u;
        t->pieces = 1 + (int64_t)(seed >> 8) % MAX_PIECES;
        t->inner = is_nested ? helpers : NULL;
        gpur_helpers_run(helpers, t->pieces, work % 2 ? GPUR_IN_CACHE : GPUR_IN_MEMORY, count, &t);
        for (int64_t i = 0; i < MAX_PIECES; i++)
            wrong += t->runs[i] != (i < t->pieces);
    }
    return wrong;
}

TEST(each_piece_is_run_once_and_closing_ends_helpers_that_sleep_or_search)
{
    for (int i = 0; i < 60; i++) {
        const int32_t threads = 1 + i % 5;
        gpur_helpers *const helpers = open_helpers(threads);
        CHECK(helpers);
        const int64_t wrong = count_wrong(helpers, i < 5 ? 300 : i % 6, (uint32_t)i, 0);
        const int32_t started = helpers->started;
        if (i % 3 == 2)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        close_helpers(helpers);
        CHECK_EQUAL(wrong, 0);
        CHECK(started <= threads - 1);
    }
}

typedef struct caller {
    pthread_t thread;
    gpur_helpers *helpers;
    uint32_t seed;
    int64_t wrong;
} caller;

static void *call(void *context)
{
    caller *const c = context;
    c->wrong = count_wrong(c->helpers, 150, c->seed, 1);
    return NULL;
}

TEST(callers_at_once_and_pieces_that_call_again_are_served)
{
    enum { CALLERS = 3 };
    caller callers[CALLERS];
    gpur_helpers *const helpers = open_helpers(3);
    CHECK(helpers);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.helpers = helpers, .seed = 100 + (uint32_t)i};
        CHECK_EQUAL(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i].thread, NULL);
    close_helpers(helpers);
    for (int i = 0; i < CALLERS; i++)
        CHECK_EQUAL(callers[i].wrong, 0);
}

TEST(the_caller_does_not_wait_for_a_helper_that_has_not_begun)
{
    gpur_helpers *const helpers = open_helpers(2);
    CHECK(helpers);
    sem_init(&held, 0, 0);
    atomic_store(&threads_now, HOLDS);
    const int64_t wrong = count_wrong(helpers, 10, 9, 0); /* hangs if it waits */
    const int32_t started = helpers->started;
    atomic_store(&threads_now, STARTS);
    sem_post(&held);
    close_helpers(helpers);
    sem_destroy(&held);
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(started, 1);
}

TEST(where_no_thread_can_be_started_the_caller_does_all)
{
    gpur_helpers *const helpers = open_helpers(4);
    CHECK(helpers);
    CHECK_STATUS(gpur_device_sync(NULL), GPUR_INVALID_ARGUMENT);
    atomic_store(&threads_now, REFUSES);
    atomic_store(&threads_asked, 0);
    const int64_t wrong = count_wrong(helpers, 50, 3, 0);
    const int asked = atomic_load(&threads_asked);
    atomic_store(&threads_now, STARTS);
    CHECK_MESSAGE("device is NULL"); /* still the caller's own last error */
    close_helpers(helpers);
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(asked, 1);
}

/* Two pieces that must run on two threads: each waits until the other has begun. The helper's piece then takes long. */
typedef struct rendezvous {
    atomic_int begun;
    pthread_t caller;
    int by_helper;
} rendezvous;

static void wait_for_both(int64_t piece, int64_t pieces, const void *args)
{
    rendezvous *const m = *(rendezvous *const *)args;
    (void)piece, (void)pieces;
    atomic_fetch_add(&m->begun, 1);
    while (atomic_load(&m->begun) < 2)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    if (!pthread_equal(pthread_self(), m->caller)) {
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* like a helper that lost its core */
        m->by_helper++;
    }
}

TEST(a_helper_that_delays_the_caller_is_not_used_for_a_while)
{
    int64_t disabled_until = 0;
    for (int attempt = 0; attempt < 20 && disabled_until == 0; attempt++) { /* the caller may lose its core, too */
        gpur_helpers *const helpers = open_helpers(2);
        rendezvous m = {.caller = pthread_self()};
        rendezvous *const args = &m;
        CHECK(helpers);
        gpur_helpers_run(helpers, 2, GPUR_IN_MEMORY, wait_for_both, &args);
        disabled_until = helpers->disabled_until;
        close_helpers(helpers);
        CHECK_EQUAL(m.by_helper, 1);
    }
    CHECK(disabled_until > 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(each_piece_is_run_once_and_closing_ends_helpers_that_sleep_or_search);
    RUN(callers_at_once_and_pieces_that_call_again_are_served);
    RUN(the_caller_does_not_wait_for_a_helper_that_has_not_begun);
    RUN(where_no_thread_can_be_started_the_caller_does_all);
    RUN(a_helper_that_delays_the_caller_is_not_used_for_a_while);
    gpur_device_close(device);
    return test_main_end();
}
