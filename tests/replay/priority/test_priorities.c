/* SPDX-License-Identifier: MIT */
/* Priorities as users meet them: first ones, new ones, of rows that are gone, and what is refused. */
#include "reference/reference_priority.h"
#include "support/replay_kit.h"
#include "test.h"

enum { CAPACITY = 300, UPDATE = 20, BATCH = 64 };

static const gpur_field own[] = {{"tag", GPUR_INT64, {0}}, {"priority", GPUR_FLOAT32, {0}}, {"a", GPUR_UINT8, {3}}};
static const gpur_field plain[] = {{"a", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}}};

static gpur_replay_config config_of(const gpur_field *fields, int32_t count)
{
    gpur_replay_config config = kit_config(fields, count, CAPACITY, UPDATE, BATCH);
    config.prioritized = 1;
    config.index_source = GPUR_PRIORITIZED;
    config.priority_offset = 0.5f;
    return config;
}

static gpur_priority_stats stats_of(gpur_replay *replay)
{
    gpur_priority_stats stats = {.size = sizeof stats};
    int64_t wrong = -1;
    if (gpur_replay_check_priorities(replay, &wrong) != GPUR_OK || wrong != 0 ||
        gpur_replay_get_priority_stats(replay, &stats) != GPUR_OK)
        stats.updates = -1;
    return stats;
}

static void check_held(kit_scene *s, int64_t id, float want)
{
    float p = -1.0f;
    CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &p));
    CHECK_NEAR(p, want, 0);
}

TEST(rows_without_a_priority_get_the_largest_so_far)
{
    const gpur_replay_config config = config_of(plain, 2);
    const int64_t ids[] = {2, 5};
    const float up[] = {7.0f, 0.25f}, down[] = {1.0f, 1.0f};
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, 10));
    check_held(&s, 3, 1.0f);
    CHECK_OK(gpur_replay_update_priorities(s.replay, 2, ids, up, NULL));
    check_held(&s, 2, 7.5f);
    check_held(&s, 5, 0.75f);
    CHECK_OK(gpur_replay_update_priorities(s.replay, 2, ids, down, NULL));
    CHECK_OK(kit_append_next(&s, 30)); /* the largest so far, not the largest now */
    check_held(&s, 10, 7.5f);
    check_held(&s, 39, 7.5f);
    check_held(&s, 9, 1.0f);
    const gpur_priority_stats stats = stats_of(s.replay);
    CHECK_EQUAL(stats.updates, 4);
    CHECK_NEAR(stats.max_priority, 7.5f, 0);
    CHECK_NEAR(stats.min_priority, 1.0f, 0);
    CHECK_EQUAL(stats.drawable, 40);
    CHECK_NEAR(stats.total, 8 + 2 * pow(1.5, 0.6) + 30 * pow(7.5, 0.6), 1e-3);
    kit_close(&s);
}

/* Whichever way they come, and around the ring's end. */
static void check_own(kit_scene *s, int64_t first, int64_t last)
{
    float most = 1.0f;
    for (int64_t id = 0; id < last; id++) {
        const float p = kit_priority(id);
        const int good = p >= 0.0f && isfinite(p);
        float held = -1.0f;
        if (id >= first) {
            CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &held));
            CHECK_NEAR(held, good ? p + 0.5f : most, 0);
        }
        most = good && p + 0.5f > most ? p + 0.5f : most;
    }
    CHECK_NEAR(stats_of(s->replay).max_priority, most, 0);
}

/* What gpur_replay_get_stats calls visible can be updated, without a draw in between. */
TEST(an_update_sees_what_a_draw_would)
{
    gpur_replay_config config = config_of(plain, 2);
    const int64_t ids[] = {0, 4, 9};
    const float up[] = {5.0f, 6.0f, 7.0f};
    for (config.flush = GPUR_FLUSH_AUTO; config.flush <= GPUR_FLUSH_MANUAL; config.flush++) {
        const int sees = config.flush == GPUR_FLUSH_AUTO;
        kit_scene s;
        CHECK(kit_open(&s, test_device(), &config, 1));
        CHECK_OK(gpur_replay_update_priorities(s.replay, 3, ids, up, NULL)); /* on an empty one, too */
        CHECK_OK(kit_append_next(&s, 10));
        CHECK_EQUAL(gpur_replay_size(s.replay), sees ? 10 : 0);
        CHECK_OK(gpur_replay_update_priorities(s.replay, 3, ids, up, NULL));
        CHECK_OK(kit_append_next(&s, 5));
        const gpur_priority_stats stats = stats_of(s.replay);
        CHECK_EQUAL(stats.updates, sees ? 3 : 0);
        CHECK_EQUAL(stats.stale, sees ? 3 : 6);
        CHECK_EQUAL(stats.drawable, sees ? 15 : 0);
        if (sees)
            check_held(&s, 9, 7.5f);
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_OK(gpur_replay_update_priorities(s.replay, 3, ids, up, NULL));
        CHECK_EQUAL(stats_of(s.replay).updates, sees ? 6 : 3);
        CHECK_EQUAL(stats_of(s.replay).drawable, 15);
        check_held(&s, 9, 7.5f);
        kit_close(&s);
    }
}

/* Two replays under manual flush get the same rows and updates; statistics of one are asked for now and then. */
TEST(what_a_draw_sees_does_not_depend_on_who_looked)
{
    gpur_replay_config config = config_of(plain, 2);
    config.flush = GPUR_FLUSH_MANUAL, config.capacity = 120, config.update_size = 20, config.max_batch = 40;
    uint64_t random = 5;
    kit_scene s[2];
    CHECK(kit_open(&s[0], test_device(), &config, 1) && kit_open(&s[1], test_device(), &config, 1));
    for (int turn = 0; turn < 200; turn++) {
        const int64_t rows = kit_below(&random, 60), flushes = kit_below(&random, 3), looks = kit_below(&random, 2);
        const int64_t draws = kit_below(&random, 3);
        int64_t id[2][32] = {{0}};
        for (int i = 0; i < 2; i++) {
            gpur_batch *batch = NULL;
            CHECK_OK(kit_append_next(&s[i], rows));
            if (flushes == 0)
                CHECK_OK(gpur_writer_flush(s[i].writer));
            if (i == 1 && looks)
                CHECK(stats_of(s[i].replay).updates >= 0);
            if (draws > 0 || gpur_replay_size(s[i].replay) == 0)
                continue;
            CHECK_OK(gpur_replay_sample(s[i].replay, 32, NULL, &batch));
            CHECK_OK(gpur_batch_read(batch, "id", id[i], sizeof id[i]));
            gpur_batch_release(batch);
        }
        CHECK_EQUAL(gpur_replay_size(s[0].replay), gpur_replay_size(s[1].replay));
        CHECK(memcmp(id[0], id[1], sizeof id[0]) == 0);
    }
    kit_close(&s[0]);
    kit_close(&s[1]);
}

TEST(rows_bring_their_own_priority_by_every_way_in)
{
    gpur_replay_config config = config_of(own, 3);
    for (int way = 0; way < 4; way++) {
        kit_scene s;
        void *arrays[3];
        config.feed = way == 3 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
        CHECK(kit_open(&s, test_device(), &config, 1));
        CHECK_OK(kit_append_next(&s, 2)); /* the next block is then no whole one, but for way 0 */
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_EQUAL(stats_of(s.replay).updates, 0);
        CHECK_OK(kit_append_next(&s, UPDATE - 2));
        check_held(&s, 0, kit_priority(0) >= 0 && isfinite(kit_priority(0)) ? kit_priority(0) + 0.5f : 1.0f);
        for (; s.next < 500; s.next += 40) {
            kit_arrays(&s.kit, s.next, 40, arrays);
            unsigned char *const rows = kit_rows(&s.kit, s.next, 40);
            if (way % 2)
                CHECK_OK(gpur_writer_append_fields(s.writer, 40, (const void *const *)arrays, NULL, NULL));
            else
                CHECK_OK(gpur_writer_append(s.writer, 40, rows, NULL));
            for (int f = 0; f < 3; f++)
                free(arrays[f]);
            free(rows);
            if (way < 2) /* publish now and then, or all at once */
                CHECK_EQUAL(stats_of(s.replay).updates, 0);
        }
        check_own(&s, s.next - CAPACITY, s.next);
        CHECK(stats_of(s.replay).invalid > 0);
        kit_close(&s);
    }
}

/* A row that brings no priority gets the largest that any row before it brought, also where both become visible
 * together, where the other is overwritten unseen, and whoever looks in between. `look` says how often somebody does:
 * after every so many appends; 0: never. `part`: rows of one append. */
static void check_order(int look, int64_t part, int32_t flush, int32_t norm)
{
#ifdef GPUR_RACE_CHECK /* a thread for every thread of a block */
    enum { ROWS = 340 };
#else
    enum { ROWS = 1000 };
#endif
    static const gpur_field fields[] = {{"priority", GPUR_FLOAT32, {0}}};
    static float given[ROWS];
    gpur_replay_config config = config_of(fields, 1);
    float most = 1.0f;
    int64_t lacking = 0;
    kit_scene s;
    config.flush = flush;
    config.weight_norm = norm;
    CHECK(kit_open(&s, test_device(), &config, 1));
    for (int64_t i = 0; i < ROWS; i++)
        given[i] = i % 3 == 0 ? (float)((i * 37) % 101) * (float)(i + 1) / 128.0f : -1.0f;
    for (int64_t i = 0, turn = 1; i < ROWS; i += part, turn++) {
        const int64_t count = ROWS - i < part ? ROWS - i : part;
        CHECK_OK(gpur_writer_append(s.writer, count, given + i, NULL));
        if (look > 0 && turn % look == 0)
            CHECK(stats_of(s.replay).updates == 0);
    }
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK(stats_of(s.replay).updates == 0);
    if (flush == GPUR_FLUSH_MANUAL) { /* a draw publishes */
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
        gpur_batch_release(batch);
    }
    for (int64_t id = 0; id < ROWS; id++) {
        if (id >= ROWS - CAPACITY)
            check_held(&s, id, given[id] >= 0.0f ? given[id] + 0.5f : most);
        lacking += given[id] < 0.0f;
        most = given[id] + 0.5f > most ? given[id] + 0.5f : most;
    }
    const gpur_priority_stats stats = stats_of(s.replay); /* whose walk compares all sums, and the smallest leaves */
    CHECK_NEAR(stats.max_priority, most, 0);
    CHECK_EQUAL(stats.invalid, lacking);
    CHECK_EQUAL(stats.updates, 0);
    kit_close(&s);
}

TEST(a_row_without_a_priority_gets_the_largest_given_before_it_whoever_looks)
{
    static const int64_t parts[] = {1, 7, UPDATE, 33, 290, 1000};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int look = 0; look <= 4; look += look == 0 ? 1 : 3)
            for (int32_t flush = GPUR_FLUSH_AUTO; flush <= GPUR_FLUSH_MANUAL; flush++)
                check_order(look, parts[i], flush, (int32_t)(i % 3));
}

/* The same of two writers: ids say in which order their rows were published. */
TEST(the_order_of_two_writers_is_that_of_ids)
{
    static const gpur_field fields[] = {{"priority", GPUR_FLOAT32, {0}}};
    const gpur_replay_config config = config_of(fields, 1);
    const float none = -1.0f;
    gpur_writer *other = NULL;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(gpur_writer_create(s.replay, 1, &other));
    CHECK_OK(gpur_writer_append(s.writer, 1, &none, NULL));
    CHECK_OK(gpur_writer_append(other, 1, &(float){5}, NULL));
    CHECK_OK(gpur_writer_append(s.writer, 1, &none, NULL));
    CHECK_OK(gpur_replay_update_priorities(s.replay, 1, &(int64_t){0}, &(float){8}, NULL));
    CHECK_OK(gpur_writer_append(other, 1, &none, NULL));
    check_held(&s, 0, 8.5f);
    check_held(&s, 1, 5.5f);
    check_held(&s, 2, 5.5f);
    check_held(&s, 3, 8.5f);
    gpur_writer_destroy(other);
    kit_close(&s);
}

TEST(rows_that_were_overwritten_are_stale_and_nothing_is_drawn_of_them)
{
    const gpur_replay_config config = config_of(plain, 2);
    const int64_t ids[] = {0, 5, 6, 305, 306, -1};
    const float p[] = {100, 100, 100, 100, 100, 100};
    kit_scene s;
    gpur_batch *batch = NULL;
    int64_t drawn[BATCH];
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, 290));
    CHECK_OK(gpur_replay_sample(s.replay, BATCH, NULL, &batch));
    gpur_batch_release(batch);
    CHECK_OK(kit_append_next(&s, 16));
    CHECK_OK(gpur_replay_sample(s.replay, BATCH, NULL, &batch)); /* ids 6 to 305 are visible now */
    gpur_batch_release(batch);
    CHECK_OK(gpur_replay_update_priorities(s.replay, 6, ids, p, NULL));
    const gpur_priority_stats stats = stats_of(s.replay);
    CHECK_EQUAL(stats.stale, 4);
    CHECK_EQUAL(stats.updates, 2);
    CHECK_EQUAL(stats.drawable, CAPACITY);
    for (int draws = 0; draws < 20; draws++) {
        CHECK_OK(gpur_replay_sample(s.replay, BATCH, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", drawn, sizeof drawn));
        gpur_batch_release(batch);
        for (int b = 0; b < BATCH; b++)
            CHECK(drawn[b] >= 6 && drawn[b] <= 305);
    }
    kit_close(&s);
}

TEST(arrays_on_the_device_update_like_arrays_on_the_host)
{
    const gpur_replay_config config = config_of(plain, 2);
    const int64_t ids[] = {1, 2, 2, 1};
    const float p[] = {3, 4, 5, 1};
    void *there[2];
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, 10));
    check_held(&s, 1, 1.0f);
    CHECK_OK(gpur_device_alloc(s.device, sizeof ids, &there[0]));
    CHECK_OK(gpur_device_alloc(s.device, sizeof p, &there[1]));
    CHECK_OK(gpur_device_copy(s.device, there[0], ids, sizeof ids));
    CHECK_OK(gpur_device_copy(s.device, there[1], p, sizeof p));
    CHECK_OK(gpur_replay_update_priorities(s.replay, 4, there[0], there[1], NULL));
    gpur_device_free(s.device, there[0]);
    gpur_device_free(s.device, there[1]);
    check_held(&s, 1, 3.5f);
    check_held(&s, 2, 5.5f);
    CHECK_OK(gpur_replay_update_priorities(s.replay, 0, NULL, NULL, NULL));
    CHECK_EQUAL(stats_of(s.replay).updates, 4);
    kit_close(&s);
}

/* What the host gives is free to change when the call returns, though it has yet to be carried out. */
TEST(updates_may_follow_each_other_without_waiting)
{
    const gpur_replay_config config = config_of(plain, 2);
    kit_scene s;
    int64_t ids[BATCH];
    float p[BATCH];
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, CAPACITY));
    check_held(&s, 0, 1.0f);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < BATCH; i++)
            ids[i] = (round * 17 + i) % CAPACITY, p[i] = (float)(round + i);
        CHECK_OK(gpur_replay_update_priorities(s.replay, BATCH, ids, p, NULL));
    }
    for (int i = 0; i < BATCH; i++)
        check_held(&s, (199 * 17 + i) % CAPACITY, (float)(199 + i) + 0.5f);
    CHECK_EQUAL(stats_of(s.replay).updates, 200 * BATCH);
    kit_close(&s);
}

TEST(exponents_are_set_at_run_time)
{
    gpur_replay_config config = config_of(plain, 2);
    kit_scene s;
    config.beta.first = 0.4f, config.beta.last = 1.0f, config.beta.begin = 2, config.beta.steps = 4;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, 10));
    for (int draw = 0; draw < 8; draw++) {
        gpur_batch *batch = NULL;
        CHECK_NEAR(stats_of(s.replay).beta, draw <= 2 ? 0.4 : draw >= 6 ? 1.0 : 0.4 + 0.15 * (draw - 2), 1e-6);
        CHECK_OK(gpur_replay_sample(s.replay, 4, NULL, &batch));
        gpur_batch_release(batch);
    }
    CHECK_OK(gpur_replay_set_beta(s.replay, 0.7f));
    CHECK_OK(gpur_replay_set_alpha(s.replay, 0.0f));
    const gpur_priority_stats stats = stats_of(s.replay);
    CHECK_NEAR(stats.beta, 0.7f, 0);
    CHECK_NEAR(stats.alpha, 0.0f, 0);
    CHECK_NEAR(stats.total, 10.0, 0);
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_without_a_priority_get_the_largest_so_far);
    RUN(an_update_sees_what_a_draw_would);
    RUN(what_a_draw_sees_does_not_depend_on_who_looked);
    RUN(rows_bring_their_own_priority_by_every_way_in);
    RUN(a_row_without_a_priority_gets_the_largest_given_before_it_whoever_looks);
    RUN(the_order_of_two_writers_is_that_of_ids);
    RUN(rows_that_were_overwritten_are_stale_and_nothing_is_drawn_of_them);
    RUN(arrays_on_the_device_update_like_arrays_on_the_host);
    RUN(updates_may_follow_each_other_without_waiting);
    RUN(exponents_are_set_at_run_time);
    return test_main_end();
}
