/* SPDX-License-Identifier: MIT */
/* Which rows must leave for frames: the log of groups beside a walk through all rows. */
#include "replay/storage/frame_index.h"
#include "support/replay_fixture.h"
#include "test.h"

#include <string.h>

enum { ROWS = 3000, ROUNDS = 60 };

typedef struct row {
    int64_t head, oldest; /* frames stored before it; the oldest that it links to */
} row;

/* The first row that may stay: behind the last group, from that of `first` on, with a row that links to a lost frame.
 */
static int64_t keep(const row *rows, int64_t count, int64_t first, int64_t lost, int64_t group)
{
    int64_t kept = first;
    for (int64_t id = first / group * group; id < count; id++)
        if (rows[id].oldest < lost)
            kept = (id / group + 1) * group;
    return kept;
}

static void play_log(uint64_t seed, gpur_device *device)
{
    static row rows[ROWS];
    uint64_t random = seed + 1;
    gpur_frame_index log = {0};
    const gpur_frame_layout linking = {.stack = 1,
                                       .group_rows = 1 + xorshift_below(&random, 32),
                                       .frames = 200 + xorshift_below(&random, 200),
                                       .reach = 1 + xorshift_below(&random, 100)};
    const int64_t per_row = 1 + xorshift_below(&random, 4), window = linking.frames / per_row;
    CHECK_OK(gpur_frame_index_build(&log, device, &linking, ROWS / 2));
    for (int64_t id = 0; id < ROWS; id++) {
        const int64_t reach = linking.reach < log.head ? linking.reach : log.head;
        rows[id].head = log.head;
        rows[id].oldest = log.head - xorshift_below(&random, reach + 1);
        gpur_frame_index_record(&log, rows[id].head, rows[id].oldest);
        log.head += xorshift_below(&random, per_row + 1);
        const int64_t first = id > window ? id - xorshift_below(&random, window) : xorshift_below(&random, id + 1);
        const int64_t head = log.head - xorshift_below(&random, 5);
        CHECK_EQUAL(gpur_frame_index_first_live_row(&log, first, head),
                    keep(rows, id + 1, first, head - linking.frames, linking.group_rows));
    }
    gpur_frame_index_destroy(&log);
}

TEST(the_rows_that_may_stay_are_those_behind_the_last_group_that_lost_a_frame)
{
    gpur_device *const device = test_device();
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        play_log(seed, device);
    gpur_device_close(device);
}

enum { COPIED = 205, GROUP = 8, LAST = 30 };

static const gpur_frame_layout small = {
    .stack = 1, .frames_per_row = 2, .group_rows = GROUP, .frames = 300, .reach = 20};

/* A log of COPIED rows, each with a frame and a link to the one before. */
static void fill(gpur_frame_index *log, gpur_device *device)
{
    CHECK_OK(gpur_frame_index_build(log, device, &small, 150));
    for (int64_t id = 0; id < COPIED; id++, log->head++)
        gpur_frame_index_record(log, log->head, id > 0 ? log->head - 1 : 0);
}

/* What saving and loading do with groups: they go to a log of another size, and it goes on; bad ones are told. */
TEST(groups_go_to_another_log_unless_no_log_has_such)
{
    static const struct {
        int64_t oldest, first; /* of group 3, added */
    } wrong[] = {{-1000, 0}, {-21, 0}, {10, 0}, {1000, 0}, {0, -1000}, {0, -20}, {0, 17}, {0, 1000}};
    gpur_device *const device = test_device();
    gpur_frame_index log = {0}, other = {0};
    gpur_frame_group groups[32];
    const int64_t first = 61;
    fill(&log, device);
    CHECK_EQUAL(gpur_frame_index_count(&log, first, COPIED), 19);
    gpur_frame_index_get(&log, first, groups);
    CHECK(gpur_frame_index_is_valid(&log, first, COPIED, log.head, groups));
    CHECK(!gpur_frame_index_is_valid(&log, first, COPIED, log.head + 1000, groups)); /* the last rows never had so
                                                                                        many */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gpur_frame_group bad[32];
        memcpy(bad, groups, sizeof bad);
        bad[3].oldest += wrong[i].oldest, bad[3].first += wrong[i].first;
        TEST_REQUIRE(!gpur_frame_index_is_valid(&log, first, COPIED, log.head, bad), "case %d is taken", (int)i);
    }
    CHECK_OK(gpur_frame_index_build(&other, device, &small, 190));
    gpur_frame_index_set(&other, first, COPIED, log.head, groups);
    for (int64_t i = 0; i < 100; i++, log.head++, other.head++) {
        gpur_frame_index_record(&log, log.head, log.head - 1);
        gpur_frame_index_record(&other, other.head, other.head - 1);
        CHECK_EQUAL(other.head, log.head);
        CHECK_EQUAL(gpur_frame_index_first_live_row(&other, 160, log.head + LAST),
                    gpur_frame_index_first_live_row(&log, 160, log.head + LAST));
    }
    gpur_frame_index_destroy(&other);
    gpur_frame_index_destroy(&log);
    gpur_device_close(device);
}

TEST(a_packed_replay_loses_no_row_for_frames)
{
    gpur_frame_index log = {0};
    const gpur_frame_layout packed = {0};
    CHECK_OK(gpur_frame_index_build(&log, NULL, &packed, 100));
    CHECK_EQUAL(gpur_frame_index_first_live_row(&log, 7, 1000000), 7);
    gpur_frame_index_destroy(&log);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_rows_that_may_stay_are_those_behind_the_last_group_that_lost_a_frame);
    RUN(groups_go_to_another_log_unless_no_log_has_such);
    RUN(a_packed_replay_loses_no_row_for_frames);
    return test_main_end();
}
