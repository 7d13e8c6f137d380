/* SPDX-License-Identifier: MIT */
/* Which rows a draw sees, and when: the paper's own block cases, read your writes, flush modes, burn-in. */
#include "replay/replay.h"
#include "support/replay_fixture.h"
#include "test.h"

static int open_scene(replay_fixture *s, int64_t capacity, int64_t block_rows, int64_t max_batch, int32_t flush)
{
    const gpur_replay_config config = replay_fixture_plain_config(capacity, block_rows, max_batch, flush);
    return replay_fixture_open(s, test_device(), &config, 1);
}

static void append_singly(replay_fixture *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        CHECK_OK(replay_fixture_append(s, 1));
}

/* Rows in the window that the last launch was given. */
static int64_t visible(replay_fixture *s)
{
    const gpur_replay_stats stats = kit_stats(s->replay);
    return stats.published - stats.evicted;
}

/* The tag of the row in each slot of the ring, by its int64 field, whose bytes follow from the tag. */
static void check_slots(replay_fixture *s, const int64_t *tags, int64_t count)
{
    const int64_t offset = s->row_tags.fields[2].offset, pitch = s->replay->schema.pitch;
    for (int64_t slot = 0; slot < count; slot++) {
        int64_t got = 0;
        unsigned char *const row = tagged_rows(&s->row_tags, tags[slot], 1);
        CHECK_OK(gpur_device_copy(s->device, &got, s->replay->ring.rows + slot * pitch + offset, sizeof got));
        const int is_right = memcmp(&got, row + offset, sizeof got) == 0;
        free(row);
        TEST_REQUIRE(is_right, "slot %d does not have row %d", (int)slot, (int)tags[slot]);
    }
}

/* [bparr/gpu-experience-replay, its unit tests]: capacity 6, update 2; slots after 0 ... 8, and after 0 ... 34. */
TEST(the_papers_blocks_fall_where_its_tests_say)
{
    static const int64_t after_9[] = {6, 7, 2, 3, 4, 5}, after_35[] = {30, 31, 32, 33, 28, 29};
    replay_fixture s;
    CHECK(open_scene(&s, 6, 2, 4, GPUR_FLUSH_MANUAL));
    append_singly(&s, 9);
    CHECK_EQUAL(gpur_replay_size(s.replay), 6);
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){2, 3, 4}));
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){5, 6, 7}));
    check_slots(&s, after_9, 6);
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){8}), GPUR_INVALID_ARGUMENT); /* staged */
    CHECK_MESSAGE("ids[0] is 8; the visible transitions are 2 to 7");
    CHECK_STATUS(replay_fixture_gather(&s, 2, (const int64_t[]){2, 1}), GPUR_EVICTED);
    CHECK_MESSAGE("ids[1] is 1, and has been overwritten; the visible transitions are 2 to 7");
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){-1}), GPUR_INVALID_ARGUMENT);
    append_singly(&s, 26);
    CHECK_OK(kit_sample(&s, 1, NULL));
    CHECK_OK(kit_sample(&s, 1, NULL));
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){28, 33, 30}));
    check_slots(&s, after_35, 6);
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){34}), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){27}), GPUR_EVICTED);
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_OK(replay_fixture_gather(&s, 1, (const int64_t[]){34}));
    replay_fixture_close(&s);
}

TEST(injected_duplicates_come_out_as_often)
{
    replay_fixture s;
    CHECK(open_scene(&s, 6, 2, 4, GPUR_FLUSH_AUTO));
    CHECK_OK(replay_fixture_append(&s, 3));
    CHECK_OK(replay_fixture_gather(&s, 3, (const int64_t[]){2, 2, 2}));
    CHECK_STATUS(replay_fixture_gather(&s, 3, (const int64_t[]){2, 3, 2}), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("ids[1] is 3; the visible transitions are 0 to 2");
    replay_fixture_close(&s);
}

TEST(an_empty_replay_refuses_to_be_drawn_from)
{
    gpur_batch *batch = NULL;
    replay_fixture s;
    CHECK(open_scene(&s, 6, 2, 4, GPUR_FLUSH_AUTO));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 0);
    CHECK_STATUS(gpur_replay_sample(s.replay, 1, NULL, &batch), GPUR_TOO_FEW);
    CHECK_MESSAGE("the replay is empty");
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){0}), GPUR_TOO_FEW);
    const gpur_replay_stats stats = kit_stats(s.replay);
    CHECK(batch == NULL && stats.sampled == 0 && stats.batches_made == 0 && stats.batches_alive == 0);
    replay_fixture_close(&s);
}

/* Under automatic flush, also where the ring is half full; statistics tell the same as a draw. */
TEST(a_draw_sees_every_row_from_the_first_one_on)
{
    static const int64_t parts[] = {1, 2, 14, 5, 30, 1, 1, 7};
    replay_fixture s;
    CHECK(open_scene(&s, 20, 8, 8, GPUR_FLUSH_AUTO));
    for (int round = 0; round < 40; round++) {
        CHECK_OK(replay_fixture_append(&s, parts[round % 8]));
        const int64_t count = s.next < 20 ? s.next : 20, first = s.next - count;
        const gpur_replay_stats stats = kit_stats(s.replay);
        CHECK(stats.first_id == first && stats.visible == count && gpur_replay_size(s.replay) == count);
        CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){first, s.next - 1}));
        CHECK_EQUAL(visible(&s), count);
        CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){first - 1}),
                     first ? GPUR_EVICTED : GPUR_INVALID_ARGUMENT);
        CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){s.next}), GPUR_INVALID_ARGUMENT);
        int64_t ids[8];
        CHECK_OK(kit_sample(&s, 8, ids));
        for (int b = 0; b < 8; b++)
            CHECK(ids[b] >= first && ids[b] < s.next);
    }
    replay_fixture_close(&s);
}

TEST(manual_blocks_that_overwrite_are_seen_one_launch_later_unless_flushed)
{
    replay_fixture s;
    CHECK(open_scene(&s, 20, 4, 4, GPUR_FLUSH_MANUAL));
    CHECK_OK(replay_fixture_append(&s, 20));
    CHECK_EQUAL(gpur_replay_size(s.replay), 20);
    CHECK_OK(kit_sample(&s, 1, NULL));
    CHECK_OK(replay_fixture_append(&s, 4)); /* evicts 0 to 3: the copy waits for the launch, and the next launch does
                                               not wait for the copy */
    CHECK_EQUAL(gpur_replay_size(s.replay), 16);
    CHECK_OK(kit_sample(&s, 1, NULL));
    CHECK_EQUAL(visible(&s), 16);
    CHECK_EQUAL(gpur_replay_size(s.replay), 20);
    CHECK_OK(kit_sample(&s, 1, NULL));
    CHECK_EQUAL(visible(&s), 20);
    CHECK_OK(replay_fixture_append(&s, 6)); /* a block, and half of one */
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_EQUAL(gpur_replay_size(s.replay), 20);
    CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){10, 29}));
    CHECK_STATUS(replay_fixture_gather(&s, 1, (const int64_t[]){9}), GPUR_EVICTED);
    replay_fixture_close(&s);
}

TEST(burn_in_counts_what_has_become_visible)
{
    gpur_replay_config config = replay_fixture_plain_config(20, 4, 4, GPUR_FLUSH_MANUAL);
    gpur_batch *batch = NULL;
    replay_fixture s;
    config.min_size = 8;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, 7));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 0);
    CHECK_STATUS(kit_sample(&s, 1, NULL), GPUR_TOO_FEW);
    CHECK_MESSAGE("4 transitions have become visible so far; samples wait for min_size = 8");
    CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){3, 0})); /* is no draw */
    CHECK_OK(replay_fixture_append(&s, 1));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    CHECK_OK(gpur_replay_sample(s.replay, 1, NULL, &batch));
    CHECK_OK(gpur_replay_sample_into(s.replay, NULL, batch));
    gpur_batch_release(batch);
    CHECK_OK(replay_fixture_append(&s, 100));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1);
    replay_fixture_close(&s);
}

TEST(a_distinct_draw_needs_as_many_rows)
{
    gpur_replay_config config = replay_fixture_plain_config(100, 10, 16, GPUR_FLUSH_AUTO);
    int64_t ids[16];
    replay_fixture s;
    config.index_source = GPUR_UNIFORM_DISTINCT;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&s, 15));
    CHECK_EQUAL(gpur_replay_can_sample(s.replay), 1); /* min_size alone: it knows of no batch */
    CHECK_STATUS(kit_sample(&s, 16, ids), GPUR_TOO_FEW);
    CHECK_MESSAGE("15 transitions are visible; this sample needs 16");
    CHECK_OK(kit_sample(&s, 15, ids));
    CHECK_OK(replay_fixture_append(&s, 1));
    CHECK_STATUS(kit_sample(&s, 17, ids), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 17; it must be 1 to max_batch = 16");
    CHECK_STATUS(kit_sample(&s, 0, ids), GPUR_INVALID_ARGUMENT);
    replay_fixture_close(&s);
}

/* One thread, no draw, every mode, blocks of every size: the appends themselves must keep the feed going. */
TEST(burn_in_never_waits_for_a_draw)
{
    for (int mode = 0; mode < 8; mode++) {
        const int32_t flush = mode & 1 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
        gpur_replay_config config = replay_fixture_plain_config(64, 1 + 5 * (mode % 3), 8, flush);
        replay_fixture s;
        config.upload = mode & 2 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        config.staging_blocks = 2;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        if (mode & 4)
            append_singly(&s, 1000);
        else
            CHECK_OK(replay_fixture_append(&s, 1000));
        CHECK_OK(replay_fixture_append(&s, 777));
        CHECK_OK(gpur_writer_flush(s.writer));
        CHECK_EQUAL(gpur_replay_size(s.replay), 64);
        CHECK_OK(replay_fixture_gather(&s, 2, (const int64_t[]){s.next - 1, s.next - 64}));
        replay_fixture_close(&s);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_papers_blocks_fall_where_its_tests_say);
    RUN(injected_duplicates_come_out_as_often);
    RUN(an_empty_replay_refuses_to_be_drawn_from);
    RUN(a_draw_sees_every_row_from_the_first_one_on);
    RUN(manual_blocks_that_overwrite_are_seen_one_launch_later_unless_flushed);
    RUN(burn_in_counts_what_has_become_visible);
    RUN(a_distinct_draw_needs_as_many_rows);
    RUN(burn_in_never_waits_for_a_draw);
    return test_main_end();
}
