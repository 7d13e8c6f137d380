/* SPDX-License-Identifier: MIT */
/* Finished rows: what every kind of append stores, whichever way the rows take to the ring; and what is refused. */
#include "replay/replay.h"
#include "support/episode_fixture.h"
#include "test.h"

enum { PACKED, COLUMNS, AT_ONCE, WAYS };

/* Fields of bools in the midst of a row, at an odd place and at its end; a row that is longer than a tile; bools that
 * are a long value by themselves; and many short rows, which need no staging if the next draw is to see them anyway. */
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

/* Random bytes, many of them 0; rewards around the limit, and some that are no numbers. */
static void fill(const row_tags *k, int64_t rows, unsigned char *const *columns)
{
    static const float rewards[] = {2.5f, -3, 0.25f, -0.5f, 1e30f, -INFINITY, NAN};
    uint64_t random = 7;
    for (int32_t f = 0; f < k->count; f++)
        for (int64_t i = 0; i < rows * k->fields[f].bytes; i++) {
            const uint64_t number = xorshift_next(&random);
            columns[f][i] = (number >> 40) % 3 == 0 ? 0 : (unsigned char)(number >> 32);
        }
    for (int32_t f = 0; f < k->count; f++)
        for (int64_t i = 0; strcmp(k->fields[f].name, "reward") == 0 && i < rows; i++)
            memcpy(columns[f] + 4 * i, &rewards[i % 7], 4);
}

static int is_flag(const gpur_field_info *field)
{
    return field->dtype == GPUR_BOOL || strcmp(field->name, "truncated") == 0;
}

static int64_t wrong_values(const gpur_field_info *field, float limit, int64_t rows, const unsigned char *given,
                            const unsigned char *got)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows * field->bytes; i++)
        wrong += got[i] != (is_flag(field) ? given[i] != 0 : given[i]);
    if (strcmp(field->name, "reward") != 0 || limit == 0)
        return wrong;
    wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        float from, to;
        memcpy(&from, given + 4 * i, 4), memcpy(&to, got + 4 * i, 4);
        const float want = from > limit ? limit : from < -limit ? -limit : from;
        wrong += isnan(want) ? !isnan(to) : to != want;
    }
    return wrong;
}

static gpur_status append(replay_fixture *s, int way, int64_t first, int64_t count, unsigned char *const *columns)
{
    const row_tags *const k = &s->row_tags;
    const void *at[GPUR_MAX_FIELDS];
    gpur_status status = GPUR_WOULD_BLOCK;
    for (int32_t f = 0; f < k->count; f++)
        at[f] = columns[f] + first * k->fields[f].bytes;
    if (way == COLUMNS)
        return gpur_writer_append_fields(s->writer, count, at, NULL, NULL);
    while (way == AT_ONCE && status == GPUR_WOULD_BLOCK)
        status = gpur_writer_try_append_fields(s->writer, count, at);
    if (way == AT_ONCE)
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

/* Appends to the rows' end and compares all that is in the replay then. */
static void append_all(replay_fixture *s, const shape *t, int way, unsigned char *const *columns)
{
    const gpur_replay_config *const c = &s->replay->config;
    const int64_t straight = direct_rows(s->device, c, s->row_tags.row_bytes);
    for (int64_t done = 0, count; done < t->rows; done += count) {
        count = t->rows - done < t->part ? t->rows - done : t->part;
        CHECK_OK(append(s, way, done, count, columns));
        if (straight > 0 && t->part >= straight && done == 0 && (way != PACKED || c->reward_clip == 0))
            CHECK_EQUAL(s->replay->ingest.staged, 0);
    }
    CHECK_OK(gpur_writer_flush(s->writer));
    CHECK_EQUAL(gpur_replay_size(s->replay), t->rows);
    for (int64_t done = 0, count; done < t->rows; done += count) {
        count = t->rows - done < 20 ? t->rows - done : 20;
        for (int32_t f = 0; f < s->row_tags.count; f++) {
            const gpur_field_info *const field = &s->row_tags.fields[f];
            unsigned char *const got = malloc((size_t)(count * field->bytes));
            const gpur_status status = read_rows(s->replay, field->name, done, count, got, field->bytes);
            const int64_t wrong =
                status != GPUR_OK ? -1
                                  : wrong_values(field, c->reward_clip, count, columns[f] + done * field->bytes, got);
            free(got);
            CHECK_EQUAL(wrong, 0);
        }
    }
}

/* The number decides feed, flush, limit of rewards, and by how many bytes the arrays are off their types' alignment. */
static void check_append(const shape *t, int way, int number)
{
    gpur_replay_config config = replay_fixture_config(t->fields, t->field_count, t->capacity, t->block, 20);
    unsigned char *columns[GPUR_MAX_FIELDS], *memory[GPUR_MAX_FIELDS];
    const int before = atomic_load(&test_state.failures), slip = number % 4;
    replay_fixture s;
    config.upload = number & 1 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
    config.reward_clip = number & 2 ? 1.0f : 0.0f;
    config.flush = number & 4 ? GPUR_FLUSH_MANUAL : GPUR_FLUSH_AUTO;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    for (int32_t f = 0; f < s.row_tags.count; f++) {
        memory[f] = malloc((size_t)(t->rows * s.row_tags.fields[f].bytes + slip));
        columns[f] = memory[f] + slip;
    }
    fill(&s.row_tags, t->rows, columns);
    append_all(&s, t, way, columns);
    for (int32_t f = 0; f < s.row_tags.count; f++)
        free(memory[f]);
    replay_fixture_close(&s);
    if (atomic_load(&test_state.failures) > before)
        fprintf(stderr, "  %s, by way %d, number %d\n", t->name, way, number);
}

#ifdef GPUR_RACE_CHECK
enum {
    STRIDE = 3
}; /* a thread for every thread of a block takes its time; 0, 3 and 6 have each value of each setting */
#else
enum { STRIDE = 1 };
#endif

TEST(every_append_stores_what_was_given_with_flags_of_0_and_1_and_rewards_in_their_limits)
{
    for (size_t t = 0; t < sizeof shapes / sizeof *shapes; t++)
        for (int way = 0; way < WAYS; way++)
            for (int number = 0; number < 8; number += STRIDE)
                check_append(&shapes[t], way, number);
}

TEST(bad_appends_are_refused_and_take_nothing)
{
    static const float numbers[32] = {1, 2, 3};
    static const gpur_field fields[] = {{"x", GPUR_FLOAT32, {3}}, {"reward", GPUR_FLOAT32, {0}}};
    const void *const good[] = {numbers, numbers}, *const lacks[] = {numbers, NULL};
    const struct {
        int way;
        int64_t count;
        const void *data;
        const char *message;
    } cases[] = {
        {PACKED, -1, numbers, "count is -1; it must be 0 or more"},
        {PACKED, 2, NULL, "rows is NULL; it must be 2 packed rows"},
        {COLUMNS, -1, good, "count is -1; it must be 0 or more"},
        {COLUMNS, 1, NULL, "fields is NULL; it must be 2 pointers"},
        {COLUMNS, 1, lacks, "fields[1], \"reward\", is NULL"},
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
            cases[i].way == PACKED    ? gpur_writer_append(s.writer, cases[i].count, cases[i].data, &taken)
            : cases[i].way == COLUMNS ? gpur_writer_append_fields(s.writer, cases[i].count, cases[i].data, NULL, &taken)
                                      : gpur_writer_try_append_fields(s.writer, cases[i].count, cases[i].data);
        CHECK_STATUS(status, GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(cases[i].message);
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
        CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(cases[i].message);
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
