/* SPDX-License-Identifier: MIT */
/* Streams, events and graphs: what every device must provide; and what the CPU's own streams guarantee beyond that. */
#include "test.h"
#include "device/cpu/cpu.h"
#include "support/stream_gate.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { BATCH = 32, FEATURES = 500, COUNT = BATCH * FEATURES, LINKS = 60 };

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

TEST(two_streams_hand_a_buffer_back_and_forth)
{
    enum { TURNS = 1000, WORDS = 1024 };
    int32_t *shared = NULL, *sent = NULL, *got = NULL;
    CHECK_OK(gpur_memory_alloc(device, WORDS * 4, "the test", (void **)&shared));
    CHECK_OK(gpur_pinned_alloc(device, TURNS * WORDS * 4, "the test", (void **)&sent));
    CHECK_OK(gpur_pinned_alloc(device, TURNS * WORDS * 4, "the test", (void **)&got));
    for (int i = 0; i < TURNS * WORDS; i++)
        sent[i] = i;
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

TEST(an_event_that_was_never_recorded_holds_nobody_back)
{
    CHECK_OK(gpur_stream_wait(a, of_b));
    CHECK_OK(gpur_event_sync(of_b));
    CHECK_OK(gpur_stream_sync(a));
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
    CHECK_STATUS(gpur_fill(a, &byte, 0, -2), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("-2 bytes");
    CHECK_OK(gpur_copy(a, NULL, NULL, 0));
    CHECK_STATUS(gpur_launch_window_set(a, (gpur_grid){0, 32, 0}, &args), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("0 blocks");
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

TEST(a_recording_does_nothing_until_it_is_replayed)
{
    adding add = {0};
    float y = -1.0f;
    const float one = 1.0f;
    gpur_graph *recording = NULL;
    CHECK_OK(gpur_memory_alloc(device, 4, "the test", (void **)&add.y));
    CHECK_OK(gpur_memory_alloc(device, 4, "the test", (void **)&add.bias));
    CHECK_OK(gpur_device_copy(device, add.bias, &one, 4));
    CHECK_STATUS(gpur_graph_create(device, add_bias, &add, 0, &recording), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_graph_create(device, add_bias, &add, 2, &recording));
    CHECK_OK(gpur_device_copy(device, &y, add.y, 4));
    CHECK(y == 0.0f);
    CHECK_STATUS(gpur_graph_launch(recording, a, -1), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_graph_launch(recording, a, 5));
    CHECK_OK(gpur_graph_launch(recording, a, 0));
    CHECK_OK(gpur_device_copy(device, &y, add.y, 4));
    CHECK(y == 5.0f);
    gpur_graph_destroy(recording);
    gpur_memory_free(device, add.bias);
    gpur_memory_free(device, add.y);
}

static gpur_status refuse(void *context, gpur_stream *stream)
{
    (void)context, (void)stream;
    return gpur_fail(GPUR_TOO_FEW, "this record has had enough");
}

TEST(a_record_that_fails_is_heard)
{
    gpur_graph *recording = NULL;
    gpur_status status = gpur_graph_create(device, refuse, NULL, 1, &recording);
    if (status == GPUR_OK)
        status = gpur_graph_launch(recording, a, 1);
    CHECK_STATUS(status, GPUR_TOO_FEW);
    CHECK_MESSAGE("had enough");
    gpur_graph_destroy(recording);
}

typedef struct chain {
    float *y, *copy, *one; /* (COUNT), (COUNT) and (FEATURES) in device memory */
    int64_t link;          /* counted over all repetitions */
} chain;

/* Kernels of changing launch shapes, so that different threads change an element in turn; some copies and fills in
 * between. */
static gpur_status enqueue_links(void *context, gpur_stream *stream)
{
    static const gpur_grid grids[] = {{1, 1024, 0}, {64, 256, 0}, {7, 96, 0}, {33, 32, 0}};
    chain *const c = (chain *)context;
    const gpur_bias_activation_args args = {
        .y = c->y, .bias = c->one, .batch = BATCH, .features = FEATURES, .pitch = FEATURES};
    for (int link = 0; link < LINKS; link++) {
        gpur_device_force_grid(device, grids[c->link++ % 4]);
        GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_rows(device, BATCH, 1, FEATURES * 4), &args));
        if (link % 11 == 5)
            GPUR_TRY(gpur_copy(stream, c->copy, c->y, COUNT * 4));
        if (link % 13 == 7)
            GPUR_TRY(gpur_fill(stream, c->copy, 0, 4));
    }
    return GPUR_OK;
}

/* Runs the chain once on an ordinary stream and three times as a graph. Every link adds one to each element of y. The
 * copy is the one after link 49 of the last run, except its first element, which was filled afterwards. */
static void check_chain(int on)
{
    static float y[COUNT], copy[COUNT], one[FEATURES];
    chain c = {.link = 0};
    gpur_graph *recording = NULL;
    float **const arrays[] = {&c.y, &c.copy, &c.one};
    for (int f = 0; f < FEATURES; f++)
        one[f] = 1.0f;
    for (int i = 0; i < 3; i++)
        CHECK_OK(gpur_device_alloc(device, (i < 2 ? COUNT : FEATURES) * 4, (void **)arrays[i]));
    CHECK_OK(gpur_device_copy(device, c.one, one, sizeof one));
    gpur_device_dependent_launches(device, on);
    CHECK_OK(enqueue_links(&c, b));
    CHECK_OK(gpur_graph_create(device, enqueue_links, &c, 2, &recording));
    CHECK_OK(gpur_graph_launch(recording, b, 3));
    CHECK_OK(gpur_copy(b, y, c.y, COUNT * 4));
    CHECK_OK(gpur_copy(b, copy, c.copy, COUNT * 4));
    CHECK_OK(gpur_stream_sync(b));
    for (int i = 0; i < COUNT; i++) {
        CHECK(y[i] == 4.0f * LINKS);
        CHECK(copy[i] == (i ? 3.0f * LINKS + 50.0f : 0.0f));
    }
    gpur_graph_destroy(recording);
    for (int i = 0; i < 3; i++)
        gpur_device_free(device, *arrays[i]);
}

TEST(a_chain_of_kernels_and_copies_is_the_same_by_dependent_launches)
{
    for (int on = 0; on < 3; on++)
        check_chain(on % 2);
}

/* ---- the CPU's streams ---- */

TEST(enqueuing_does_not_wait_for_the_work)
{
    char from = 7, to = 0;
    CHECK_OK(gate_close(&closed, a));
    CHECK_OK(gpur_copy(a, &to, &from, 1));
    CHECK_OK(gpur_event_record(of_a, a));
    CHECK(!gpur_event_done(of_a));
    gate_open(&closed);
    CHECK_OK(gpur_event_sync(of_a));
    CHECK(gpur_event_done(of_a));
    CHECK_EQUAL(to, 7);
}

TEST(a_wait_holds_its_own_stream_back_until_the_event)
{
    char from = 7, between = 0, to = 0;
    CHECK_OK(gate_close(&closed, a));
    CHECK_OK(gpur_copy(a, &between, &from, 1));
    CHECK_OK(gpur_event_record(of_a, a));
    CHECK_OK(gpur_stream_wait(b, of_a));
    CHECK_OK(gpur_copy(b, &to, &between, 1));
    CHECK_OK(gpur_event_record(of_b, b));
    usleep(20000);
    CHECK(!gpur_event_done(of_b));
    gate_open(&closed);
    CHECK_OK(gpur_stream_sync(b));
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

TEST(destroying_a_stream_finishes_its_work)
{
    counter c = {0};
    gpur_stream *stream = NULL;
    CHECK_OK(gpur_stream_create(device, &stream));
    for (int i = 0; i < 200; i++)
        CHECK_OK(enqueue_count(stream, &c));
    gpur_stream_destroy(stream);
    CHECK_EQUAL(c.count, 200);
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
    counter c = {0};
    caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.stream = b, .c = &c};
        CHECK(pthread_create(&callers[i].thread, NULL, enqueue_many, &callers[i]) == 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        CHECK_OK(callers[i].status);
    }
    CHECK_OK(gpur_stream_sync(b));
    CHECK_EQUAL(c.count, CALLERS * EACH);
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
    CHECK_STATUS(gpur_stream_sync(stream), GPUR_DEVICE_ERROR);
    CHECK_MESSAGE("operation 1 failed");
    CHECK_STATUS(gpur_device_sync(device), GPUR_DEVICE_ERROR);
    CHECK_MESSAGE("operation 1 failed");
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
    RUN_STREAMS(two_streams_hand_a_buffer_back_and_forth);
    RUN_STREAMS(an_event_that_was_never_recorded_holds_nobody_back);
    RUN_STREAMS(syncing_the_device_waits_for_every_stream);
    RUN_STREAMS(sizes_and_shapes_out_of_range_are_refused);
    RUN_STREAMS(a_recording_does_nothing_until_it_is_replayed);
    RUN_STREAMS(a_record_that_fails_is_heard);
    if (!strstr(gpur_build_info(), "race check")) /* where each of a thousand launches starts hundreds of threads */
        RUN_STREAMS(a_chain_of_kernels_and_copies_is_the_same_by_dependent_launches);
    if (!test_on_cuda()) {
        RUN_STREAMS(any_number_of_threads_enqueue_on_one_stream);
        RUN_STREAMS(destroying_a_stream_finishes_its_work);
        RUN_STREAMS(the_first_failure_comes_out_at_every_sync_with_its_text);
        RUN_STREAMS(no_thread_of_ours_takes_a_signal);
    }
    if (!test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD) {
        RUN_STREAMS(enqueuing_does_not_wait_for_the_work);
        RUN_STREAMS(a_wait_holds_its_own_stream_back_until_the_event);
        RUN_STREAMS(recording_anew_does_not_disturb_an_earlier_wait);
        RUN_STREAMS(a_wait_after_recording_anew_is_for_the_new_record);
        RUN_STREAMS(an_event_may_go_while_work_refers_to_it);
        RUN_STREAMS(a_full_stream_makes_its_caller_wait_and_loses_nothing);
    }
    return test_main_end();
}
