/* SPDX-License-Identifier: MIT */
/* Which rows a draw sees, and when: the paper's own block cases, read your writes, flush modes, burn-in. */
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

static const gpur_field fields[] = {{"a", GPUR_FLOAT32, {5}}, {"terminated", GPUR_BOOL, {0}}, {"b", GPUR_INT64, {0}}};

static gpur_replay_config settings(int64_t capacity, int64_t update_size, int64_t max_batch, int32_t flush)
{
    gpur_replay_config config = kit_config(fields, 3, capacity, update_size, max_batch);
    config.flush = flush;
    return config;
}

static int open_scene(kit_scene *s, const gpur_replay_config *config)
{
    return kit_open(s, test_device(), config, 1);
}

static void append(kit_scene *s, int64_t count)
{
    CHECK_OK(kit_append_next(s, count));
}

static void append_singly(kit_scene *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        append(s, 1);
}

/* One draw of one row, for its effect on what is visible. */
static void launch(kit_scene *s)
{
    gpur_batch *batch = NULL;
    CHECK_OK(gpur_replay_sample(s->replay, 1, NULL, &batch));
    CHECK_EQUAL(kit_wrong_bytes(&s->kit, batch, NULL), 0);
    gpur_batch_release(batch);
}

/* Rows in the window that the last launch was given. */
static int64_t visible(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.published - stats.evicted : -1;
}

/* The tag of the row in each slot of the ring, by its int64 field, whose bytes follow from the tag. */
static void check_slots(kit_scene *s, const int64_t *tags, int64_t count)
{
    const gpur_field_info *const b = &s->kit.fields[2];
    const int64_t pitch = s->replay->schema.pitch;
    for (int64_t slot = 0; slot < count; slot++) {
        int64_t got = 0, want = 0;
        unsigned char *const row = kit_rows(&s->kit, tags[slot], 1);
        memcpy(&want, row + b->offset, sizeof want);
        free(row);
        CHECK_OK(gpur_device_copy(s->device, &got, s->replay->ring.rows + slot * pitch + b->offset, sizeof got));
        CHECK_EQUAL(got, want);
    }
}

/* [bparr/gpu-experience-replay, its unit tests]: capacity 6, update 2; slots after 0 ... 8, and after 0 ... 34. */
TEST(the_papers_blocks_fall_where_its_tests_say)
{
    static const int64_t after_9[] = {6, 7, 2, 3, 4, 5}, after_35[] = {30, 31, 32, 33, 28, 29};
    const gpur_replay_config config = settings(6, 2, 4, GPUR_FLUSH_MANUAL);
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append_singly(&s, 9);
    CHECK_EQUAL(gpur_replay_size(s.replay), 6);
    CHECK_OK(kit_gather(&s, 3, (const int64_t[]){2, 3, 4}));
    CHECK_OK(kit_gather(&s, 3, (const int64_t[]){5, 6, 7}));
    check_slots(&s, after_9, 6);
    CHECK_STATUS(kit_gather(&s, 1, (const int64_t[]){8}), GPUR_INVALID_ARGUMENT); /* staged */
    CHECK_MESSAGE("ids[0] is 8; the visible transitions are 2 to 7");
    CHECK_STATUS(kit_gather(&s, 2, (const int64_t[]){2, 1}), GPUR_EVICTED);
    CHECK_MESSAGE("ids[1] is 1, and has been overwritten; the visible transitions are 2 to 7");
    CHECK_STATUS(kit_gather(&s, 1, (const int64_t[]){-1}), GPUR_INVALID_ARGUMENT);
    append_singly(&s, 26);
    launch(&s), launch(&s);
    CHECK_OK(kit_gather(&s, 3, (const int64_t[]){28, 33, 30}));
    check_slots(&s, after_35, 6);
    CHECK_STATUS(kit_gather(&s, 1, (const int64_t[]){34}), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(kit_gather(&s, 1, (const int64_t[]){27}), GPUR_EVICTED);
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_OK(kit_gather(&s, 1, (const int64_t[]){34}));
    kit_close(&s);
}

TEST(injected_duplicates_come_out_as_often)
{
    const gpur_replay_config config = settings(6, 2, 4, GPUR_FLUSH_AUTO);
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append(&s, 3);
    CHECK_OK(kit_gather(&s, 3, (const int64_t[]){2, 2, 2}));
    CHECK_STATUS(kit_gather(&s, 3, (const int64_t[]){2, 3, 2}), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ids[1] is 3; the visible transitions are 0 to 2");
    kit_close(&s);
}

TEST(an_empty_replay_refuses_to_be_drawn_from)
{
    const gpur_replay_config config = settings(6, 2, 4, GPUR_FLUSH_AUTO);
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(open_scene(&s, &config));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 0);
    CHECK_STATUS(gpur_replay_sample(s.replay, 1, NULL, &batch), GPUR_TOO_FEW);
    CHECK_MESSAGE("the replay is empty");
    CHECK_STATUS(kit_gather(&s, 1, (const int64_t[]){0}), GPUR_TOO_FEW);
    CHECK(batch == NULL);
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(s.replay, &stats));
    CHECK(stats.draws == 0 && stats.batches_made == 0 && stats.batches_alive == 0);
    kit_close(&s);
}

TEST(a_half_full_replay_gives_only_what_is_there)
{
    const gpur_replay_config config = settings(100, 10, 64, GPUR_FLUSH_AUTO);
    gpur_batch *batch = NULL;
    int64_t ids[64];
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append(&s, 47);
    for (int draw = 0; draw < 20; draw++) {
        CHECK_OK(gpur_replay_sample(s.replay, 64, NULL, &batch));
        CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, ids), 0);
        gpur_batch_release(batch);
        for (int b = 0; b < 64; b++)
            CHECK(ids[b] >= 0 && ids[b] < 47);
    }
    kit_close(&s);
}

TEST(a_draw_sees_every_row_from_the_first_one_on)
{
    const gpur_replay_config config = settings(8, 3, 4, GPUR_FLUSH_AUTO);
    kit_scene s;
    CHECK(open_scene(&s, &config));
    for (int64_t i = 0; i < 50; i++) {
        append(&s, 1);
        CHECK_EQUAL(gpur_replay_size(s.replay), i < 8 ? i + 1 : 8);
        CHECK_OK(kit_gather(&s, 1, &i));
        CHECK_EQUAL(visible(&s), i < 8 ? i + 1 : 8);
    }
    kit_close(&s);
}

TEST(manual_blocks_that_overwrite_are_seen_one_launch_later_unless_flushed)
{
    const gpur_replay_config config = settings(20, 4, 4, GPUR_FLUSH_MANUAL);
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append(&s, 20);
    CHECK_EQUAL(gpur_replay_size(s.replay), 20);
    launch(&s);
    append(&s, 4); /* evicts 0 to 3: the copy waits for the launch, and the next launch does not wait for the copy */
    CHECK_EQUAL(gpur_replay_size(s.replay), 16);
    launch(&s);
    CHECK_EQUAL(visible(&s), 16);
    CHECK_EQUAL(gpur_replay_size(s.replay), 20);
    launch(&s);
    CHECK_EQUAL(visible(&s), 20);
    append(&s, 6); /* a block, and half of one */
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_EQUAL(gpur_replay_size(s.replay), 20);
    CHECK_OK(kit_gather(&s, 2, (const int64_t[]){10, 29}));
    CHECK_STATUS(kit_gather(&s, 1, (const int64_t[]){9}), GPUR_EVICTED);
    kit_close(&s);
}

/* Every id that the statistics call visible can be gathered, and its neighbours cannot. */
static void check_statistics(kit_scene *s, int64_t first, int64_t count)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_replay_get_stats(s->replay, &stats));
    CHECK_EQUAL(stats.first_id, first);
    CHECK_EQUAL(stats.visible, count);
    CHECK_EQUAL(gpur_replay_size(s->replay), count);
    const int64_t last = first + count - 1, after = last + 1, before = first - 1;
    CHECK_STATUS(kit_gather(s, 1, &before), before < 0 ? GPUR_INVALID_ARGUMENT : GPUR_EVICTED);
    CHECK_STATUS(kit_gather(s, 1, &after), GPUR_INVALID_ARGUMENT);
    CHECK_OK(kit_gather(s, 2, (const int64_t[]){first, last}));
}

TEST(the_statistics_tell_what_a_draw_made_now_would_see)
{
    const gpur_replay_config config = settings(20, 8, 4, GPUR_FLUSH_AUTO);
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append(&s, 3);
    check_statistics(&s, 0, 3);
    append(&s, 14);
    check_statistics(&s, 0, 17);
    append(&s, 5);
    check_statistics(&s, 2, 20);
    append(&s, 30);
    check_statistics(&s, 32, 20);
    kit_close(&s);
}

TEST(burn_in_counts_what_has_become_visible)
{
    gpur_replay_config config = settings(20, 4, 4, GPUR_FLUSH_MANUAL);
    config.min_size = 8;
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append(&s, 7);
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 0);
    CHECK_STATUS(gpur_replay_sample(s.replay, 1, NULL, &batch), GPUR_TOO_FEW);
    CHECK_MESSAGE("4 transitions have become visible so far; draws wait for min_size = 8");
    CHECK_OK(kit_gather(&s, 2, (const int64_t[]){3, 0})); /* is no draw */
    append(&s, 1);
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    CHECK_OK(gpur_replay_resample(s.replay, NULL, batch));
    gpur_batch_release(batch);
    append(&s, 100);
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    kit_close(&s);
}

TEST(a_distinct_draw_needs_as_many_rows)
{
    gpur_replay_config config = settings(100, 10, 16, GPUR_FLUSH_AUTO);
    config.index_source = GPUR_UNIFORM_DISTINCT;
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(open_scene(&s, &config));
    append(&s, 15);
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1); /* min_size alone: it knows of no batch */
    CHECK_STATUS(gpur_replay_sample(s.replay, 16, NULL, &batch), GPUR_TOO_FEW);
    CHECK_MESSAGE("15 transitions are visible; this draw needs 16");
    CHECK_OK(gpur_replay_sample(s.replay, 15, NULL, &batch));
    CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
    gpur_batch_release(batch);
    append(&s, 1);
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    CHECK_STATUS(gpur_replay_sample(s.replay, 17, NULL, &batch), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 17; it must be 1 to max_batch = 16");
    CHECK_STATUS(gpur_replay_sample(s.replay, 0, NULL, &batch), GPUR_INVALID_ARGUMENT);
    kit_close(&s);
}

/* One thread, no draw, every mode, blocks of every size: the appends themselves must keep the feed going. */
TEST(burn_in_never_waits_for_a_draw)
{
    for (int mode = 0; mode < 8; mode++) {
        gpur_replay_config config = settings(64, 1 + 5 * (mode % 3), 8, mode & 1 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO);
        config.feed = mode & 2 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
        config.staging_blocks = 2;
        kit_scene s;
        CHECK(open_scene(&s, &config));
        if (mode & 4)
            append_singly(&s, 1000);
        else
            append(&s, 1000), append(&s, 777);
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_EQUAL(gpur_replay_size(s.replay), 64);
        CHECK_OK(kit_gather(&s, 2, (const int64_t[]){s.next - 1, s.next - 64}));
        kit_close(&s);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_papers_blocks_fall_where_its_tests_say);
    RUN(injected_duplicates_come_out_as_often);
    RUN(an_empty_replay_refuses_to_be_drawn_from);
    RUN(a_half_full_replay_gives_only_what_is_there);
    RUN(a_draw_sees_every_row_from_the_first_one_on);
    RUN(manual_blocks_that_overwrite_are_seen_one_launch_later_unless_flushed);
    RUN(the_statistics_tell_what_a_draw_made_now_would_see);
    RUN(burn_in_counts_what_has_become_visible);
    RUN(a_distinct_draw_needs_as_many_rows);
    RUN(burn_in_never_waits_for_a_draw);
    return test_main_end();
}
