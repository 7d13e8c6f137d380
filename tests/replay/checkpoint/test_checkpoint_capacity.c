/* SPDX-License-Identifier: MIT */
/* A file into a packed replay of another capacity: rows, ids and priorities come along where there is room. */
#include "support/file_kit.h"
#include "support/replay_kit.h"
#include "test.h"

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_capacity: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

enum { BLOCK = 8, BATCH = 16, MOST = 300 };

static gpur_replay_config config_of(int64_t capacity, int prioritized)
{
    static const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {3}}, {"terminated", GPUR_BOOL, {0}}, {"priority", GPUR_FLOAT32, {0}}};
    gpur_replay_config config = kit_config(fields, 3, capacity, BLOCK, BATCH);
    config.prioritized = prioritized;
    if (prioritized)
        config.index_source = GPUR_PRIORITIZED;
    return config;
}

static int64_t first_id(kit_scene *s)
{
    gpur_replay_stats stats = {.size = sizeof stats};
    return gpur_replay_get_stats(s->replay, &stats) == GPUR_OK ? stats.first_id : -1;
}

static void get_priorities(kit_scene *s, int64_t first, int64_t count, float *priorities)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t id = first + i;
        CHECK_OK(gpur_replay_get_priorities(s->replay, 1, &id, &priorities[i]));
    }
}

/* All rows that are there, one by one. */
static void check_rows(kit_scene *s, int64_t first, int64_t count)
{
    CHECK_EQUAL(gpur_replay_size(s->replay), count);
    CHECK_EQUAL(first_id(s), first);
    for (int64_t id = first; id < first + count; id++)
        CHECK_OK(kit_gather(s, 1, &id));
}

/* `rows` appended to a replay of capacity `from`, saved, and loaded into one of capacity `to` that held `held`. */
static void move(int64_t from, int64_t to, int64_t rows, int64_t held, int prioritized)
{
    const gpur_replay_config theirs = config_of(from, prioritized), ours = config_of(to, prioritized);
    const char *const path = scene_path("capacity");
    const int64_t count = rows < from ? rows : from, first = rows - count;
    float before[MOST], after[MOST];
    kit_scene a, b;
    CHECK(kit_open(&a, test_device(), &theirs, 1));
    CHECK_OK(kit_append_next(&a, rows));
    if (prioritized)
        get_priorities(&a, first, count, before);
    CHECK_OK(gpur_replay_save(a.replay, path, NULL));
    kit_close(&a);
    CHECK(kit_open(&b, test_device(), &ours, 1));
    CHECK_OK(kit_append_next(&b, held));
    CHECK_OK(gpur_replay_load(b.replay, path, NULL));
    b.next = rows;
    check_rows(&b, first, count);
    if (prioritized) {
        int64_t wrong = -1;
        get_priorities(&b, first, count, after);
        CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
        CHECK_OK(gpur_replay_check_priorities(b.replay, &wrong));
        CHECK_EQUAL(wrong, 0);
    }
    CHECK_OK(kit_append_next(&b, to + 5)); /* once round its own ring, and on */
    check_rows(&b, rows + 5, to);
    kit_close(&b);
}

TEST(rows_come_into_a_larger_and_a_smaller_ring)
{
    for (int prioritized = 0; prioritized < 2; prioritized++)
        for (int64_t held = 0; held <= 70; held += 70) {
            move(100, 257, 60, held, prioritized);
            move(100, 257, 230, held, prioritized); /* its ring had gone round */
            move(257, 100, 60, held, prioritized);
            move(257, 100, 100, held, prioritized); /* just room */
            move(64, 65, 640, held, prioritized);
        }
    scene_remove_folder();
}

TEST(rows_that_have_no_room_are_refused_and_nothing_changes)
{
    const gpur_replay_config theirs = config_of(257, 0), ours = config_of(100, 0);
    const char *const path = scene_path("large");
    kit_scene a, b;
    CHECK(kit_open(&a, test_device(), &theirs, 1));
    CHECK_OK(kit_append_next(&a, 101));
    CHECK_OK(gpur_replay_save(a.replay, path, NULL));
    kit_close(&a);
    CHECK(kit_open(&b, test_device(), &ours, 1));
    CHECK_OK(kit_append_next(&b, 30));
    CHECK_STATUS(gpur_replay_load(b.replay, path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("the file has 101 transitions; this replay's capacity is 100");
    check_rows(&b, 0, 30);
    kit_close(&b);
    scene_remove_folder();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(rows_come_into_a_larger_and_a_smaller_ring);
    RUN(rows_that_have_no_room_are_refused_and_nothing_changes);
    return test_main_end();
}

#endif
