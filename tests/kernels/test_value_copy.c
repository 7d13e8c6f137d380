/* SPDX-License-Identifier: MIT */
/* Copying values of every size on one CPU thread, and gpur_writer_append_fields, which uses it. */
#include "kernels/cpu/copy_value.h"
#include "replay/replay.h"
#include "support/replay_kit.h"
#include "test.h"

enum { ROOM = 2048, MARGIN = 64 };

static void fill(unsigned char *bytes, size_t count, uint64_t random)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)kit_random(&random);
}

TEST(a_value_of_any_size_is_moved_whole_and_nothing_beside_it)
{
    static unsigned char from[ROOM], to[ROOM], want[ROOM];
    fill(from, sizeof from, 1);
    for (int64_t bytes = 1; bytes <= ROOM - 2 * MARGIN; bytes++) {
        const int64_t shift = bytes % 7; /* of any alignment */
        fill(to, sizeof to, 2);
        memcpy(want, to, sizeof to);
        gpur_move_value(to + MARGIN, from + shift, bytes);
        memcpy(want + MARGIN, from + shift, (size_t)bytes);
        CHECK(memcmp(to, want, sizeof to) == 0);
    }
}

TEST(a_column_of_any_size_is_moved_at_the_pitches_of_both_sides)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 17, 31, 32, 44, 100};
    enum { ROWS = 5, TO_PITCH = 128, FROM_PITCH = 103 };
    static unsigned char from[ROWS * FROM_PITCH], to[ROWS * TO_PITCH], want[ROWS * TO_PITCH];
    fill(from, sizeof from, 3);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const gpur_column column = {to, from, TO_PITCH, FROM_PITCH, sizes[s]};
        fill(to, sizeof to, 4);
        memcpy(want, to, sizeof to);
        gpur_move_column(&column, ROWS);
        for (int i = 0; i < ROWS; i++)
            memcpy(want + i * TO_PITCH, from + i * FROM_PITCH, (size_t)sizes[s]);
        CHECK(memcmp(to, want, sizeof to) == 0);
    }
}

static const gpur_field fields[] = {{"obs", GPUR_FLOAT32, {4}},      {"action", GPUR_FLOAT32, {1}},
                                    {"reward", GPUR_FLOAT32, {0}},   {"next_obs", GPUR_FLOAT32, {4}},
                                    {"terminated", GPUR_UINT8, {0}}, {"truncated", GPUR_UINT8, {0}},
                                    {"image", GPUR_UINT8, {600}}};

enum { CAPACITY = 700, EACH = 150, CALLS = 7, PITCH = 704 };

/* Each call appends more rows than a tile has, and blocks end within a tile. */
static gpur_status fill_ring(int32_t feed, int by_fields, unsigned char *ring)
{
    gpur_replay_config config = kit_config(fields, 7, CAPACITY, 170, 8);
    kit_scene s;
    config.feed = feed;
    if (!kit_open(&s, test_device(), &config, 1))
        return -100;
    const kit k = kit_of(s.replay, config.gamma);
    gpur_status status = GPUR_OK;
    for (int64_t i = 0; i < CALLS && status == GPUR_OK; i++) {
        void *arrays[GPUR_MAX_FIELDS];
        kit_arrays(&k, EACH * i, EACH, arrays);
        status = by_fields ? gpur_writer_append_fields(s.writer, EACH, (const void *const *)arrays, NULL, NULL)
                           : kit_append(&k, s.writer, EACH * i, EACH);
        for (int32_t f = 0; f < k.count; f++)
            free(arrays[f]);
    }
    if (status == GPUR_OK)
        status = gpur_writer_flush(s.writer);
    if (status == GPUR_OK)
        status = gpur_device_copy(s.device, ring, s.replay->ring.rows, CAPACITY * PITCH);
    kit_close(&s);
    return status;
}

/* A row has 642 bytes, padded to 644; nothing reads the padding. */
TEST(many_rows_by_field_leave_the_ring_that_rows_leave)
{
    static unsigned char by_rows[CAPACITY * PITCH], by_fields[CAPACITY * PITCH];
    CHECK_OK(fill_ring(GPUR_FEED_COPY, 0, by_rows));
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
        CHECK_OK(fill_ring(feed, 1, by_fields));
        for (int64_t slot = 0; slot < CAPACITY; slot++)
            CHECK(memcmp(by_rows + slot * PITCH, by_fields + slot * PITCH, 642) == 0);
    }
    CHECK(memcmp(by_rows, by_rows + PITCH, 642) != 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_value_of_any_size_is_moved_whole_and_nothing_beside_it);
    RUN(a_column_of_any_size_is_moved_at_the_pitches_of_both_sides);
    RUN(many_rows_by_field_leave_the_ring_that_rows_leave);
    return test_main_end();
}
