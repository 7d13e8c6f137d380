/* SPDX-License-Identifier: MIT */
/* Appends and gathers while launches are held back or half enqueued: nothing that is still to be read is overwritten,
 * and each gather gets the rows of its own ids. */
#include "support/stream_gate.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"
#include "replay/replay.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { RING_LENGTH = 256 /* operations that a stream of the CPU holds */ };

/* Elsewhere nothing waits in a stream that a test could hold back. */
static int can_hold(void)
{
    return !test_on_cuda() && test_executor() == GPUR_EXECUTOR_THREAD;
}

/* A replay whose first rows are there, and a gate. */
static int open_scene(replay_fixture *s, gate *g, const gpur_replay_config *config, int64_t rows)
{
    gate_init(g);
    return replay_fixture_open(s, test_device(), config, 1) && replay_fixture_append(s, rows) == GPUR_OK;
}

static void close_scene(replay_fixture *s, gate *g)
{
    replay_fixture_close(s);
    gate_destroy(g);
}

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
}

/* Rows that a waiting launch will read must not be overwritten before it has. */
TEST(an_append_overwrites_nothing_that_an_enqueued_draw_reads)
{
    for (int mode = 0; can_hold() && mode < 4; mode++) {
        gpur_replay_config config =
            replay_fixture_plain_config(12, 4, 8, mode & 1 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO);
        gpur_batch *batch = NULL;
        replay_fixture s;
        gate g;
        config.upload = mode & 2 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        CHECK(open_scene(&s, &g, &config, 12));
        CHECK_OK(gate_close(&g, s.replay->consumer.stream));
        CHECK_OK(gpur_replay_gather(s.replay, 3, (const int64_t[]){0, 1, 11}, NULL, &batch));
        CHECK_OK(replay_fixture_append(&s, 8));
        gate_open(&g);
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batch, NULL), 0);
        gpur_batch_release(batch);
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){8, 19}));
        close_scene(&s, &g);
    }
}

static gpur_status no_work(void *context)
{
    (void)context;
    return GPUR_OK;
}

/* A launch of two gathers, as a learner's are, and an append between them: the second must not see what leaves. */
TEST(rows_that_leave_in_the_midst_of_a_launch_are_gone_for_its_rest)
{
    enum { COUNT = 12 };
    const gpur_replay_config config = replay_fixture_plain_config(COUNT, 4, 4, GPUR_FLUSH_AUTO);
    int64_t wanted[COUNT], got[2][COUNT];
    gpur_stream *stream = NULL;
    gpur_gather_args args;
    replay_fixture s;
    gate g;
    CHECK(open_scene(&s, &g, &config, COUNT));
    for (int64_t i = 0; i < COUNT; i++)
        wanted[i] = i;
    int64_t *const ids = kit_upload(s.device, wanted, sizeof wanted), *const id = kit_upload(s.device, wanted, 96);
    const gpur_gather_request request = {.source = GPUR_SOURCE_IDS, .rows = 4, .ids = ids, .id = id};
    CHECK_OK(gpur_consumer_begin(s.replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 4, 0}, &stream));
    CHECK_OK(gpur_gather_prepare(s.replay, &request, &args));
    args.batch = COUNT;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_launch_gather(stream, gpur_gather_grid(s.replay, COUNT), &args));
        CHECK_OK(gpur_copy(stream, got[i], id, sizeof *got));
        if (i == 0)
            CHECK_OK(replay_fixture_append(&s, 5));
    }
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_STATUS(gpur_with_ids_locked(s.replay, COUNT, wanted, no_work, NULL), GPUR_EVICTED);
    CHECK_MESSAGE("ids[0] is 0, and has been overwritten; the visible transitions are 4 to 11");
    CHECK_OK(gpur_consumer_end(s.replay, GPUR_OK));
    for (int64_t i = 0; i < COUNT; i++)
        CHECK(got[0][i] == i && got[1][i] == (i < 4 ? -1 : i));
    gpur_device_free(s.device, ids);
    gpur_device_free(s.device, id);
    close_scene(&s, &g);
}

typedef struct opener {
    gate *g;
    atomic_int opened;
} opener;

static void *open_later(void *context)
{
    opener *const o = context;
    pause_shortly();
    atomic_store(&o->opened, 1);
    gate_open(o->g);
    return NULL;
}

TEST(no_more_than_two_launches_are_in_flight)
{
    if (!can_hold())
        return;
    const gpur_replay_config config = replay_fixture_plain_config(12, 4, 8, GPUR_FLUSH_AUTO);
    gpur_batch *batches[3] = {NULL};
    pthread_t thread;
    replay_fixture s;
    gate g;
    opener o = {.g = &g};
    CHECK(open_scene(&s, &g, &config, 12));
    CHECK_OK(gate_close(&g, s.replay->consumer.stream));
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[0]));
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[1]));
    CHECK(pthread_create(&thread, NULL, open_later, &o) == 0);
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[2]));
    CHECK_EQUAL(atomic_load(&o.opened), 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(count_wrong_bytes(&s.row_tags, batches[i], NULL), 0);
        gpur_batch_release(batches[i]);
    }
    close_scene(&s, &g);
}

TEST(an_append_without_a_free_block_waits_for_the_oldest_copy)
{
    if (!can_hold())
        return;
    const gpur_replay_config config = replay_fixture_plain_config(100, 5, 8, GPUR_FLUSH_AUTO);
    pthread_t thread;
    replay_fixture s;
    gate g;
    opener o = {.g = &g};
    CHECK(open_scene(&s, &g, &config, 0));
    CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
    CHECK_OK(replay_fixture_append(&s, 20)); /* four blocks of five: no copy is waited for yet */
    CHECK_EQUAL(kit_stats(s.replay).waits, 0);
    CHECK(pthread_create(&thread, NULL, open_later, &o) == 0);
    CHECK_OK(replay_fixture_append(&s, 1));
    CHECK_EQUAL(atomic_load(&o.opened), 1);
    pthread_join(thread, NULL);
    const gpur_replay_stats stats = kit_stats(s.replay);
    CHECK_EQUAL(stats.waits, 1);
    CHECK(stats.wait_seconds > 0.01 && stats.append_seconds >= stats.wait_seconds);
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){0, 19, 20}));
    close_scene(&s, &g);
}

enum { FULL = 40, COUNT = 8 };

/* A full replay whose window the device knows, so that a gather enqueues nothing but itself. */
static int open_full(replay_fixture *s, gate *g)
{
    const gpur_replay_config config = replay_fixture_plain_config(FULL, 4, COUNT, GPUR_FLUSH_AUTO);
    return open_scene(s, g, &config, FULL) && replay_fixture_gather(s, 1, (const int64_t[]){0}) == GPUR_OK;
}

/* And lets the batch go. */
static void check_ids(replay_fixture *s, gpur_batch *batch, const int64_t *ids)
{
    int64_t got[COUNT];
    CHECK_EQUAL(gpur_batch_count(batch), COUNT);
    CHECK_EQUAL(count_wrong_bytes(&s->row_tags, batch, got), 0);
    CHECK(memcmp(got, ids, sizeof got) == 0);
    gpur_batch_release(batch);
}

TEST(two_gathers_in_flight_keep_their_ids_apart)
{
    static const int64_t ids[2][COUNT] = {{0, 1, 2, 3, 4, 5, 6, 7}, {39, 37, 35, 33, 31, 29, 27, 25}};
    if (!can_hold())
        return;
    gpur_batch *batches[2] = {NULL};
    replay_fixture s;
    gate g;
    CHECK(open_full(&s, &g));
    CHECK_OK(gate_close(&g, s.replay->consumer.stream));
    for (int i = 0; i < 2; i++) {
        int64_t given[COUNT];
        memcpy(given, ids[i], sizeof given);
        CHECK_OK(gpur_replay_gather(s.replay, COUNT, given, NULL, &batches[i]));
        memset(given, -1, sizeof given); /* the caller's own again */
    }
    gate_open(&g);
    for (int i = 0; i < 2; i++)
        check_ids(&s, batches[i], ids[i]);
    close_scene(&s, &g);
}

static const int64_t oldest[COUNT] = {0, 1, 2, 3, 4, 5, 6, 7};

typedef struct rival {
    replay_fixture *scene;
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
    r->status = replay_fixture_append(r->scene, COUNT);
    return NULL;
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
    replay_fixture s;
    gate g;
    CHECK(open_full(&s, &g));
    rival reader = {.scene = &s}, writer = {.scene = &s};
    fill_up(s.replay->consumer.stream, &g, &byte);
    CHECK(pthread_create(&threads[0], NULL, gather_oldest, &reader) == 0);
    while (gpur_ticket_lock_users(&s.replay->consumer.lock) == 0)
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
    CHECK_STATUS(replay_fixture_gather(&s, COUNT, oldest), GPUR_EVICTED);
    CHECK_MESSAGE("ids[0] is 0, and has been overwritten; the visible transitions are 8 to 47");
    close_scene(&s, &g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(an_append_overwrites_nothing_that_an_enqueued_draw_reads);
    RUN(rows_that_leave_in_the_midst_of_a_launch_are_gone_for_its_rest);
    RUN(no_more_than_two_launches_are_in_flight);
    RUN(an_append_without_a_free_block_waits_for_the_oldest_copy);
    RUN(two_gathers_in_flight_keep_their_ids_apart);
    RUN(no_append_evicts_between_the_check_of_ids_and_their_gather);
    return test_main_end();
}
