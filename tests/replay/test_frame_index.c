/* SPDX-License-Identifier: MIT */
/* Which rows must leave the window because their frames are lost: the index of groups beside a walk through all
 * rows. */
#include "replay/storage/frame_index.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { ROWS = 3000, ROUNDS = 60 };

typedef struct row {
    int64_t head, oldest; /* frames stored before it; the oldest that it links to */
} row;

/* The first row that may stay: behind the last group, from that of `first` on, with a row that links to a lost frame.
 */
static int64_t first_live(const row *rows, int64_t count, int64_t first, int64_t lost, int64_t group)
{
    int64_t live = first;
    for (int64_t id = first / group * group; id < count; id++)
        if (rows[id].oldest < lost)
            live = (id / group + 1) * group;
    return live;
}

static void check_random_rows(uint64_t seed, gpur_device *device)
{
    static row rows[ROWS];
    uint64_t random = seed + 1;
    gpur_frame_index index = {0};
    const gpur_frame_layout layout = {.stack = 1,
                                      .group_rows = 1 + xorshift_below(&random, 32),
                                      .frames = 200 + xorshift_below(&random, 200),
                                      .reach = 1 + xorshift_below(&random, 100)};
    const int64_t per_row = 1 + xorshift_below(&random, 4), window = layout.frames / per_row;
    CHECK_OK(gpur_frame_index_build(&index, device, &layout, ROWS / 2));
    for (int64_t id = 0; id < ROWS; id++) {
        const int64_t reach = layout.reach < index.head ? layout.reach : index.head;
        rows[id].head = index.head;
        rows[id].oldest = index.head - xorshift_below(&random, reach + 1);
        gpur_frame_index_record(&index, rows[id].head, rows[id].oldest);
        index.head += xorshift_below(&random, per_row + 1);
        const int64_t first = id > window ? id - xorshift_below(&random, window) : xorshift_below(&random, id + 1);
        const int64_t head = index.head - xorshift_below(&random, 5);
        CHECK_EQUAL(gpur_frame_index_first_live_row(&index, first, head),
                    first_live(rows, id + 1, first, head - layout.frames, layout.group_rows));
    }
    gpur_frame_index_destroy(&index);
}

TEST(the_rows_that_may_stay_are_those_behind_the_last_group_that_lost_a_frame)
{
    gpur_device *const device = test_device();
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        check_random_rows(seed, device);
    gpur_device_close(device);
}

/* test_replay_model.c saves and loads the groups. */
TEST(wrong_groups_are_recognized)
{
    static const struct {
        int64_t oldest, first; /* of group 3, added */
    } wrong[] = {{-1000, 0}, {-21, 0}, {10, 0}, {1000, 0}, {0, -1000}, {0, -20}, {0, 17}, {0, 1000}};
    const gpur_frame_layout layout = {.stack = 1, .frames_per_row = 2, .group_rows = 8, .frames = 300, .reach = 20};
    gpur_device *const device = test_device();
    gpur_frame_index index = {0};
    gpur_frame_group groups[32];
    const int64_t first = 61, rows = 205;
    CHECK_OK(gpur_frame_index_build(&index, device, &layout, 150));
    for (int64_t id = 0; id < rows; id++, index.head++) /* each with a frame and a link to the one before */
        gpur_frame_index_record(&index, index.head, id > 0 ? index.head - 1 : 0);
    CHECK_EQUAL(gpur_frame_index_count(&index, first, rows), 19);
    gpur_frame_index_get(&index, first, groups);
    CHECK(gpur_frame_index_is_valid(&index, first, rows, index.head, groups));
    /* The last rows never had so many frames. */
    CHECK(!gpur_frame_index_is_valid(&index, first, rows, index.head + 1000, groups));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gpur_frame_group bad[32];
        memcpy(bad, groups, sizeof bad);
        bad[3].oldest += wrong[i].oldest, bad[3].first += wrong[i].first;
        TEST_REQUIRE(!gpur_frame_index_is_valid(&index, first, rows, index.head, bad), "case %d is valid", (int)i);
    }
    gpur_frame_index_destroy(&index);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_rows_that_may_stay_are_those_behind_the_last_group_that_lost_a_frame);
    RUN(wrong_groups_are_recognized);
    return test_main_end();
}
