/* SPDX-License-Identifier: MIT */
/* Guarantees of the CPU's own streams beyond those of any device. Skipped on CUDA, whose streams are the driver's. */
#include "test.h"
#include "device/cpu/cpu.h"
#include "support/gate_cpu.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

typedef struct gated {
    gpur_device *device;
    gpur_stream *a, *b;
    gpur_event *event;
    gate gate;
} gated;

static gpur_status open_gated(gated *g)
{
    gate_init(&g->gate);
    g->device = test_device();
    GPUR_TRY(gpur_stream_create(g->device, &g->a));
    GPUR_TRY(gpur_stream_create(g->device, &g->b));
    return gpur_event_create(g->device, &g->event);
}

static void close_gated(gated *g)
{
    gpur_event_destroy(g->event);
    gpur_stream_destroy(g->b);
    gpur_stream_destroy(g->a);
    gpur_device_close(g->device);
    gate_destroy(&g->gate);
}

TEST(enqueuing_does_not_wait_for_the_work)
{
    gated g;
    char from = 7, to = 0;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gate_close(&g.gate, g.a));
    CHECK_OK(gpur_copy(g.a, &to, &from, 1));
    CHECK_OK(gpur_event_record(g.event, g.a));
    CHECK(!gpur_event_done(g.event));
    gate_open(&g.gate);
    CHECK_OK(gpur_event_sync(g.event));
    CHECK(gpur_event_done(g.event));
    CHECK_EQUAL(to, 7);
    close_gated(&g);
}

TEST(a_wait_holds_its_own_stream_back_until_the_event)
{
    gated g;
    char from = 7, between = 0, to = 0;
    gpur_event *end = NULL;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gpur_event_create(g.device, &end));
    CHECK_OK(gate_close(&g.gate, g.a));
    CHECK_OK(gpur_copy(g.a, &between, &from, 1));
    CHECK_OK(gpur_event_record(g.event, g.a));
    CHECK_OK(gpur_stream_wait(g.b, g.event));
    CHECK_OK(gpur_copy(g.b, &to, &between, 1));
    CHECK_OK(gpur_event_record(end, g.b));
    usleep(20000);
    CHECK(!gpur_event_done(end));
    gate_open(&g.gate);
    CHECK_OK(gpur_stream_sync(g.b));
    CHECK_EQUAL(to, 7);
    gpur_event_destroy(end);
    close_gated(&g);
}

TEST(recording_anew_does_not_disturb_an_earlier_wait)
{
    gated g;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gpur_event_record(g.event, g.a));
    CHECK_OK(gpur_stream_wait(g.b, g.event));
    CHECK_OK(gate_close(&g.gate, g.a));
    CHECK_OK(gpur_event_record(g.event, g.a)); /* enqueued behind the gate */
    CHECK_OK(gpur_stream_sync(g.b));           /* hangs if it waits for the second record */
    CHECK(!gpur_event_done(g.event));
    gate_open(&g.gate);
    CHECK_OK(gpur_event_sync(g.event));
    close_gated(&g);
}

TEST(a_wait_after_recording_anew_is_for_the_new_record)
{
    gated g;
    char from = 9, between = 0, to = 0;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gpur_event_record(g.event, g.b)); /* on another stream, and reached at once */
    CHECK_OK(gate_close(&g.gate, g.a));
    CHECK_OK(gpur_copy(g.a, &between, &from, 1));
    CHECK_OK(gpur_event_record(g.event, g.a));
    CHECK_OK(gpur_stream_wait(g.b, g.event));
    CHECK_OK(gpur_copy(g.b, &to, &between, 1));
    gate_open(&g.gate);
    CHECK_OK(gpur_stream_sync(g.b));
    CHECK_EQUAL(to, 9);
    close_gated(&g);
}

TEST(an_event_may_go_while_work_refers_to_it)
{
    gated g;
    gpur_event *event = NULL;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gpur_event_create(g.device, &event));
    CHECK_OK(gate_close(&g.gate, g.a));
    CHECK_OK(gpur_event_record(event, g.a));
    CHECK_OK(gpur_stream_wait(g.b, event));
    gpur_event_destroy(event);
    gate_open(&g.gate);
    CHECK_OK(gpur_stream_sync(g.b));
    close_gated(&g);
}

typedef struct counter {
    int64_t count; /* not atomic: protected only by the order of the stream */
} counter;

static gpur_status count_one(gpur_stream *stream, void *payload)
{
    counter *c = NULL;
    (void)stream;
    memcpy(&c, payload, sizeof c);
    c->count++;
    return GPUR_OK;
}

static gpur_status enqueue_count(gpur_stream *stream, counter *c)
{
    memcpy(gpur_cpu_begin(stream), &c, sizeof c);
    return gpur_cpu_end(stream, count_one);
}

TEST(destroying_a_stream_finishes_its_work)
{
    gated g;
    counter c = {0};
    gpur_stream *stream = NULL;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gpur_stream_create(g.device, &stream));
    for (int i = 0; i < 200; i++)
        CHECK_OK(enqueue_count(stream, &c));
    gpur_stream_destroy(stream);
    CHECK_EQUAL(c.count, 200);
    close_gated(&g);
}

static void *open_soon(void *context)
{
    usleep(20000);
    gate_open((gate *)context);
    return NULL;
}

TEST(a_full_stream_makes_its_caller_wait_and_loses_nothing)
{
    gated g;
    counter c = {0};
    pthread_t opener;
    CHECK_OK(open_gated(&g));
    CHECK_OK(gate_close(&g.gate, g.a));
    CHECK(pthread_create(&opener, NULL, open_soon, &g.gate) == 0);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(enqueue_count(g.a, &c));
    CHECK_OK(gpur_stream_sync(g.a));
    CHECK_EQUAL(c.count, 1000);
    pthread_join(opener, NULL);
    close_gated(&g);
}

enum { CALLERS = 4, EACH = 500 };
typedef struct caller {
    gpur_stream *stream;
    counter *c;
    pthread_t thread;
    gpur_status status;
} caller;

static void *enqueue_many(void *context)
{
    caller *const me = (caller *)context;
    for (int i = 0; i < EACH && me->status == GPUR_OK; i++)
        me->status = enqueue_count(me->stream, me->c);
    return NULL;
}

TEST(any_number_of_threads_enqueue_on_one_stream)
{
    gpur_device *const device = test_device();
    gpur_stream *stream = NULL;
    counter c = {0};
    caller callers[CALLERS];
    CHECK_OK(gpur_stream_create(device, &stream));
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.stream = stream, .c = &c};
        CHECK(pthread_create(&callers[i].thread, NULL, enqueue_many, &callers[i]) == 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_OK(callers[i].status);
    }
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_EQUAL(c.count, CALLERS * EACH);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

static gpur_status fail_with_number(gpur_stream *stream, void *payload)
{
    int number = 0;
    (void)stream;
    memcpy(&number, payload, sizeof number);
    return gpur_fail(GPUR_DEVICE_ERROR, "operation %d failed", number);
}

TEST(the_first_failure_comes_out_at_every_sync_with_its_text)
{
    gpur_device *const device = test_device();
    gpur_stream *stream = NULL;
    CHECK_OK(gpur_stream_create(device, &stream));
    for (int number = 1; number <= 2; number++) {
        memcpy(gpur_cpu_begin(stream), &number, sizeof number);
        (void)gpur_cpu_end(stream, fail_with_number); /* fails here if inline, else only at the sync */
    }
    CHECK_STATUS(gpur_stream_sync(stream), GPUR_DEVICE_ERROR);
    CHECK_MESSAGE("operation 1 failed");
    CHECK_STATUS(gpur_device_sync(device), GPUR_DEVICE_ERROR);
    CHECK_MESSAGE("operation 1 failed");
    gpur_stream_destroy(stream);
    CHECK_OK(gpur_device_sync(device));
    gpur_device_close(device);
}

TEST(no_thread_of_ours_takes_a_signal)
{
    gpur_device *const device = test_device();
    gpur_stream *stream = NULL;
    sigset_t usr1, pending;
    const struct timespec soon = {.tv_nsec = 100000000};
    CHECK_OK(gpur_stream_create(device, &stream));
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL); /* a thread that does not block it would be killed by it */
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK_OK(gpur_stream_sync(stream));
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    CHECK(sigtimedwait(&usr1, NULL, &soon) == SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    if (test_on_cuda())
        return 77;
    RUN(any_number_of_threads_enqueue_on_one_stream);
    RUN(destroying_a_stream_finishes_its_work);
    RUN(the_first_failure_comes_out_at_every_sync_with_its_text);
    RUN(no_thread_of_ours_takes_a_signal);
    if (test_executor() == GPUR_EXECUTOR_THREAD) {
        RUN(enqueuing_does_not_wait_for_the_work);
        RUN(a_wait_holds_its_own_stream_back_until_the_event);
        RUN(recording_anew_does_not_disturb_an_earlier_wait);
        RUN(a_wait_after_recording_anew_is_for_the_new_record);
        RUN(an_event_may_go_while_work_refers_to_it);
        RUN(a_full_stream_makes_its_caller_wait_and_loses_nothing);
    }
    return test_main_end();
}
