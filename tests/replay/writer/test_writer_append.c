/* SPDX-License-Identifier: MIT */
/* Finished rows: what every kind of append stores, on every path to the ring; and what is refused. */
#include "replay/replay.h"
#include "support/episode_fixture.h"
#include "test.h"

enum { ROWS, FIELDS, AT_ONCE, CALLS }; /* gpur_writer_append, _append_fields, _try_append_fields */

/* Fields of bools inside a row, at an odd place and at its end; a row that is longer than a tile; bools that are a long
 * value by themselves; and many short rows, which need no staging if the next sample is to see them anyway. */
static const gpur_field mixed[] = {{"a", GPUR_INT32, {0}},         {"terminated", GPUR_BOOL, {0}},
                                   {"truncated", GPUR_UINT8, {0}}, {"mask", GPUR_BOOL, {37}},
                                   {"reward", GPUR_FLOAT32, {0}},  {"last", GPUR_BOOL, {0}}};
static const gpur_field long_row[] = {
    {"flag", GPUR_BOOL, {0}}, {"obs", GPUR_UINT8, {60001}}, {"reward", GPUR_FLOAT32, {0}}, {"n", GPUR_UINT8, {700}}};
static const gpur_field long_flags[] = {{"mask", GPUR_BOOL, {5000}}, {"reward", GPUR_FLOAT32, {0}}};
static const gpur_field short_row[] = {{"x", GPUR_FLOAT32, {50}}, {"reward", GPUR_FLOAT32, {0}}, {"n", GPUR_BOOL, {0}}};

typedef struct shape {
    const char *name;
    const gpur_field *fields;
    int32_t field_count;
    int64_t capacity, block, rows, part; /* `part` rows an append */
} shape;

static const shape shapes[] = {
    {"a few rows a block", mixed, 6, 100, 3, 14, 7},
    {"rows that have room in a block", mixed, 6, 100, 20, 14, 7},
    {"small appends", mixed, 6, 2000, 600, 600, 3},
    {"large appends", mixed, 6, 2000, 600, 600, 590},
    {"a ring larger than the caches", mixed, 6, 200000, 600, 600, 600},
    {"long rows, one by one", long_row, 4, 160, 8, 6, 1},
    {"long rows", long_row, 4, 160, 8, 20, 10},
    {"long flags", long_flags, 2, 2000, 4, 6, 2},
    {"short rows, one by one", short_row, 3, 50000, 500, 64, 1},
    {"short rows", short_row, 3, 50000, 500, 128, 64},
};

/* A field's random bytes, many of them 0, or rewards around the limit; and as they are stored. */
static void fill(const gpur_field_info *field, float limit, int64_t rows, unsigned char *given, unsigned char *stored)
{
    static const float rewards[] = {2.5f, -3, 0.25f, -0.5f, 1e30f, -INFINITY, NAN};
    const int is_flag = field->dtype == GPUR_BOOL || strcmp(field->name, "truncated") == 0;
    uint64_t random = (uint64_t)field->bytes;
    for (int64_t i = 0; i < rows * field->bytes; i++) {
        const uint64_t bits = xorshift_next(&random);
        given[i] = (bits >> 40) % 3 == 0 ? 0 : (unsigned char)(bits >> 32);
        stored[i] = is_flag ? given[i] != 0 : given[i];
    }
    for (int64_t i = 0; strcmp(field->name, "reward") == 0 && i < rows; i++) {
        const float reward = rewards[i % 7];
        const float clipped = limit == 0 ? reward : reward > limit ? limit : reward < -limit ? -limit : reward;
        memcpy(given + 4 * i, &reward, 4);
        memcpy(stored + 4 * i, &clipped, 4);
    }
}

static gpur_status append(replay_fixture *s, int by, int64_t first, int64_t count, unsigned char *const *columns)
{
    const row_tags *const k = &s->row_tags;
    const void *at[GPUR_MAX_FIELDS];
    gpur_status status = GPUR_WOULD_BLOCK;
    for (int32_t f = 0; f < k->count; f++)
        at[f] = columns[f] + first * k->fields[f].bytes;
    if (by == FIELDS)
        return gpur_writer_append_fields(s->writer, count, at, NULL, NULL);
    while (by == AT_ONCE && status == GPUR_WOULD_BLOCK)
        status = gpur_writer_try_append_fields(s->writer, count, at);
    if (by == AT_ONCE)
        return status;
    unsigned char *const rows = calloc((size_t)count, (size_t)k->row_bytes);
    for (int32_t f = 0; f < k->count; f++)
        for (int64_t i = 0; i < count; i++)
            memcpy(rows + i * k->row_bytes + k->fields[f].offset, (const unsigned char *)at[f] + i * k->fields[f].bytes,
                   (size_t)k->fields[f].bytes);
    status = gpur_writer_append(s->writer, count, rows, NULL);
    free(rows);
    return status;
}

static void check_field(replay_fixture *s, const gpur_field_info *field, int64_t rows, const unsigned char *stored)
{
    unsigned char *const got = malloc((size_t)(20 * field->bytes));
    for (int64_t done = 0, count; done < rows; done += count) {
        count = rows - done < 20 ? rows - done : 20;
        CHECK_OK(read_rows(s->replay, field->name, done, count, got, field->bytes));
        for (int64_t i = 0; i < count; i++) { /* any NaN will do */
            const unsigned char *const want = stored + (done + i) * field->bytes;
            float reward = 0;
            if (strcmp(field->name, "reward") == 0)
                memcpy(&reward, want, sizeof reward);
            CHECK(isnan(reward) ? isnan(*(const float *)(const void *)(got + 4 * i))
                                : memcmp(got + i * field->bytes, want, (size_t)field->bytes) == 0);
        }
    }
    free(got);
}

/* The number decides upload, flush, limit of rewards, and how far the arrays are off their types' alignment. */
static void check_append(const shape *t, int by, int number)
{
    gpur_replay_config config = replay_fixture_config(t->fields, t->field_count, t->capacity, t->block, 20);
    unsigned char *columns[GPUR_MAX_FIELDS], *given[GPUR_MAX_FIELDS], *stored[GPUR_MAX_FIELDS];
    const int before = atomic_load(&test_state.failures), slip = number % 4;
    replay_fixture s;
    config.upload = number & 1 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
    config.reward_clip = number & 2 ? 1.0f : 0.0f;
    config.flush = number & 4 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (int32_t f = 0; f < t->field_count; f++) {
        const gpur_field_info *const field = &s.row_tags.fields[f];
        given[f] = malloc((size_t)(t->rows * field->bytes + slip)),
        stored[f] = malloc((size_t)(t->rows * field->bytes));
        columns[f] = given[f] + slip;
        fill(field, config.reward_clip, t->rows, columns[f], stored[f]);
    }
    const int64_t straight = direct_rows(s.device, &s.replay->config, s.row_tags.row_bytes);
    for (int64_t done = 0, count; done < t->rows; done += count) {
        count = t->rows - done < t->part ? t->rows - done : t->part;
        CHECK_OK(append(&s, by, done, count, columns));
        if (straight > 0 && t->part >= straight && done == 0 && (by != ROWS || config.reward_clip == 0))
            CHECK_EQUAL(s.replay->ingest.staged, 0);
    }
    CHECK_OK(gpur_writer_flush(s.writer));
    CHECK_EQUAL(gpur_replay_size(s.replay), t->rows);
    for (int32_t f = 0; f < t->field_count; f++) {
        check_field(&s, &s.row_tags.fields[f], t->rows, stored[f]);
        free(given[f]);
        free(stored[f]);
    }
    replay_fixture_close(&s);
    if (atomic_load(&test_state.failures) > before)
        fprintf(stderr, "  %s, by call %d, number %d\n", t->name, by, number);
}

enum { STRIDE = IN_RACE_CHECK ? 3 : 1 }; /* 0, 3 and 6 have each setting's values */

TEST(every_append_stores_what_was_given_with_flags_of_0_and_1_and_rewards_in_their_limits)
{
    for (size_t t = 0; t < sizeof shapes / sizeof *shapes; t++)
        for (int by = 0; by < CALLS; by++)
            for (int number = 0; number < 8; number += STRIDE)
                check_append(&shapes[t], by, number);
}

TEST(bad_appends_are_refused_and_take_nothing)
{
    static const float numbers[32] = {1, 2, 3};
    static const gpur_field fields[] = {{"x", GPUR_FLOAT32, {3}}, {"reward", GPUR_FLOAT32, {0}}};
    const void *const good[] = {numbers, numbers}, *const lacks[] = {numbers, NULL};
    const struct {
        int by;
        int64_t count;
        const void *data;
        const char *message;
    } cases[] = {
        {ROWS, -1, numbers, "count is -1; it must be 0 or more"},
        {ROWS, 2, NULL, "rows is NULL; it must be 2 packed rows"},
        {FIELDS, -1, good, "count is -1; it must be 0 or more"},
        {FIELDS, 1, NULL, "fields is NULL; it must be 2 pointers"},
        {FIELDS, 1, lacks, "fields[1], \"reward\", is NULL"},
        {AT_ONCE, -1, good, "count is -1; it must be 0 or more"},
        {AT_ONCE, 1, NULL, "fields is NULL; it must be 2 pointers"},
        {AT_ONCE, 1, lacks, "fields[1], \"reward\", is NULL"},
        {AT_ONCE, 22, good, "at once it must be at most (staging_blocks - 1) x block_rows = 21; gpur_writer_append"},
        {AT_ONCE, INT64_MAX / 64, good, "at once it must be at most"},
        {AT_ONCE, INT64_MAX, good, "at once it must be at most"},
    };
    gpur_replay_config config = replay_fixture_config(fields, 2, 100, 7, 8);
    int64_t taken = 7;
    replay_fixture s;
    config.staging_blocks = 4, config.flush = GPUR_FLUSH_MANUAL;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gpur_status status =
            cases[i].by == ROWS     ? gpur_writer_append(s.writer, cases[i].count, cases[i].data, &taken)
            : cases[i].by == FIELDS ? gpur_writer_append_fields(s.writer, cases[i].count, cases[i].data, NULL, &taken)
                                    : gpur_writer_try_append_fields(s.writer, cases[i].count, cases[i].data);
        CHECK_FAILS(status, GPUR_INVALID_ARGUMENT, cases[i].message);
    }
    CHECK_EQUAL(taken, 0);
    CHECK_STATUS(gpur_writer_append(NULL, 1, numbers, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_append_fields(NULL, 1, good, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_try_append_fields(NULL, 1, good), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_flush(NULL), GPUR_INVALID_ARGUMENT);
    CHECK_OK(gpur_writer_append(s.writer, 0, NULL, &taken));
    CHECK_EQUAL(rows_appended(s.replay), 0);
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 7, good));
    CHECK_OK(gpur_writer_try_append_fields(s.writer, 1, good));
    CHECK_EQUAL(rows_appended(s.replay), 8);
    replay_fixture_close(&s);
}

TEST(a_limit_for_a_reward_that_is_not_one_float32_is_refused)
{
    static const struct {
        gpur_field field;
        const char *message;
    } cases[] = {
        {{"reward", GPUR_FLOAT32, {2}}, "reward_clip is 1 and field \"reward\" is float32 of 8 bytes; only one"},
        {{"reward", GPUR_INT32, {0}}, "reward_clip is 1 and field \"reward\" is int32 of 4 bytes; only one"},
        {{"score", GPUR_FLOAT32, {0}}, "reward_clip is 1 and the schema has no field \"reward\"; it must be 0"},
    };
    gpur_device *const device = test_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_replay_config config = replay_fixture_config(&cases[i].field, 1, 100, 3, 20);
        gpur_replay *replay = NULL;
        config.reward_clip = 1;
        CHECK_FAILS(gpur_replay_create(device, &config, &replay), GPUR_INVALID_ARGUMENT, cases[i].message);
        config.reward_clip = 0;
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        gpur_replay_destroy(replay);
    }
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_append_stores_what_was_given_with_flags_of_0_and_1_and_rewards_in_their_limits);
    RUN(bad_appends_are_refused_and_take_nothing);
    RUN(a_limit_for_a_reward_that_is_not_one_float32_is_refused);
    return test_main_end();
}
