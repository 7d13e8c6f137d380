/* SPDX-License-Identifier: MIT */
/* Streams, events and graphs: what every device must provide; and what the CPU's own streams guarantee beyond that. */
#include "test.h"
#include "device/cpu/cpu.h"
#include "support/stream_gate.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* Opened for each test: an error of a stream stays until its device goes. */
static gpur_device *device;
static gpur_stream *a, *b;
static gpur_event *of_a, *of_b;
static gate closed; /* on the CPU with the thread executor */

static void open_streams(void)
{
    device = test_device();
    gate_init(&closed);
    CHECK_OK(gpur_stream_create_main(device, &a));
    CHECK_OK(gpur_stream_create(device, &b));
    CHECK_OK(gpur_event_create(device, &of_a));
    CHECK_OK(gpur_event_create(device, &of_b));
}

static void close_streams(void)
{
    gate_open(&closed); /* where a failing test left it */
    gpur_event_destroy(of_b);
    gpur_event_destroy(of_a);
    gpur_stream_destroy(b);
    gpur_stream_destroy(a);
    gpur_device_close(device);
    gate_destroy(&closed);
}

#define RUN_STREAMS(test)                                                                                              \
    do {                                                                                                               \
        open_streams();                                                                                                \
        RUN(test);                                                                                                     \
        close_streams();                                                                                               \
    } while (0)

TEST(work_runs_in_the_order_it_was_enqueued)
{
    enum { STEPS = 2000 }; /* several times the slots of a CPU stream */
    unsigned char *memory = NULL, seen[STEPS];
    CHECK_OK(gpur_memory_alloc(device, STEPS + 1, "the test", (void **)&memory));
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(gpur_fill(a, memory, i % 251, 1));
        CHECK_OK(gpur_copy(a, memory + 1 + i, memory, 1));
    }
    CHECK_OK(gpur_copy(a, seen, memory + 1, STEPS));
    CHECK_OK(gpur_stream_sync(a));
    for (int i = 0; i < STEPS; i++)
        CHECK_EQUAL(seen[i], i % 251);
    gpur_memory_free(device, memory);
}

TEST(two_streams_exchange_a_buffer_by_events)
{
    enum { TURNS = 1000, WORDS = 1024 };
    int32_t *shared = NULL, *sent = NULL, *got = NULL;
    CHECK_OK(gpur_memory_alloc(device, WORDS * 4, "the test", (void **)&shared));
    CHECK_OK(gpur_pinned_alloc(device, TURNS * WORDS * 4, "the test", (void **)&sent));
    CHECK_OK(gpur_pinned_alloc(device, TURNS * WORDS * 4, "the test", (void **)&got));
    for (int i = 0; i < TURNS * WORDS; i++)
        sent[i] = i;
    CHECK_OK(gpur_event_sync(of_b)); /* an event that was never recorded delays nobody */
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK_OK(gpur_stream_wait(a, of_b)); /* the first time it was never recorded */
        CHECK_OK(gpur_copy(a, shared, sent + turn * WORDS, WORDS * 4));
        CHECK_OK(gpur_event_record(of_a, a));
        CHECK_OK(gpur_stream_wait(b, of_a));
        CHECK_OK(gpur_copy(b, got + turn * WORDS, shared, WORDS * 4));
        CHECK_OK(gpur_event_record(of_b, b));
    }
    CHECK_OK(gpur_event_sync(of_b));
    CHECK(memcmp(sent, got, TURNS * WORDS * 4) == 0);
    gpur_pinned_free(device, got);
    gpur_pinned_free(device, sent);
    gpur_memory_free(device, shared);
}

TEST(syncing_the_device_waits_for_every_stream)
{
    enum { BYTES = 8 << 20 };
    gpur_stream *const streams[2] = {a, b};
    unsigned char *memory = NULL, last[2] = {0, 0};
    CHECK_OK(gpur_memory_alloc(device, 2 * BYTES, "the test", (void **)&memory));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_fill(streams[i], memory + i * BYTES, 5 + i, BYTES));
        CHECK_OK(gpur_copy(streams[i], &last[i], memory + (i + 1) * BYTES - 1, 1));
    }
    CHECK_OK(gpur_device_sync(device));
    CHECK_EQUAL(last[0], 5);
    CHECK_EQUAL(last[1], 6);
    gpur_memory_free(device, memory);
}

TEST(sizes_and_shapes_out_of_range_are_refused)
{
    char byte = 0;
    const gpur_window_set_args args = {0};
    CHECK_STATUS(gpur_copy(a, &byte, &byte, -1), GPUR_INVALID_ARGUMENT);
    CHECK_FAILS(gpur_fill(a, &byte, 0, -2), GPUR_INVALID_ARGUMENT, "-2 bytes");
    CHECK_OK(gpur_copy(a, NULL, NULL, 0));
    CHECK_FAILS(gpur_launch_window_set(a, (gpur_grid){0, 32, 0}, &args), GPUR_INVALID_ARGUMENT, "0 blocks");
    gpur_stream_destroy(NULL);
    gpur_event_destroy(NULL);
    gpur_graph_destroy(NULL);
}

typedef struct adding {
    float *y, *bias;
} adding;

static gpur_status add_bias(void *context, gpur_stream *stream)
{
    adding *const add = (adding *)context;
    const gpur_bias_activation_args args = {.y = add->y, .bias = add->bias, .batch = 1, .features = 1, .pitch = 1};
    return gpur_launch_bias_activation(stream, gpur_grid_elements(device, 1), &args);
}

TEST(a_graph_does_nothing_until_it_is_launched)
{
    adding add = {0};
    float y = -1.0f;
    const float one = 1.0f;
    gpur_graph *graph = NULL;
    CHECK_OK(gpur_memory_alloc(device, 4, "the test", (void **)&add.y));
    CHECK_OK(gpur_memory_alloc(device, 4, "the test", (void **)&add.bias));
    CHECK_OK(gpur_device_copy(device, add.bias, &one, 4));
    CHECK_STATUS(gpur_graph_create(device, add_bias, &add, 0, &graph), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_graph_create(device, add_bias, &add, 2, &graph));
    CHECK_OK(gpur_device_copy(device, &y, add.y, 4));
    CHECK(y == 0.0f);
    CHECK_STATUS(gpur_graph_launch(graph, a, -1), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_graph_launch(graph, a, 5));
    CHECK_OK(gpur_graph_launch(graph, a, 0));
    CHECK_OK(gpur_device_copy(device, &y, add.y, 4));
    CHECK(y == 5.0f);
    gpur_graph_destroy(graph);
    gpur_memory_free(device, add.bias);
    gpur_memory_free(device, add.y);
}

static gpur_status refuse(void *context, gpur_stream *stream)
{
    (void)context, (void)stream;
    return gpur_fail(GPUR_TOO_FEW, "the test wanted this");
}

TEST(a_graph_whose_function_fails_is_refused)
{
    gpur_graph *graph = NULL;
    gpur_status status = gpur_graph_create(device, refuse, NULL, 1, &graph);
    if (status == GPUR_OK)
        status = gpur_graph_launch(graph, a, 1);
    CHECK_FAILS(status, GPUR_TOO_FEW, "the test wanted this");
    gpur_graph_destroy(graph);
}

/* ---- the CPU's streams ---- */

TEST(enqueuing_does_not_wait_and_a_wait_delays_its_stream_until_the_event)
{
    char from = 7, between = 0, to = 0;
    CHECK_OK(gate_close(&closed, a));
    CHECK_OK(gpur_copy(a, &between, &from, 1));
    CHECK_OK(gpur_event_record(of_a, a));
    CHECK_OK(gpur_stream_wait(b, of_a));
    CHECK_OK(gpur_copy(b, &to, &between, 1));
    CHECK_OK(gpur_event_record(of_b, b));
    usleep(20000);
    CHECK(!gpur_event_done(of_a) && !gpur_event_done(of_b));
    gate_open(&closed);
    CHECK_OK(gpur_event_sync(of_b));
    CHECK(gpur_event_done(of_a) && gpur_event_done(of_b));
    CHECK_EQUAL(to, 7);
}

TEST(recording_anew_does_not_disturb_an_earlier_wait)
{
    CHECK_OK(gpur_event_record(of_a, a));
    CHECK_OK(gpur_stream_wait(b, of_a));
    CHECK_OK(gate_close(&closed, a));
    CHECK_OK(gpur_event_record(of_a, a)); /* enqueued behind the gate */
    CHECK_OK(gpur_stream_sync(b));        /* hangs if it waits for the second record */
    CHECK(!gpur_event_done(of_a));
    gate_open(&closed);
    CHECK_OK(gpur_event_sync(of_a));
}

TEST(a_wait_after_recording_anew_is_for_the_new_record)
{
    char from = 9, between = 0, to = 0;
    CHECK_OK(gpur_event_record(of_a, b)); /* on another stream, and reached at once */
    CHECK_OK(gate_close(&closed, a));
    CHECK_OK(gpur_copy(a, &between, &from, 1));
    CHECK_OK(gpur_event_record(of_a, a));
    CHECK_OK(gpur_stream_wait(b, of_a));
    CHECK_OK(gpur_copy(b, &to, &between, 1));
    gate_open(&closed);
    CHECK_OK(gpur_stream_sync(b));
    CHECK_EQUAL(to, 9);
}

TEST(an_event_may_go_while_work_refers_to_it)
{
    gpur_event *event = NULL;
    CHECK_OK(gpur_event_create(device, &event));
    CHECK_OK(gate_close(&closed, a));
    CHECK_OK(gpur_event_record(event, a));
    CHECK_OK(gpur_stream_wait(b, event));
    gpur_event_destroy(event);
    gate_open(&closed);
    CHECK_OK(gpur_stream_sync(b));
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

static void *open_soon(void *context)
{
    usleep(20000);
    gate_open((gate *)context);
    return NULL;
}

TEST(a_full_stream_makes_its_caller_wait_and_loses_nothing)
{
    counter c = {0};
    pthread_t opener;
    CHECK_OK(gate_close(&closed, a));
    CHECK(pthread_create(&opener, NULL, open_soon, &closed) == 0);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(enqueue_count(a, &c));
    CHECK_OK(gpur_stream_sync(a));
    CHECK_EQUAL(c.count, 1000);
    pthread_join(opener, NULL);
}

typedef struct caller {
    gpur_stream *stream;
    counter *c;
} caller;

/* Returns its argument on a failure. */
static void *enqueue_many(void *context)
{
    const caller *const me = (caller *)context;
    for (int i = 0; i < 500; i++)
        if (enqueue_count(me->stream, me->c) != GPUR_OK)
            return context;
    return NULL;
}

TEST(any_number_of_threads_enqueue_on_one_stream_and_destroying_it_finishes_their_work)
{
    enum { CALLERS = 4 };
    counter c = {0};
    caller all = {.c = &c};
    pthread_t threads[CALLERS];
    void *failed = NULL;
    CHECK_OK(gpur_stream_create(device, &all.stream));
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&threads[i], NULL, enqueue_many, &all) == 0);
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
    gpur_stream_destroy(all.stream);
    CHECK_EQUAL(c.count, CALLERS * 500);
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
    gpur_stream *stream = NULL;
    CHECK_OK(gpur_stream_create(device, &stream));
    for (int number = 1; number <= 2; number++) {
        memcpy(gpur_cpu_begin(stream), &number, sizeof number);
        (void)gpur_cpu_end(stream, fail_with_number); /* fails here if inline, else only at the sync */
    }
    CHECK_FAILS(gpur_stream_sync(stream), GPUR_DEVICE_ERROR, "operation 1 failed");
    CHECK_FAILS(gpur_device_sync(device), GPUR_DEVICE_ERROR, "operation 1 failed");
    gpur_stream_destroy(stream);
    CHECK_OK(gpur_device_sync(device));
}

TEST(no_thread_of_ours_takes_a_signal)
{
    sigset_t usr1, pending;
    const struct timespec soon = {.tv_nsec = 100000000};
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL); /* a thread that does not block it would be killed by it */
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK_OK(gpur_stream_sync(b));
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    CHECK(sigtimedwait(&usr1, NULL, &soon) == SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN_STREAMS(work_runs_in_the_order_it_was_enqueued);
    RUN_STREAMS(two_streams_exchange_a_buffer_by_events);
    RUN_STREAMS(syncing_the_device_waits_for_every_stream);
    RUN_STREAMS(sizes_and_shapes_out_of_range_are_refused);
    RUN_STREAMS(a_graph_does_nothing_until_it_is_launched);
    RUN_STREAMS(a_graph_whose_function_fails_is_refused);
    if (!test_on_cuda()) {
        RUN_STREAMS(any_number_of_threads_enqueue_on_one_stream_and_destroying_it_finishes_their_work);
        RUN_STREAMS(the_first_failure_comes_out_at_every_sync_with_its_text);
        RUN_STREAMS(no_thread_of_ours_takes_a_signal);
    }
    if (!test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD) {
        RUN_STREAMS(enqueuing_does_not_wait_and_a_wait_delays_its_stream_until_the_event);
        RUN_STREAMS(recording_anew_does_not_disturb_an_earlier_wait);
        RUN_STREAMS(a_wait_after_recording_anew_is_for_the_new_record);
        RUN_STREAMS(an_event_may_go_while_work_refers_to_it);
        RUN_STREAMS(a_full_stream_makes_its_caller_wait_and_loses_nothing);
    }
    return test_main_end();
}
