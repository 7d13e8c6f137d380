/* SPDX-License-Identifier: MIT */
/* Transitions of more fields than one gather or scatter copies, up to the most there may be, with the longest names. */
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>
#include <unistd.h>

enum { CAPACITY = 500, BLOCK = 32, BATCH = 64, ROWS = 700 };

typedef struct schema {
    char names[GPUR_MAX_FIELDS][GPUR_MAX_NAME];
    gpur_field fields[GPUR_MAX_FIELDS];
} schema;

/* A tag, what the library itself reads, and others of all types and many sizes, whose names have 63 characters. */
static void make_schema(schema *s, int32_t count)
{
    static const gpur_field first[] = {{"tag", GPUR_INT64, {0}}, {"terminated", GPUR_BOOL, {0}}};
    for (int32_t f = 0; f < count; f++) {
        gpur_field *const field = &s->fields[f];
        memset(field, 0, sizeof *field);
        snprintf(s->names[f], sizeof s->names[f], "next_obs.%054d", (int)f);
        field->name = s->names[f];
        field->dtype = GPUR_FLOAT32 + f % 6;
        field->shape[0] = f % 5;
        if (f < 2)
            *field = first[f];
    }
}

static const int32_t counts[] = {16, 17, 18, 34, 35, 52, GPUR_MAX_FIELDS};
enum { COUNTS = sizeof counts / sizeof *counts };

static gpur_replay_config config_of(schema *s, int32_t count)
{
    make_schema(s, count);
    return kit_config(s->fields, count, CAPACITY, BLOCK, BATCH);
}

static void append_arrays(kit_scene *s, int64_t count)
{
    void *arrays[GPUR_MAX_FIELDS];
    kit_arrays(&s->kit, s->next, count, arrays);
    CHECK_OK(gpur_writer_append_fields(s->writer, count, (const void *const *)arrays, NULL, NULL));
    CHECK_OK(gpur_writer_flush(s->writer));
    for (int32_t f = 0; f < s->kit.count; f++)
        free(arrays[f]);
    s->next += count;
}

static void check_draw(kit_scene *s)
{
    gpur_batch *batch = NULL;
    CHECK_OK(gpur_replay_sample(s->replay, BATCH, NULL, &batch));
    CHECK_EQUAL(kit_wrong_bytes(&s->kit, batch, NULL), 0);
    gpur_batch_release(batch);
}

static void check_all_ways(const gpur_replay_config *config)
{
    kit_scene s;
    CHECK(kit_open(&s, test_device(), config, 1));
    CHECK_EQUAL(s.kit.count, config->field_count);
    CHECK_OK(kit_append_next(&s, 70)); /* packed rows */
    check_draw(&s);
    while (s.next < ROWS) {
        append_arrays(&s, 60);
        check_draw(&s);
    }
    CHECK_OK(kit_gather(&s, 5, (const int64_t[]){ROWS - 1, ROWS - 2, ROWS - 100, ROWS - 1, ROWS - 400}));
    kit_close(&s);
}

TEST(every_field_comes_back_however_many_there_are)
{
    static const int32_t sources[] = {GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT};
    schema *const s = malloc(sizeof *s);
    for (int32_t i = 0; i < COUNTS; i++)
        for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++)
            for (int32_t source = 0; source < 2; source++) {
                gpur_replay_config config = config_of(s, counts[i]);
                config.feed = feed;
                config.index_source = sources[source];
                check_all_ways(&config);
            }
    free(s);
}

/* Rows are then put together before they go past the caches, which only one scatter of all fields may do. */
TEST(a_ring_beyond_the_caches_gets_every_field)
{
    schema *const s = malloc(sizeof *s);
    for (int32_t i = 0; i < COUNTS; i++) {
        gpur_replay_config config = config_of(s, counts[i]);
        config.feed = GPUR_FEED_SCATTER;
        config.capacity = (9 << 20) / 128;
        check_all_ways(&config);
    }
    free(s);
}

TEST(a_clipped_reward_and_a_discount_of_its_own_are_among_many_fields)
{
    enum { FIELDS = 40, COUNT = 50 };
    schema *const s = malloc(sizeof *s);
    for (int32_t feed = GPUR_FEED_COPY; feed <= GPUR_FEED_SCATTER; feed++) {
        gpur_replay_config config = config_of(s, FIELDS);
        gpur_batch *batch = NULL;
        float rewards[COUNT], discounts[COUNT], got[COUNT];
        void *arrays[GPUR_MAX_FIELDS];
        int64_t ids[COUNT];
        kit_scene scene;
        s->fields[37] = (gpur_field){"reward", GPUR_FLOAT32, {0}};
        s->fields[38] = (gpur_field){"discount", GPUR_FLOAT32, {0}};
        config.feed = feed;
        config.reward_clip = 1.0f;
        CHECK(kit_open(&scene, test_device(), &config, 1));
        kit_arrays(&scene.kit, 0, COUNT, arrays);
        for (int i = 0; i < COUNT; i++)
            rewards[i] = 0.25f * (float)(i - COUNT / 2), discounts[i] = (float)i, ids[i] = i;
        memcpy(arrays[37], rewards, sizeof rewards);
        memcpy(arrays[38], discounts, sizeof discounts);
        CHECK_OK(gpur_writer_append_fields(scene.writer, COUNT, (const void *const *)arrays, NULL, NULL));
        CHECK_OK(gpur_replay_gather(scene.replay, COUNT, ids, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "reward", got, sizeof got));
        for (int i = 0; i < COUNT; i++)
            CHECK(got[i] == (rewards[i] > 1.0f ? 1.0f : rewards[i] < -1.0f ? -1.0f : rewards[i]));
        CHECK_OK(gpur_batch_read(batch, "discount", got, sizeof got));
        CHECK(memcmp(got, discounts, sizeof got) == 0);
        gpur_batch_release(batch);
        for (int32_t f = 0; f < scene.kit.count; f++)
            free(arrays[f]);
        kit_close(&scene);
    }
    free(s);
}

TEST(priorities_draw_from_rows_of_many_fields)
{
    schema *const s = malloc(sizeof *s);
    gpur_replay_config config = config_of(s, GPUR_MAX_FIELDS);
    gpur_batch *batch = NULL;
    int64_t ids[BATCH], tags[BATCH];
    kit_scene scene;
    config.prioritized = 1;
    config.index_source = GPUR_PRIORITIZED;
    CHECK(kit_open(&scene, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&scene, ROWS));
    CHECK_OK(gpur_replay_sample(scene.replay, BATCH, NULL, &batch));
    CHECK_OK(gpur_batch_read(batch, "id", ids, sizeof ids));
    CHECK_OK(gpur_batch_read(batch, "tag", tags, sizeof tags));
    CHECK(memcmp(ids, tags, sizeof ids) == 0);
    CHECK_EQUAL(kit_wrong_bytes(&scene.kit, batch, NULL), 0);
    gpur_batch_release(batch);
    kit_close(&scene);
    free(s);
}

TEST(a_file_holds_as_many_fields_and_names_as_long)
{
#ifdef GPUR_HAS_FILES
    schema *const s = malloc(sizeof *s);
    const gpur_replay_config config = config_of(s, GPUR_MAX_FIELDS);
    char path[64];
    kit_scene from, to;
    snprintf(path, sizeof path, "wide_rows.%ld.gpur", (long)getpid());
    CHECK(kit_open(&from, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&from, ROWS));
    CHECK_OK(gpur_replay_save(from.replay, path, NULL));
    kit_close(&from);
    CHECK(kit_open(&to, test_device(), &config, 1));
    CHECK_OK(gpur_replay_load(to.replay, path, NULL));
    check_draw(&to);
    kit_close(&to);
    unlink(path);
    free(s);
#endif
}

typedef struct appender {
    kit_scene *scene;
    atomic_int stop;
    gpur_status status;
} appender;

static void *append_until_stopped(void *context)
{
    appender *const a = context;
    while (!atomic_load(&a->stop) && a->status == GPUR_OK)
        a->status = kit_append_next(a->scene, BLOCK);
    return NULL;
}

/* The launches of one draw all see the rows that the first one drew. */
TEST(rows_that_others_append_meanwhile_do_not_tear_a_batch)
{
    enum { DRAWS = 300 };
    schema *const s = malloc(sizeof *s);
    gpur_replay_config config = config_of(s, 40);
    pthread_t thread;
    kit_scene scene;
    appender a = {.scene = &scene};
    config.capacity = BATCH + 2 * BLOCK;
    CHECK(kit_open(&scene, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&scene, config.capacity));
    CHECK(pthread_create(&thread, NULL, append_until_stopped, &a) == 0);
    int64_t wrong = 0;
    for (int i = 0; i < DRAWS; i++) {
        gpur_batch *batch = NULL;
        if (gpur_replay_sample(scene.replay, BATCH, NULL, &batch) != GPUR_OK)
            wrong++;
        else
            wrong += kit_wrong_bytes(&scene.kit, batch, NULL);
        gpur_batch_release(batch);
    }
    atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    CHECK_OK(a.status);
    CHECK_EQUAL(wrong, 0);
    kit_close(&scene);
    free(s);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_field_comes_back_however_many_there_are);
    RUN(a_ring_beyond_the_caches_gets_every_field);
    RUN(a_clipped_reward_and_a_discount_of_its_own_are_among_many_fields);
    RUN(priorities_draw_from_rows_of_many_fields);
    RUN(rows_that_others_append_meanwhile_do_not_tear_a_batch);
    RUN(a_file_holds_as_many_fields_and_names_as_long);
    return test_main_end();
}
