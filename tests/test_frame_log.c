/* SPDX-License-Identifier: MIT */
/* Which rows must leave for frames: the log of groups beside a walk through all rows. */
#include "replay/frame_log.h"
#include "replay_kit.h"
#include "test.h"

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
    gpur_frame_log log = {0};
    const gpur_linking linking = {.stack = 1,
                                  .group_rows = 1 + kit_below(&random, 32),
                                  .frames = 200 + kit_below(&random, 200),
                                  .reach = 1 + kit_below(&random, 100)};
    const int64_t per_row = 1 + kit_below(&random, 4), window = linking.frames / per_row;
    CHECK_OK(gpur_frame_log_build(&log, device, &linking, ROWS / 2));
    for (int64_t id = 0; id < ROWS; id++) {
        const int64_t reach = linking.reach < log.head ? linking.reach : log.head;
        rows[id].head = log.head;
        rows[id].oldest = log.head - kit_below(&random, reach + 1);
        gpur_frame_log_note(&log, rows[id].head, rows[id].oldest);
        log.head += kit_below(&random, per_row + 1);
        const int64_t first = id > window ? id - kit_below(&random, window) : kit_below(&random, id + 1);
        const int64_t head = log.head - kit_below(&random, 5);
        CHECK_EQUAL(gpur_frame_log_keep(&log, first, head),
                    keep(rows, id + 1, first, head - linking.frames, linking.group_rows));
    }
    gpur_frame_log_destroy(&log);
}

TEST(the_rows_that_may_stay_are_those_behind_the_last_group_that_lost_a_frame)
{
    gpur_device *const device = test_device();
    for (uint64_t seed = 0; seed < ROUNDS; seed++)
        play_log(seed, device);
    gpur_device_close(device);
}

TEST(a_packed_replay_loses_no_row_for_frames)
{
    gpur_frame_log log = {0};
    const gpur_linking packed = {0};
    CHECK_OK(gpur_frame_log_build(&log, NULL, &packed, 100));
    CHECK_EQUAL(gpur_frame_log_keep(&log, 7, 1000000), 7);
    gpur_frame_log_destroy(&log);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_rows_that_may_stay_are_those_behind_the_last_group_that_lost_a_frame);
    RUN(a_packed_replay_loses_no_row_for_frames);
    return test_main_end();
}
