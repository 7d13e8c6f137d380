/* SPDX-License-Identifier: MIT */
/* Appends while launches are held back or half enqueued: nothing that is still to be read is overwritten. */
#include "support/gate_cpu.h"
#include "replay/sampler/consumer.h"
#include "replay/sampler/gather.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

/* Rows that a waiting launch will read must not be overwritten before it has. */
TEST(an_append_overwrites_nothing_that_an_enqueued_draw_reads)
{
    if (test_on_cuda() || test_executor() == GPUR_EXECUTOR_INLINE)
        return; /* nothing waits there */
    for (int mode = 0; mode < 4; mode++) {
        gpur_replay_config config = kit_plain_config(12, 4, 8, mode & 1 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO);
        config.feed = mode & 2 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
        gpur_batch *batch = NULL;
        kit_scene s;
        gate g;
        gate_init(&g);
        CHECK(kit_open(&s, test_device(), &config, 1));
        CHECK_OK(kit_append_next(&s, 12));
        CHECK_OK(gate_close(&g, s.replay->consumer.stream));
        CHECK_OK(gpur_replay_gather(s.replay, 3, (const int64_t[]){0, 1, 11}, NULL, &batch));
        CHECK_OK(kit_append_next(&s, 8));
        gate_open(&g);
        CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
        gpur_batch_release(batch);
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_OK(kit_gather(&s, 2, (const int64_t[]){8, 19}));
        kit_close(&s);
        gate_destroy(&g);
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
    const gpur_replay_config config = kit_plain_config(COUNT, 4, 4, GPUR_FLUSH_AUTO);
    int64_t wanted[COUNT], got[2][COUNT], *ids = NULL, *id = NULL;
    gpur_stream *stream = NULL;
    gpur_gather_args args;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, COUNT));
    for (int64_t i = 0; i < COUNT; i++)
        wanted[i] = i;
    CHECK_OK(gpur_device_alloc(s.device, sizeof wanted, (void **)&ids));
    CHECK_OK(gpur_device_alloc(s.device, sizeof wanted, (void **)&id));
    CHECK_OK(gpur_device_copy(s.device, ids, wanted, sizeof wanted));
    const gpur_draw_request request = {.source = GPUR_SOURCE_IDS, .rows = 4, .ids = ids, .id = id};
    CHECK_OK(gpur_consumer_begin(s.replay, (gpur_consumer_launch){GPUR_LAUNCH_SAMPLE, 4, 0}, &stream));
    CHECK_OK(gpur_draw_prepare(s.replay, &request, &args));
    args.batch = COUNT;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_launch_gather(stream, gpur_draw_grid(s.replay, COUNT), &args));
        CHECK_OK(gpur_copy(stream, got[i], id, sizeof *got));
        if (i == 0)
            CHECK_OK(kit_append_next(&s, 5));
    }
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_STATUS(gpur_with_ids_locked(s.replay, COUNT, wanted, no_work, NULL), GPUR_EVICTED);
    CHECK_MESSAGE("ids[0] is 0, and has been overwritten; the visible transitions are 4 to 11");
    CHECK_OK(gpur_consumer_end(s.replay, GPUR_OK));
    for (int64_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL(got[0][i], i);
        CHECK_EQUAL(got[1][i], i < 4 ? -1 : i);
    }
    gpur_device_free(s.device, ids);
    gpur_device_free(s.device, id);
    kit_close(&s);
}

typedef struct opener {
    gate *g;
    atomic_int opened;
} opener;

static void *open_later(void *context)
{
    opener *const o = context;
    const struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
    atomic_store(&o->opened, 1);
    gate_open(o->g);
    return NULL;
}

TEST(no_more_than_two_launches_are_in_flight)
{
    if (test_on_cuda() || test_executor() == GPUR_EXECUTOR_INLINE)
        return;
    const gpur_replay_config config = kit_plain_config(12, 4, 8, GPUR_FLUSH_AUTO);
    gpur_batch *batches[3] = {NULL};
    pthread_t thread;
    kit_scene s;
    gate g;
    opener o = {.g = &g};
    gate_init(&g);
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, 12));
    CHECK_OK(gate_close(&g, s.replay->consumer.stream));
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[0]));
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[1]));
    CHECK(pthread_create(&thread, NULL, open_later, &o) == 0);
    CHECK_OK(gpur_replay_sample(s.replay, 8, NULL, &batches[2]));
    CHECK_EQUAL(atomic_load(&o.opened), 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(kit_wrong_bytes(&s.kit, batches[i], NULL), 0);
        gpur_batch_release(batches[i]);
    }
    kit_close(&s);
    gate_destroy(&g);
}

TEST(an_append_without_a_free_block_waits_for_the_oldest_copy)
{
    if (test_on_cuda() || test_executor() == GPUR_EXECUTOR_INLINE)
        return;
    const gpur_replay_config config = kit_plain_config(100, 5, 8, GPUR_FLUSH_AUTO);
    gpur_replay_stats stats = {.size = sizeof stats};
    pthread_t thread;
    kit_scene s;
    gate g;
    opener o = {.g = &g};
    gate_init(&g);
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gate_close(&g, s.replay->ring.copy_stream));
    CHECK_OK(kit_append_next(&s, 20)); /* four blocks of five: no copy is waited for yet */
    CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
    CHECK_EQUAL(stats.waits, 0);
    CHECK(pthread_create(&thread, NULL, open_later, &o) == 0);
    CHECK_OK(kit_append_next(&s, 1));
    CHECK_EQUAL(atomic_load(&o.opened), 1);
    pthread_join(thread, NULL);
    CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
    CHECK_EQUAL(stats.waits, 1);
    CHECK(stats.wait_seconds > 0.01 && stats.append_seconds >= stats.wait_seconds);
    CHECK_OK(kit_gather(&s, 3, (const int64_t[]){0, 19, 20}));
    kit_close(&s);
    gate_destroy(&g);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(an_append_overwrites_nothing_that_an_enqueued_draw_reads);
    RUN(rows_that_leave_in_the_midst_of_a_launch_are_gone_for_its_rest);
    RUN(no_more_than_two_launches_are_in_flight);
    RUN(an_append_without_a_free_block_waits_for_the_oldest_copy);
    return test_main_end();
}
