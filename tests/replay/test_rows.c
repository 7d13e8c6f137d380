/* SPDX-License-Identifier: MIT */
/* Rows of every schema come back as they were appended: of more fields than one gather or scatter copies, up to the
 * most there may be, with the longest names; of kilobytes, which a CPU copies line by line; in rings and batches that
 * no cache holds. Each byte follows from the row's id. */
#include "support/file_utils.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { CAPACITY = 500, BLOCK = 32, MAX_BATCH = 60, ROWS = 700 };

/* Of kilobytes; of a few that are gathered at a time; without a long field; of a long field that reaches the row's end;
 * with padding at its end. */
static const gpur_field frames[] = {{"obs", GPUR_UINT8, {5001}},
                                    {"action", GPUR_INT32, {0}},
                                    {"next_obs", GPUR_UINT8, {4999}},
                                    {"terminated", GPUR_BOOL, {0}}};
static const gpur_field thirds[] = {
    {"terminated", GPUR_BOOL, {0}}, {"a", GPUR_UINT8, {512}}, {"b", GPUR_FLOAT32, {5}}, {"c", GPUR_UINT8, {611}}};
static const gpur_field pieces[] = {
    {"a", GPUR_INT64, {50}}, {"b", GPUR_UINT8, {511}}, {"c", GPUR_FLOAT32, {99}}, {"discount", GPUR_FLOAT32, {0}}};
static const gpur_field single[] = {{"a", GPUR_UINT8, {64 * 33}}};
static const gpur_field padded[] = {{"obs", GPUR_FLOAT32, {4}},      {"action", GPUR_FLOAT32, {1}},
                                    {"reward", GPUR_FLOAT32, {0}},   {"next_obs", GPUR_FLOAT32, {4}},
                                    {"terminated", GPUR_UINT8, {0}}, {"truncated", GPUR_UINT8, {0}},
                                    {"image", GPUR_UINT8, {600}}};

typedef struct schema {
    int32_t count;
    gpur_field fields[GPUR_MAX_FIELDS];
    char names[GPUR_MAX_FIELDS][GPUR_MAX_NAME];
} schema;

/* A tag, what the library itself reads, and others of all types and many sizes, whose names have 63 characters. */
static void make_wide(schema *s, int32_t count)
{
    s->count = count;
    for (int32_t f = 0; f < count; f++) {
        snprintf(s->names[f], sizeof s->names[f], "next_obs.%054d", (int)f);
        s->fields[f] = (gpur_field){s->names[f], GPUR_FLOAT32 + f % 6, {f % 5}};
    }
    s->fields[0] = (gpur_field){"tag", GPUR_INT64, {0}};
    s->fields[1] = (gpur_field){"terminated", GPUR_BOOL, {0}};
}

static const int32_t wide[] = {16, 17, 18, 34, 35, 52, GPUR_MAX_FIELDS};
static const struct {
    const gpur_field *fields;
    int32_t count;
} large[] = {{frames, 4}, {thirds, 4}, {pieces, 4}, {single, 1}, {padded, 7}};
enum { WIDE = sizeof wide / sizeof *wide, SCHEMAS = WIDE + sizeof large / sizeof *large };

static void make_schema(schema *s, int number)
{
    if (number < WIDE) {
        make_wide(s, wide[number]);
        return;
    }
    s->count = large[number - WIDE].count;
    memcpy(s->fields, large[number - WIDE].fields, (size_t)s->count * sizeof *s->fields);
}

/* The oldest row, the newest, those on either side of the ring's end, and one of them twice. */
static void check_ids(replay_fixture *s, int64_t capacity)
{
    const int64_t oldest = s->next > capacity ? s->next - capacity : 0, seam = (s->next - 1) / capacity * capacity;
    const int64_t ids[] = {oldest, s->next - 1, seam > oldest ? seam - 1 : seam, seam, seam};
    for (int64_t count = 1; count <= 5; count++)
        CHECK_OK(replay_fixture_gather(s, count, ids));
}

/* Appends rows and arrays in turn, in pieces of these counts, and samples batches of all sizes between. */
static void check_schema(const gpur_replay_config *config, const int64_t counts[4], int64_t rows)
{
    const int64_t batches[] = {config->max_batch, 1, 2, 3, 31 < config->max_batch ? 31 : 1};
    int64_t ids[ROWS];
    replay_fixture s;
    CHECK(replay_fixture_open(&s, test_device(), config, 1));
    CHECK_EQUAL(s.row_tags.count, config->field_count);
    for (int i = 0; s.next < rows; i++) {
        CHECK_OK((i % 2 ? replay_fixture_append_fields : replay_fixture_append)(&s, counts[i % 4]));
        if (i % 3 == 0)
            CHECK_OK(gpur_writer_flush(s.writer));
        const int64_t size = gpur_replay_size(s.replay), batch = batches[i % 5];
        CHECK_OK(replay_fixture_sample(&s, batch < size ? batch : size, ids));
        check_ids(&s, config->capacity);
    }
    CHECK_OK(replay_fixture_sample(&s, config->max_batch, ids));
    replay_fixture_close(&s);
}

TEST(every_field_comes_back_whatever_the_schema)
{
    static const int32_t sources[] = {GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT, GPUR_PRIORITIZED_STRATIFIED};
    static const int64_t counts[] = {70, 60, 1, 150};
    static schema s;
    for (int i = 0; i < SCHEMAS * 6; i += IN_RACE_CHECK ? 5 : 1) {
        const int failures = atomic_load(&test_state.failures);
        make_schema(&s, i / 6);
        gpur_replay_config config =
            replay_fixture_config(s.fields, s.count, s.count > 7 ? CAPACITY : 120, BLOCK, MAX_BATCH);
        config.upload = i % 2 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        config.index_source = sources[i / 2 % 3];
        config.prioritized = config.index_source == GPUR_PRIORITIZED_STRATIFIED;
        check_schema(&config, counts, s.count > 7 ? ROWS : 300);
        TEST_REQUIRE(atomic_load(&test_state.failures) == failures, "schema %d, upload %d, source %d", i / 6, i % 2,
                     i / 2 % 3);
    }
}

/* More than the limit for ring copies through the caches: rows are put together before they go past the caches, which
 * only one scatter of all fields may do; and 40,000 rows of 256 bytes in whole staging blocks, which need no staging
 * with the inline executor, and in parts of blocks, with the ring's end within a block. */
TEST(a_ring_beyond_the_caches_gets_every_field)
{
    static const int64_t counts[] = {70, 60, 1, 150}, blocks[] = {1400, 2100, 1, 699};
    static const gpur_field fields[] = {{"flag", GPUR_UINT8, {0}}, {"y", GPUR_INT64, {0}}, {"x", GPUR_UINT8, {235}}};
    static schema s;
    for (int i = 0; i < WIDE; i++) {
        make_schema(&s, i);
        gpur_replay_config config = replay_fixture_config(s.fields, s.count, (9 << 20) / 128, BLOCK, MAX_BATCH);
        config.upload = GPUR_UPLOAD_SCATTER;
        check_schema(&config, counts, ROWS);
    }
    const gpur_replay_config config = replay_fixture_config(fields, 3, 40000, 700, MAX_BATCH);
    check_schema(&config, blocks, 157500);
}

TEST(a_batch_that_no_cache_holds_has_every_field)
{
    static const int64_t counts[] = {BLOCK, 3 * BLOCK, 1, 99};
    const gpur_replay_config config = replay_fixture_config(frames, 4, ROWS + 2 * BLOCK, BLOCK, ROWS);
    check_schema(&config, counts, ROWS);
}

TEST(a_clipped_reward_and_a_discount_of_its_own_are_among_many_fields)
{
    enum { FIELDS = 40, COUNT = 50 };
    static schema wide_schema;
    for (int32_t upload = GPUR_UPLOAD_COPY; upload <= GPUR_UPLOAD_SCATTER; upload++) {
        float got[COUNT];
        void *arrays[GPUR_MAX_FIELDS];
        int64_t ids[COUNT];
        gpur_batch *batch = NULL;
        replay_fixture s;
        make_wide(&wide_schema, FIELDS);
        wide_schema.fields[37] = (gpur_field){"reward", GPUR_FLOAT32, {0}};
        wide_schema.fields[38] = (gpur_field){"discount", GPUR_FLOAT32, {0}};
        gpur_replay_config config = replay_fixture_config(wide_schema.fields, FIELDS, CAPACITY, BLOCK, MAX_BATCH);
        config.upload = upload, config.reward_clip = 1.0f;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        tagged_arrays(&s.row_tags, 0, COUNT, arrays);
        const uint8_t *const terminated = arrays[1];
        float *const rewards = arrays[37], *const discounts = arrays[38];
        for (int i = 0; i < COUNT; i++)
            rewards[i] = 0.25f * (float)(i - COUNT / 2), discounts[i] = terminated[i] ? 0 : (float)i, ids[i] = i;
        CHECK_OK(gpur_writer_append_fields(s.writer, COUNT, (const void *const *)arrays, NULL, NULL));
        CHECK_OK(gpur_replay_gather(s.replay, COUNT, ids, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "reward", got, sizeof got));
        for (int i = 0; i < COUNT; i++)
            CHECK(got[i] == fmaxf(-1.0f, fminf(1.0f, rewards[i])));
        CHECK_OK(gpur_batch_read(batch, "discount", got, sizeof got));
        CHECK(memcmp(got, discounts, sizeof got) == 0);
        gpur_batch_release(batch);
        for (int32_t f = 0; f < FIELDS; f++)
            free(arrays[f]);
        replay_fixture_close(&s);
    }
}

TEST(a_file_holds_as_many_fields_and_names_as_long)
{
#ifdef GPUR_HAS_FILES
    static schema s;
    int64_t ids[MAX_BATCH];
    replay_fixture from, to;
    make_wide(&s, GPUR_MAX_FIELDS);
    const gpur_replay_config config = replay_fixture_config(s.fields, s.count, CAPACITY, BLOCK, MAX_BATCH);
    CHECK(replay_fixture_open(&from, test_device(), &config, 1));
    CHECK_OK(replay_fixture_append(&from, ROWS));
    CHECK_OK(gpur_replay_save(from.replay, test_file_path("rows"), NULL));
    replay_fixture_close(&from);
    CHECK(replay_fixture_open(&to, test_device(), &config, 1));
    CHECK_OK(gpur_replay_load(to.replay, test_file_path("rows"), NULL));
    CHECK_OK(replay_fixture_sample(&to, MAX_BATCH, ids));
    replay_fixture_close(&to);
    test_remove_folder();
#endif
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_field_comes_back_whatever_the_schema);
    RUN(a_ring_beyond_the_caches_gets_every_field);
    RUN(a_batch_that_no_cache_holds_has_every_field);
    RUN(a_clipped_reward_and_a_discount_of_its_own_are_among_many_fields);
    RUN(a_file_holds_as_many_fields_and_names_as_long);
    return test_main_end();
}
