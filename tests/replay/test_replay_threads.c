/* SPDX-License-Identifier: MIT */
/* Threads append while others draw, gather by id and update priorities: no row is torn, none is lost, none comes twice,
 * and no node of the tree of priorities goes wrong. */
#include "support/replay_fixture.h"
#include "test.h"

#include <pthread.h>

#ifdef GPUR_RACE_CHECK /* a thread for every thread of a block */
enum { WRITERS = 4, EACH = 60, LONG_EACH = 60, LEAST_DRAWS = 10 };
#else
enum { WRITERS = 16, EACH = 1500, LONG_EACH = 40000, LEAST_DRAWS = 300 };
#endif
enum { MAX_BATCH = 64, READERS = 3, WIDE_FIELDS = 40 };

static const gpur_field narrow[] = {{"a", GPUR_UINT8, {37}}, {"tag", GPUR_INT64, {0}}, {"b", GPUR_FLOAT32, {21}}};

typedef struct crowd {
    replay_fixture scene;
    int64_t each; /* rows of one writer */
    int prioritized;
    atomic_int first, writing, readers;
} crowd;

/* Rows with tags first * each ... (first + 1) * each - 1, in pieces of every size. */
static void append_share(crowd *c, gpur_writer *writer, int64_t share)
{
    uint64_t random = (uint64_t)share + 1;
    for (int64_t done = 0; done < c->each;) {
        const int64_t left = c->each - done, wanted = 1 + xorshift_below(&random, xorshift_below(&random, 5) ? 8 : 70);
        const int64_t count = wanted < left ? wanted : left;
        CHECK_OK(append_tagged(&c->scene.row_tags, writer, share * c->each + done, count));
        done += count;
        if (xorshift_below(&random, 50) == 0)
            CHECK_OK(gpur_writer_flush(writer));
    }
}

static void *write_rows(void *context)
{
    crowd *const c = context;
    gpur_writer *writer = NULL;
    if (gpur_writer_create(c->scene.replay, 1, &writer) == GPUR_OK)
        append_share(c, writer, atomic_fetch_add(&c->first, 1));
    else
        test_fail(__FILE__, __LINE__);
    gpur_writer_destroy(writer);
    atomic_fetch_sub(&c->writing, 1);
    return NULL;
}

static void draw_once(crowd *c, int64_t count, uint64_t *random)
{
    int64_t ids[MAX_BATCH];
    float priorities[MAX_BATCH];
    const gpur_status status = kit_sample(&c->scene, count, ids);
    CHECK(status == GPUR_OK || status == GPUR_TOO_FEW);
    if (status != GPUR_OK || !c->prioritized)
        return;
    for (int64_t b = 0; b < count; b++) {
        CHECK(ids[b] >= 0);
        priorities[b] = (float)xorshift_below(random, 100);
    }
    CHECK_OK(gpur_replay_update_priorities(c->scene.replay, count, ids, priorities, NULL));
}

/* Ids that are visible now; by the time of the call some may have left, and it is refused. */
static void gather_once(crowd *c, int64_t count, int64_t offset)
{
    const gpur_replay_stats stats = kit_stats(c->scene.replay);
    int64_t ids[MAX_BATCH];
    CHECK(stats.visible >= 0);
    if (stats.visible < count)
        return;
    for (int64_t i = 0; i < count; i++)
        ids[i] = stats.first_id + offset % (stats.visible - count + 1) + i;
    const gpur_status status = replay_fixture_gather(&c->scene, count, ids);
    CHECK(status == GPUR_OK || status == GPUR_EVICTED);
}

/* The first reader gathers, the others draw. */
static void *read_rows(void *context)
{
    crowd *const c = context;
    const int reader = atomic_fetch_add(&c->readers, 1);
    uint64_t random = (uint64_t)reader + 1;
    for (int64_t i = 0; i < LEAST_DRAWS || atomic_load(&c->writing) > 0; i++)
        if (reader == 0)
            gather_once(c, 1 + i % 24, i);
        else
            draw_once(c, i % 2 ? MAX_BATCH : 1 + i % 24, &random);
    return NULL;
}

/* Every visible row, by id; each writer's come in its own order, and where all rows fit, all are there. */
static void check_end(crowd *c)
{
    gpur_replay *const replay = c->scene.replay;
    int64_t last[WRITERS], seen = 0, ids[MAX_BATCH], tags[MAX_BATCH];
    uint64_t random = 1;
    for (int i = 0; i < WRITERS; i++)
        last[i] = -1;
    for (int i = 0; i < 3; i++) /* publishes all */
        draw_once(c, 1, &random);
    const gpur_replay_stats stats = kit_stats(replay);
    CHECK_EQUAL(stats.appended, WRITERS * c->each);
    CHECK_EQUAL(stats.first_id + stats.visible, stats.appended);
    CHECK_EQUAL(stats.published, stats.appended);
    for (int64_t id = stats.first_id; id < stats.appended;) {
        gpur_batch *batch = NULL;
        int64_t count = 0;
        for (; count < MAX_BATCH && id < stats.appended; count++)
            ids[count] = id++;
        CHECK_OK(gpur_replay_gather(replay, count, ids, NULL, &batch));
        CHECK_EQUAL(count_wrong_bytes(&c->scene.row_tags, batch, NULL), 0);
        CHECK_OK(gpur_batch_read(batch, "tag", tags, count * 8));
        gpur_batch_release(batch);
        for (int64_t b = 0; b < count; b++, seen++) {
            const int64_t writer = tags[b] / c->each;
            CHECK(writer >= 0 && writer < WRITERS && tags[b] > last[writer]);
            last[writer] = tags[b];
        }
    }
    CHECK_EQUAL(seen, stats.visible);
}

static void check_tree(crowd *c)
{
    int64_t wrong = -1;
    if (c->prioritized)
        CHECK_OK(gpur_replay_check_priorities(c->scene.replay, &wrong));
    CHECK(wrong == (c->prioritized ? 0 : -1));
}

static void check_crowd(gpur_replay_config config)
{
    static crowd c;
    pthread_t threads[WRITERS + READERS];
    memset(&c, 0, sizeof c);
    c.each = test_is_long() ? LONG_EACH : EACH, c.prioritized = config.prioritized;
    if (config.capacity == 0)
        config.capacity = WRITERS * c.each + 100;
    CHECK(replay_fixture_open(&c.scene, test_device(), &config, 1));
    atomic_store(&c.writing, WRITERS);
    for (int i = 0; i < WRITERS + READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i < WRITERS ? write_rows : read_rows, &c) == 0);
    check_tree(&c); /* while all of them go on */
    for (int i = 0; i < WRITERS + READERS; i++)
        pthread_join(threads[i], NULL);
    check_tree(&c);
    check_end(&c);
    replay_fixture_close(&c.scene);
}

/* Large rings, which lose nothing, and small ones, which are overwritten many times; the last one's rows have more
 * fields than one launch copies, and all launches of one draw see the rows that the first one drew. */
TEST(rows_of_many_writers_are_whole_for_every_reader)
{
    static const int32_t cases[][4] = {
        {0, 50, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY},     {0, 7, GPUR_FLUSH_MANUAL, GPUR_UPLOAD_SCATTER},
        {100, 16, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY},   {101, 33, GPUR_FLUSH_MANUAL, GPUR_UPLOAD_COPY},
        {93, 16, GPUR_FLUSH_AUTO, GPUR_UPLOAD_SCATTER}, {70, 5, GPUR_FLUSH_MANUAL, GPUR_UPLOAD_SCATTER},
        {128, 32, GPUR_FLUSH_AUTO, GPUR_UPLOAD_COPY}};
    enum { CASES = sizeof cases / sizeof *cases };
    static char names[WIDE_FIELDS][8];
    static gpur_field wide[WIDE_FIELDS];
    for (int32_t f = 0; f < WIDE_FIELDS; f++) {
        snprintf(names[f], sizeof names[f], "f%d", (int)f);
        wide[f] = f == 0 ? narrow[1] : (gpur_field){names[f], GPUR_FLOAT32 + f % 6, {f % 5}};
    }
    for (int i = 0; i < CASES; i++) {
        const int is_wide = i == CASES - 1;
        gpur_replay_config config = replay_fixture_config(is_wide ? wide : narrow, is_wide ? WIDE_FIELDS : 3,
                                                          cases[i][0], cases[i][1], MAX_BATCH);
        config.flush = cases[i][2], config.upload = cases[i][3];
        check_crowd(config);
    }
}

TEST(the_tree_of_priorities_stays_whole_beside_appends_and_updates)
{
    for (int i = 0; i < 2; i++) {
        gpur_replay_config config = replay_fixture_config(narrow, 3, 700, 50, MAX_BATCH);
        config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED;
        config.weight_norm = i ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH;
        config.upload = i ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        config.beta.first = config.beta.last = 0.0f; /* the kit wants weights of 1 */
        check_crowd(config);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_of_many_writers_are_whole_for_every_reader);
    RUN(the_tree_of_priorities_stays_whole_beside_appends_and_updates);
    return test_main_end();
}
