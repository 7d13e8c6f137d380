/* SPDX-License-Identifier: MIT */
/* Rows of kilobytes: copied line by line on a CPU, while the row behind is asked for. Each byte follows from the id. */
#include "kernels/cpu/copy_prefetch.h"
#include "support/replay_kit.h"
#include "test.h"

enum { ROOM = 512, MARGIN = 64, CAPACITY = 90, BLOCK = 20, MOST = 60, APPENDED = 130 };
enum { MANY = 700 }; /* of which a batch is too large for the caches */

typedef void (*copy_fn)(unsigned char *to, const unsigned char *from, const unsigned char *next, int64_t bytes);

static void check_copies(copy_fn copy)
{
    static unsigned char from[ROOM], to[ROOM], want[ROOM];
    uint64_t random = 1;
    for (int i = 0; i < ROOM; i++)
        from[i] = (unsigned char)kit_random(&random);
    for (int64_t bytes = 0; bytes <= ROOM - 2 * MARGIN; bytes++) {
        const int64_t shift = bytes % 7, to_shift = bytes % 11; /* of any alignment */
        memset(to, 0xAA, sizeof to);
        memset(want, 0xAA, sizeof want);
        memcpy(want + MARGIN / 2 + to_shift, from + shift, (size_t)bytes);
        copy(to + MARGIN / 2 + to_shift, from + shift, from, bytes);
        gpur_past_fence();
        CHECK(memcmp(to, want, sizeof to) == 0);
    }
}

TEST(a_value_is_copied_whole_and_nothing_beside_it)
{
    check_copies(gpur_copy_ahead);
    check_copies(gpur_copy_ahead_past);
}

/* Of kilobytes; of a few that are drawn at a time; without a long field; of a long field that reaches the row's end. */
static const gpur_field frames[] = {{"obs", GPUR_UINT8, {5001}},
                                    {"action", GPUR_INT32, {0}},
                                    {"next_obs", GPUR_UINT8, {4999}},
                                    {"terminated", GPUR_BOOL, {0}}};
static const gpur_field thirds[] = {
    {"terminated", GPUR_BOOL, {0}}, {"a", GPUR_UINT8, {512}}, {"b", GPUR_FLOAT32, {5}}, {"c", GPUR_UINT8, {611}}};
static const gpur_field pieces[] = {
    {"a", GPUR_INT64, {50}}, {"b", GPUR_UINT8, {511}}, {"c", GPUR_FLOAT32, {99}}, {"discount", GPUR_FLOAT32, {0}}};
static const gpur_field single[] = {{"a", GPUR_UINT8, {64 * 33}}};
static const struct {
    const gpur_field *fields;
    int32_t count;
} schemas[] = {{frames, 4}, {thirds, 4}, {pieces, 4}, {single, 1}};

static void check_draws(kit_scene *s)
{
    static const int64_t counts[] = {1, 2, 3, 31, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_replay_sample(s->replay, counts[i], NULL, &batch));
        CHECK_EQUAL(kit_wrong_bytes(&s->kit, batch, NULL), 0);
        gpur_batch_release(batch);
    }
}

/* The oldest row, the newest, those on either side of the ring's end, and one of them twice. */
static void check_ids(kit_scene *s)
{
    static const int64_t ids[] = {APPENDED - CAPACITY, APPENDED - 1, CAPACITY - 1, CAPACITY, CAPACITY};
    for (int64_t count = 1; count <= 5; count++)
        CHECK_OK(kit_gather(s, count, ids));
}

static void check_schema(const gpur_field *fields, int32_t field_count, int32_t source)
{
    gpur_replay_config config = kit_config(fields, field_count, CAPACITY, BLOCK, MOST);
    kit_scene s;
    config.index_source = source;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, APPENDED));
    check_draws(&s);
    check_ids(&s);
    kit_close(&s);
}

TEST(a_batch_of_large_rows_holds_the_rows_of_its_ids)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        check_schema(schemas[i].fields, schemas[i].count, GPUR_UNIFORM);
        check_schema(schemas[i].fields, schemas[i].count, GPUR_UNIFORM_DISTINCT);
    }
}

/* Past the caches. */
TEST(a_batch_that_no_cache_holds_does_too)
{
    gpur_replay_config config = kit_config(frames, 4, MANY + 2 * BLOCK, BLOCK, MANY);
    gpur_batch *batch = NULL;
    kit_scene s;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&s, MANY));
    CHECK_OK(gpur_replay_sample(s.replay, MANY, NULL, &batch));
    CHECK_EQUAL(kit_wrong_bytes(&s.kit, batch, NULL), 0);
    gpur_batch_release(batch);
    kit_close(&s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_value_is_copied_whole_and_nothing_beside_it);
    RUN(a_batch_of_large_rows_holds_the_rows_of_its_ids);
    RUN(a_batch_that_no_cache_holds_does_too);
    return test_main_end();
}
