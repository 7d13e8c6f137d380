/* SPDX-License-Identifier: MIT */
/* Streams, events and graphs: what every device must provide. */
#include "test.h"
#include "device/device.h"

typedef struct pair {
    gpur_device *device;
    gpur_stream *a, *b;
    gpur_event *of_a, *of_b;
} pair;

static gpur_status open_pair(pair *p)
{
    p->device = test_device();
    GPUR_TRY(gpur_stream_create_main(p->device, &p->a));
    GPUR_TRY(gpur_stream_create(p->device, &p->b));
    GPUR_TRY(gpur_event_create(p->device, &p->of_a));
    return gpur_event_create(p->device, &p->of_b);
}

static void close_pair(pair *p)
{
    gpur_event_destroy(p->of_b);
    gpur_event_destroy(p->of_a);
    gpur_stream_destroy(p->b);
    gpur_stream_destroy(p->a);
    gpur_device_close(p->device);
}

TEST(work_runs_in_the_order_it_was_enqueued)
{
    enum { STEPS = 2000 }; /* several times the slots of a CPU stream */
    pair p;
    unsigned char *memory = NULL, seen[STEPS];
    CHECK_OK(open_pair(&p));
    CHECK_OK(gpur_memory_alloc(p.device, STEPS + 1, "the test", (void **)&memory));
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(gpur_fill(p.a, memory, i % 251, 1));
        CHECK_OK(gpur_copy(p.a, memory + 1 + i, memory, 1));
    }
    CHECK_OK(gpur_copy(p.a, seen, memory + 1, STEPS));
    CHECK_OK(gpur_stream_sync(p.a));
    for (int i = 0; i < STEPS; i++)
        CHECK_EQUAL(seen[i], i % 251);
    gpur_memory_free(p.device, memory);
    close_pair(&p);
}

TEST(two_streams_hand_a_buffer_back_and_forth)
{
    enum { TURNS = 1000, WORDS = 1024 };
    pair p;
    int32_t *shared = NULL, *sent = NULL, *got = NULL;
    CHECK_OK(open_pair(&p));
    CHECK_OK(gpur_memory_alloc(p.device, WORDS * 4, "the test", (void **)&shared));
    CHECK_OK(gpur_pinned_alloc(p.device, TURNS * WORDS * 4, "the test", (void **)&sent));
    CHECK_OK(gpur_pinned_alloc(p.device, TURNS * WORDS * 4, "the test", (void **)&got));
    for (int i = 0; i < TURNS * WORDS; i++)
        sent[i] = i;
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK_OK(gpur_stream_wait(p.a, p.of_b)); /* the first time it was never recorded */
        CHECK_OK(gpur_copy(p.a, shared, sent + turn * WORDS, WORDS * 4));
        CHECK_OK(gpur_event_record(p.of_a, p.a));
        CHECK_OK(gpur_stream_wait(p.b, p.of_a));
        CHECK_OK(gpur_copy(p.b, got + turn * WORDS, shared, WORDS * 4));
        CHECK_OK(gpur_event_record(p.of_b, p.b));
    }
    CHECK_OK(gpur_event_sync(p.of_b));
    CHECK(memcmp(sent, got, TURNS * WORDS * 4) == 0);
    gpur_pinned_free(p.device, got);
    gpur_pinned_free(p.device, sent);
    gpur_memory_free(p.device, shared);
    close_pair(&p);
}

TEST(an_event_that_was_never_recorded_holds_nobody_back)
{
    pair p;
    CHECK_OK(open_pair(&p));
    CHECK_OK(gpur_stream_wait(p.a, p.of_b));
    CHECK_OK(gpur_event_sync(p.of_b));
    CHECK_OK(gpur_stream_sync(p.a));
    CHECK_OK(gpur_event_record(p.of_a, p.a));
    CHECK_OK(gpur_event_sync(p.of_a));
    close_pair(&p);
}

TEST(syncing_the_device_waits_for_every_stream)
{
    enum { BYTES = 8 << 20 };
    pair p;
    unsigned char *memory = NULL, last_a = 0, last_b = 0;
    CHECK_OK(open_pair(&p));
    CHECK_OK(gpur_memory_alloc(p.device, 2 * BYTES, "the test", (void **)&memory));
    CHECK_OK(gpur_fill(p.a, memory, 5, BYTES));
    CHECK_OK(gpur_fill(p.b, memory + BYTES, 6, BYTES));
    CHECK_OK(gpur_copy(p.a, &last_a, memory + BYTES - 1, 1));
    CHECK_OK(gpur_copy(p.b, &last_b, memory + 2 * BYTES - 1, 1));
    CHECK_OK(gpur_device_sync(p.device));
    CHECK_EQUAL(last_a, 5);
    CHECK_EQUAL(last_b, 6);
    gpur_memory_free(p.device, memory);
    close_pair(&p);
}

TEST(sizes_and_shapes_out_of_range_are_refused)
{
    pair p;
    char byte = 0;
    const gpur_window_set_args args = {0};
    CHECK_OK(open_pair(&p));
    CHECK_STATUS(gpur_copy(p.a, &byte, &byte, -1), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_fill(p.a, &byte, 0, -2), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("-2 bytes");
    CHECK_OK(gpur_copy(p.a, NULL, NULL, 0));
    CHECK_STATUS(gpur_launch_window_set(p.a, (gpur_grid){0, 32, 0}, &args), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("0 blocks");
    gpur_stream_destroy(NULL);
    gpur_event_destroy(NULL);
    gpur_recording_destroy(NULL);
    close_pair(&p);
}

typedef struct adding {
    gpur_device *device;
    float *y, *bias;
    int calls;
} adding;

static gpur_status add_bias(void *context, gpur_stream *stream)
{
    adding *const add = (adding *)context;
    const gpur_bias_activation_args args = {.y = add->y, .bias = add->bias, .batch = 1, .features = 1, .pitch = 1};
    add->calls++;
    return gpur_launch_bias_activation(stream, gpur_grid_elements(add->device, 1), &args);
}

TEST(a_recording_does_nothing_until_it_is_replayed)
{
    pair p;
    adding add = {0};
    float y = -1.0f;
    const float one = 1.0f;
    gpur_recording *recording = NULL;
    CHECK_OK(open_pair(&p));
    add.device = p.device;
    CHECK_OK(gpur_memory_alloc(p.device, 4, "the test", (void **)&add.y));
    CHECK_OK(gpur_memory_alloc(p.device, 4, "the test", (void **)&add.bias));
    CHECK_OK(gpur_device_copy(p.device, add.bias, &one, 4));
    CHECK_STATUS(gpur_recording_create(p.device, add_bias, &add, 0, &recording), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_recording_create(p.device, add_bias, &add, 2, &recording));
    CHECK_OK(gpur_device_copy(p.device, &y, add.y, 4));
    CHECK(y == 0.0f);
    CHECK_STATUS(gpur_recording_replay(recording, p.a, -1), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_recording_replay(recording, p.a, 5));
    CHECK_OK(gpur_recording_replay(recording, p.a, 0));
    CHECK_OK(gpur_device_copy(p.device, &y, add.y, 4));
    CHECK(y == 5.0f);
    gpur_recording_destroy(recording);
    gpur_memory_free(p.device, add.bias);
    gpur_memory_free(p.device, add.y);
    close_pair(&p);
}

static gpur_status refuse(void *context, gpur_stream *stream)
{
    (void)context, (void)stream;
    return gpur_fail(GPUR_TOO_FEW, "this record has had enough");
}

TEST(a_record_that_fails_is_heard)
{
    pair p;
    gpur_recording *recording = NULL;
    CHECK_OK(open_pair(&p));
    gpur_status status = gpur_recording_create(p.device, refuse, NULL, 1, &recording);
    if (status == GPUR_OK)
        status = gpur_recording_replay(recording, p.a, 1);
    CHECK_STATUS(status, GPUR_TOO_FEW);
    CHECK_MESSAGE("had enough");
    gpur_recording_destroy(recording);
    close_pair(&p);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(work_runs_in_the_order_it_was_enqueued);
    RUN(two_streams_hand_a_buffer_back_and_forth);
    RUN(an_event_that_was_never_recorded_holds_nobody_back);
    RUN(syncing_the_device_waits_for_every_stream);
    RUN(sizes_and_shapes_out_of_range_are_refused);
    RUN(a_recording_does_nothing_until_it_is_replayed);
    RUN(a_record_that_fails_is_heard);
    return test_main_end();
}
