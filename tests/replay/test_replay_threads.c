/* SPDX-License-Identifier: MIT */
/* Sixteen threads append while two draw, one of them by id: no row is torn, none is lost, none comes twice. */
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>

enum { THREADS = 16, EACH = 1500, LONG_EACH = 40000 };

static const gpur_field fields[] = {{"a", GPUR_UINT8, {37}}, {"tag", GPUR_INT64, {0}}, {"b", GPUR_FLOAT32, {21}}};

typedef struct crowd {
    gpur_device *device;
    gpur_replay *replay;
    kit kit;
    int64_t each; /* rows of one thread */
    atomic_int first, writing;
} crowd;

/* Rows with tags first * each ... (first + 1) * each - 1, in pieces of every size. */
static void append_share(crowd *c, gpur_writer *writer, uint64_t share)
{
    uint64_t random = share + 1;
    for (int64_t done = 0; done < c->each;) {
        const int64_t left = c->each - done, wanted = 1 + kit_below(&random, kit_below(&random, 5) ? 8 : 70);
        const int64_t count = wanted < left ? wanted : left;
        CHECK_OK(kit_append(&c->kit, writer, (int64_t)share * c->each + done, count));
        done += count;
        if (kit_below(&random, 50) == 0)
            CHECK_OK(gpur_writer_flush(writer));
    }
}

static void *write_rows(void *context)
{
    crowd *const c = context;
    gpur_writer *writer = NULL;
    if (gpur_writer_create(c->replay, 1, &writer) == GPUR_OK)
        append_share(c, writer, (uint64_t)atomic_fetch_add(&c->first, 1));
    else
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    atomic_fetch_sub(&c->writing, 1);
    return NULL;
}

static void draw_once(crowd *c, int64_t count)
{
    gpur_batch *batch = NULL;
    const gpur_status status = gpur_replay_sample(c->replay, count, NULL, &batch);
    CHECK(status == GPUR_OK || status == GPUR_TOO_FEW);
    if (status == GPUR_OK)
        CHECK_EQUAL(kit_wrong_bytes(&c->kit, batch, NULL), 0);
    gpur_batch_release(batch);
}

/* Ids that are visible now; by the time of the call some may have left, and it is refused. */
static void gather_once(crowd *c, int64_t count, int64_t offset)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_batch *batch = NULL;
    int64_t ids[24], got[24];
    CHECK_OK(gpur_replay_get_stats(c->replay, &stats));
    if (stats.visible < count)
        return;
    for (int64_t i = 0; i < count; i++)
        ids[i] = stats.first_id + offset % (stats.visible - count + 1) + i;
    const gpur_status status = gpur_replay_gather(c->replay, count, ids, NULL, &batch);
    CHECK(status == GPUR_OK || status == GPUR_EVICTED);
    if (status != GPUR_OK)
        return;
    CHECK_EQUAL(kit_wrong_bytes(&c->kit, batch, got), 0);
    CHECK(memcmp(got, ids, (size_t)count * sizeof *ids) == 0);
    gpur_batch_release(batch);
}

static void *draw_rows(void *context)
{
    crowd *const c = context;
    for (int64_t i = 0; atomic_load(&c->writing) > 0; i++)
        draw_once(c, 1 + i % 24);
    return NULL;
}

static void *gather_rows(void *context)
{
    crowd *const c = context;
    for (int64_t i = 0; atomic_load(&c->writing) > 0; i++)
        gather_once(c, 1 + i % 24, i);
    return NULL;
}

static void run_crowd(crowd *c)
{
    pthread_t threads[THREADS + 2];
    atomic_store(&c->writing, THREADS);
    void *(*const readers[])(void *) = {draw_rows, gather_rows};
    for (int i = 0; i < THREADS + 2; i++)
        CHECK(pthread_create(&threads[i], NULL, i < THREADS ? write_rows : readers[i - THREADS], c) == 0);
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(threads[i], NULL);
}

/* Every visible row, by id. Where all rows fit, every tag must be there once, and each thread's in its own order. */
static void check_end(crowd *c, int64_t batch_rows)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    int64_t last[THREADS], seen = 0, ids[64], tags[64];
    for (int i = 0; i < THREADS; i++)
        last[i] = -1;
    draw_once(c, 1), draw_once(c, 1), draw_once(c, 1); /* publishes all */
    CHECK_OK(gpur_replay_get_stats(c->replay, &stats));
    CHECK_EQUAL(stats.appended, THREADS * c->each);
    CHECK_EQUAL(stats.first_id + stats.visible, stats.appended);
    CHECK_EQUAL(stats.published, stats.appended);
    for (int64_t id = stats.first_id; id < stats.appended;) {
        gpur_batch *batch = NULL;
        int64_t count = 0;
        for (; count < batch_rows && id < stats.appended; count++)
            ids[count] = id++;
        CHECK_OK(gpur_replay_gather(c->replay, count, ids, NULL, &batch));
        CHECK_EQUAL(kit_wrong_bytes(&c->kit, batch, NULL), 0);
        CHECK_OK(gpur_batch_read(batch, "tag", tags, count * 8));
        gpur_batch_release(batch);
        for (int64_t b = 0; b < count; b++, seen++) {
            const int64_t thread = tags[b] / c->each;
            CHECK(thread >= 0 && thread < THREADS && tags[b] > last[thread]);
            last[thread] = tags[b];
        }
    }
    CHECK_EQUAL(seen, stats.visible);
}

static void check_crowd(int64_t capacity, int64_t update_size, int32_t flush, int32_t feed)
{
    gpur_replay_config config = kit_config(fields, 3, capacity, update_size, 24);
    crowd c = {.each = test_is_long() ? LONG_EACH : EACH};
    if (capacity == 0)
        config.capacity = THREADS * c.each + 100;
    config.flush = flush;
    config.feed = feed;
    c.device = test_device();
    CHECK_OK(gpur_replay_create(c.device, &config, &c.replay));
    c.kit = kit_of(c.replay, config.gamma);
    run_crowd(&c);
    check_end(&c, 24);
    gpur_replay_destroy(c.replay);
    gpur_device_close(c.device);
}

TEST(sixteen_writers_lose_nothing)
{
    check_crowd(0, 50, GPUR_FLUSH_AUTO, GPUR_FEED_COPY);
    check_crowd(0, 7, GPUR_FLUSH_MANUAL, GPUR_FEED_SCATTER);
}

TEST(sixteen_writers_overwrite_while_others_draw)
{
    check_crowd(100, 16, GPUR_FLUSH_AUTO, GPUR_FEED_COPY);
    check_crowd(101, 33, GPUR_FLUSH_MANUAL, GPUR_FEED_COPY);
    check_crowd(73, 16, GPUR_FLUSH_AUTO, GPUR_FEED_SCATTER);
    check_crowd(40, 5, GPUR_FLUSH_MANUAL, GPUR_FEED_SCATTER);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(sixteen_writers_lose_nothing);
    RUN(sixteen_writers_overwrite_while_others_draw);
    return test_main_end();
}
