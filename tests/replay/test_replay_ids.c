/* SPDX-License-Identifier: MIT */
/* Gathers whose ids are on their way while other calls go on: each gets the rows of its own ids, all of them. */
#include "support/gate_cpu.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { CAPACITY = 40, COUNT = 8, RING_LENGTH = 256 /* operations that a stream of the CPU holds */ };

/* Both tests hold the consumer stream back; elsewhere nothing waits there. */
static int can_hold(void)
{
    return !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
}

/* A full replay whose window the device knows, so that a gather enqueues nothing but itself. */
static int open_scene(kit_scene *s)
{
    const gpur_replay_config config = kit_plain_config(CAPACITY, 4, COUNT, GPUR_FLUSH_AUTO);
    return kit_open(s, test_device(), &config, 1) && kit_append_next(s, CAPACITY) == GPUR_OK &&
           kit_gather(s, 1, (const int64_t[]){0}) == GPUR_OK;
}

static void check_ids(kit_scene *s, gpur_batch *batch, const int64_t *ids)
{
    int64_t got[COUNT];
    CHECK_EQUAL(gpur_batch_count(batch), COUNT);
    CHECK_EQUAL(kit_wrong_bytes(&s->kit, batch, got), 0);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQUAL(got[i], ids[i]);
}

TEST(two_gathers_in_flight_keep_their_ids_apart)
{
    static const int64_t ids[2][COUNT] = {{0, 1, 2, 3, 4, 5, 6, 7}, {39, 37, 35, 33, 31, 29, 27, 25}};
    if (!can_hold())
        return;
    gpur_batch *batches[2] = {NULL};
    kit_scene s;
    gate g;
    gate_init(&g);
    CHECK(open_scene(&s));
    CHECK_OK(gate_close(&g, s.replay->consumer.stream));
    for (int i = 0; i < 2; i++) {
        int64_t given[COUNT];
        memcpy(given, ids[i], sizeof given);
        CHECK_OK(gpur_replay_gather(s.replay, COUNT, given, NULL, &batches[i]));
        memset(given, -1, sizeof given); /* the caller's own again */
    }
    gate_open(&g);
    for (int i = 0; i < 2; i++) {
        check_ids(&s, batches[i], ids[i]);
        gpur_batch_release(batches[i]);
    }
    kit_close(&s);
    gate_destroy(&g);
}

static const int64_t oldest[COUNT] = {0, 1, 2, 3, 4, 5, 6, 7};

typedef struct rival {
    kit_scene *scene;
    gpur_batch *batch;
    gpur_status status;
} rival;

static void *gather_oldest(void *context)
{
    rival *const r = context;
    r->status = gpur_replay_gather(r->scene->replay, COUNT, oldest, NULL, &r->batch);
    return NULL;
}

static void *overwrite_oldest(void *context)
{
    rival *const r = context;
    r->status = kit_append_next(r->scene, COUNT);
    return NULL;
}

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
}

/* So that whoever enqueues next has to wait until the gate is open. */
static void fill_up(gpur_stream *stream, gate *g, unsigned char *byte)
{
    CHECK_OK(gate_close(g, stream));
    for (int i = 1; i < RING_LENGTH; i++)
        CHECK_OK(gpur_fill(stream, byte, 0, 1));
}

/* The gather has seen that its ids are visible, and waits to be enqueued; an append that evicts them waits behind it.
 * The pauses give both the time to get there: were they too short, nothing would fail that should not. */
TEST(no_append_evicts_between_the_check_of_ids_and_their_gather)
{
    if (!can_hold())
        return;
    pthread_t threads[2];
    unsigned char byte = 1;
    kit_scene s;
    gate g;
    gate_init(&g);
    CHECK(open_scene(&s));
    rival reader = {.scene = &s}, writer = {.scene = &s};
    fill_up(s.replay->consumer.stream, &g, &byte);
    CHECK(pthread_create(&threads[0], NULL, gather_oldest, &reader) == 0);
    while (gpur_fair_lock_users(&s.replay->consumer.lock) == 0)
        sched_yield();
    pause_shortly();
    CHECK(pthread_create(&threads[1], NULL, overwrite_oldest, &writer) == 0);
    pause_shortly();
    gate_open(&g);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK_OK(reader.status);
    CHECK_OK(writer.status);
    check_ids(&s, reader.batch, oldest);
    gpur_batch_release(reader.batch);
    CHECK_STATUS(kit_gather(&s, COUNT, oldest), GPUR_EVICTED);
    CHECK_MESSAGE("ids[0] is 0, and has been overwritten; the visible transitions are 8 to 47");
    kit_close(&s);
    gate_destroy(&g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(two_gathers_in_flight_keep_their_ids_apart);
    RUN(no_append_evicts_between_the_check_of_ids_and_their_gather);
    return test_main_end();
}
