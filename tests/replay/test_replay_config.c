/* SPDX-License-Identifier: MIT */
/* Schemas, settings, plans: what is refused, in which words, and what the accepted ones come to. */
#include "support/replay_fixture.h"
#include "test.h"
#include "base/red_zone.h"
#include "replay/config.h"

#include <stddef.h>

#define LONG_NAME "a_name_of_exactly_64_characters_a_name_of_exactly_64_characters_"

static const gpur_field one_float = {"x", GPUR_FLOAT32, {0}};
static const gpur_field atari[] = {{"obs", GPUR_UINT8, {4, 84, 84}}, {"action", GPUR_INT32, {0}},
                                   {"reward", GPUR_FLOAT32, {0}},    {"next_obs", GPUR_UINT8, {4, 84, 84}},
                                   {"terminated", GPUR_BOOL, {0}},   {"truncated", GPUR_BOOL, {0}},
                                   {"discount", GPUR_FLOAT32, {0}},  {"previous", GPUR_INT64, {0}}};
/* The rows of the paper: 27 + 1 + 1 + 27 + 1 numbers [Parr 2018, section 4]. */
static const gpur_field melee[] = {{"obs", GPUR_FLOAT32, {27}},
                                   {"action", GPUR_INT32, {0}},
                                   {"reward", GPUR_FLOAT32, {0}},
                                   {"next_obs", GPUR_FLOAT32, {27}},
                                   {"terminated", GPUR_BOOL, {0}}};

static gpur_replay_plan plan_of(const gpur_replay_config *config)
{
    gpur_replay_plan plan = {.size = sizeof plan};
    if (gpur_replay_plan_bytes(config, &plan) != GPUR_OK)
        plan.device_bytes = -1;
    return plan;
}

/* A refused plan is left as it was. */
static void check_refused(const gpur_replay_config *config, const char *message)
{
    gpur_replay_plan plan = {.size = sizeof plan, .row_bytes = -7};
    const gpur_status status = gpur_replay_plan_bytes(config, &plan);
    TEST_REQUIRE(status == GPUR_INVALID_ARGUMENT, "\"%s\" is not refused: %s", message, gpur_status_name(status));
    CHECK_MESSAGE(message);
    CHECK_EQUAL(plan.row_bytes, -7);
}

TEST(bad_schemas_are_refused_with_the_reason)
{
    static const struct {
        gpur_field fields[3];
        int32_t count;
        const char *message;
    } refusals[] = {
        {{{"x", GPUR_FLOAT32, {0}}}, 0, "field_count is 0; it must be 1 to 64"},
        {{{"x", GPUR_FLOAT32, {0}}}, 65, "field_count is 65"},
        {{{NULL, GPUR_FLOAT32, {0}}}, 1, "field 0 has no name"},
        {{{"", GPUR_FLOAT32, {0}}}, 1, "it must have 1 to 63"},
        {{{LONG_NAME, GPUR_FLOAT32, {0}}}, 1, "64 or more characters"},
        {{{"x", GPUR_FLOAT32, {0}}, {"y", GPUR_INT32, {0}}, {"x", GPUR_INT32, {0}}}, 3, "fields 0 and 2 are both"},
        {{{"id", GPUR_INT64, {0}}}, 1, "\"id\", which every batch has already"},
        {{{"weight", GPUR_FLOAT32, {0}}}, 1, "\"weight\", which every batch has already"},
        {{{"x", 0, {0}}}, 1, "dtype 0; it must be"},
        {{{"x", 7, {0}}}, 1, "dtype 7; it must be"},
        {{{"x", GPUR_FLOAT32, {3, -1}}}, 1, "has -1 in its shape"},
        {{{"x", GPUR_FLOAT32, {3, 0, 2}}}, 1, "has 2 in its shape after a 0"},
        {{{"\xe9tat", GPUR_FLOAT32, {3}}}, 1, "is no text in UTF-8 without control characters"},
        {{{"x", GPUR_FLOAT32, {1 << 20, 1 << 20}}}, 1, "that is the most a row may have"},
        {{{"terminated", GPUR_FLOAT32, {0}}}, 1, "must be one bool or uint8"},
        {{{"terminated", GPUR_BOOL, {2}}}, 1, "\"terminated\" is bool of 2 bytes"},
        {{{"discount", GPUR_INT32, {0}}}, 1, "\"discount\" is int32 of 4 bytes; it must be one float32"},
        {{{"priority", GPUR_FLOAT32, {2}}, {"a", GPUR_UINT8, {0}}}, 2, "\"priority\" is float32 of 8 bytes"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        gpur_replay_config config = replay_fixture_config(refusals[i].fields, refusals[i].count, 100, 0, 0);
        config.prioritized = refusals[i].count == 2; /* else "priority" is a field like any other */
        check_refused(&config, refusals[i].message);
    }
    const gpur_replay_config none = replay_fixture_config(NULL, 1, 100, 0, 0);
    check_refused(&none, "fields is NULL");
    gpur_field unlike[8];
    memcpy(unlike, atari, sizeof unlike);
    unlike[3].dtype = GPUR_BOOL;
    gpur_replay_config frames = replay_fixture_config(unlike, 8, 1000, 10, 10);
    frames.layout = GPUR_LAYOUT_FRAMES, frames.frame_stack = 4;
    check_refused(&frames, "\"obs\" and \"next_obs\" differ");
}

enum { PLAIN, PRIORITIZED, DISTINCT, FRAMES };

static gpur_replay_config config_of(int which)
{
    gpur_replay_config config = which == FRAMES ? replay_fixture_config(atari, 8, 1000, 10, 10)
                                                : replay_fixture_config(&one_float, 1, 100, 10, 50);
    if (which == FRAMES)
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4;
    if (which == PRIORITIZED)
        config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    if (which == DISTINCT)
        config.index_source = GPUR_UNIFORM_DISTINCT;
    return config;
}

/* One member of a good config, and a value that it must not have. tests/base/test_settings.c has the ends of each
 * member's range; these are values that others do not allow. */
typedef struct refusal {
    int config;
    char type; /* 'f' float, 'i' int32_t, 'l' int64_t */
    size_t offset;
    double value;
    const char *message;
} refusal;
#define OF(type, member) type, offsetof(gpur_replay_config, member)

static const refusal refusals[] = {
    {PLAIN, OF('l', capacity), 1, "capacity is 1; it must be 2 to"},
    {PLAIN, OF('l', capacity), 1e18, "capacity is 1000000000000000000"},
    {PLAIN, OF('l', block_rows), 100, "capacity is 100 and block_rows 100; the first must be larger"},
    {DISTINCT, OF('l', max_batch), 91, "max_batch is 91 and index_source GPUR_UNIFORM_DISTINCT (2); it must be at most "
                                       "capacity - block_rows = 90"},
    {PLAIN, OF('l', min_size), 101, "min_size is 101; it must be 0 to the capacity, 100"},
    {PLAIN, OF('i', weight_norm), 2, "weight_norm is 2 and prioritized 0; without priorities it must be 0"},
    {PLAIN, OF('f', alpha), 0.5, "alpha is 0.5 and prioritized 0; without priorities it must be 0.6"},
    {PLAIN, OF('f', priority_offset), 0.5, "priority_offset is 0.5 and prioritized 0"},
    {PLAIN, OF('f', beta.last), 1, "beta goes from 0.4 to 1 and prioritized is 0; without"},
    {PRIORITIZED, OF('i', prioritized), 0, "index_source is 3, by priority, and prioritized is 0; set prioritized"},
    {PRIORITIZED, OF('f', beta.first), NAN, "beta goes from nan to 0.4"},
    {PRIORITIZED, OF('f', beta.first), NAN, "it must stay within 0 to 10, and begin and steps must be 0 or more"},
    {PRIORITIZED, OF('l', beta.steps), -1, "over -1 steps"},
    {FRAMES, OF('i', frame_stack), 3, "frame_stack is 3 and the first axis of \"obs\" is 4 long"},
    {FRAMES, OF('i', stack_axis), GPUR_STACK_LAST, "frame_stack is 4 and the last axis of \"obs\" is 84 long"},
    {FRAMES, OF('l', extra_frames), 4294967295.0, "a link of 32 bits tells 4294967294 apart"},
    {FRAMES, OF('i', upload), GPUR_UPLOAD_SCATTER, "with GPUR_LAYOUT_FRAMES it must be GPUR_UPLOAD_COPY"},
    {FRAMES, OF('i', field_count), 3, "the schema has no field \"next_obs\""},
};

TEST(settings_that_others_do_not_allow_are_refused)
{
    for (int which = PLAIN; which <= FRAMES; which++) {
        const gpur_replay_config good = config_of(which);
        CHECK(plan_of(&good).device_bytes > 0);
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *const r = &refusals[i];
        gpur_replay_config config = config_of(r->config);
        unsigned char *const at = (unsigned char *)&config + r->offset;
        if (r->type == 'f')
            memcpy(at, &(float){(float)r->value}, 4);
        else if (r->type == 'i')
            memcpy(at, &(int32_t){(int32_t)r->value}, 4);
        else
            memcpy(at, &(int64_t){(int64_t)r->value}, 8);
        check_refused(&config, r->message);
    }
}

TEST(a_refused_create_leaves_no_handle_and_no_memory)
{
    gpur_device *const device = test_device();
    const int64_t before = test_memory_used(device);
    gpur_replay *replay = (gpur_replay *)(uintptr_t)&before;
    gpur_replay_config config = replay_fixture_config(&one_float, 1, 100, 0, 0);
    CHECK_STATUS(gpur_replay_create(NULL, &config, &replay), GPUR_INVALID_ARGUMENT);
    CHECK(replay == NULL);
    CHECK_STATUS(gpur_replay_create(device, NULL, &replay), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_create(device, &config, NULL), GPUR_INVALID_ARGUMENT);
    config.capacity = (int64_t)1 << 44;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK(replay == NULL);
    CHECK_MESSAGE("a capacity of 17592186044416 takes 1125899906842624 bytes");
    config = replay_fixture_config(atari, 8, 100, 20, 10);
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4, config.extra_frames = 4000000000;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("the least capacity beside them, 21 with 4000000305 frames, ");
    CHECK_EQUAL(test_memory_used(device), before);
    gpur_device_close(device);
}

TEST(a_refused_size_changes_no_config)
{
    gpur_replay_config config = {.size = 77, .capacity = 5};
    CHECK_FAILS(gpur_replay_config_init(&config, 7), GPUR_INVALID_ARGUMENT, "size is 7; it must be sizeof");
    CHECK_FAILS(gpur_replay_config_init(&config, 65537), GPUR_INVALID_ARGUMENT, "size is 65537; it must be sizeof");
    CHECK(config.size == 77 && config.capacity == 5);
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    CHECK(config.size == sizeof config && config.capacity != 5);
}

/* Taking that much would be slow, so it is planned. Priorities grow in steps; with a slack of its own the ring of
 * frames does not grow as the other does. */
TEST(the_capacity_that_is_said_to_fit_is_planned_to)
{
    gpur_device *const device = test_device();
    const gpur_field wide = {"x", GPUR_FLOAT32, {300}};
    gpur_device_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_get_info(device, &info));
    for (int i = 0; i < 4; i++) {
        const int64_t capacity = (int64_t)1 << (i < 2 ? 44 : 30);
        gpur_replay_config config = replay_fixture_config(i < 2 ? &one_float : &wide, 1, capacity, 0, 0);
        config.prioritized = i > 1, config.upload = i & 1 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        config.weight_norm = i > 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH;
        CHECK(refusal_says_what_fits(device, &config));
    }
    for (int64_t tenths = 0; tenths <= 6; tenths += 3) {
        gpur_replay_config config = replay_fixture_config(atari, 8, 1000000000, 2000, 1);
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4;
        config.extra_frames = info.memory_free / 10 * tenths / (84 * 84);
        CHECK(refusal_says_what_fits(device, &config));
    }
    gpur_device_close(device);
}

/* Rows of 4 MB, and so many that a batch, or on the CPU staging, takes all there is. (On CUDA staging is the host's) */
TEST(what_the_ring_shares_its_memory_with_counts)
{
    static const gpur_field wide = {"x", GPUR_FLOAT32, {1 << 20}};
    gpur_device *const device = test_device();
    gpur_device_info info = {.size = sizeof info};
    gpur_replay *replay = NULL;
    CHECK_OK(gpur_device_get_info(device, &info));
    const int64_t rows = info.memory_free >> 22;
    gpur_replay_config config = replay_fixture_config(&wide, 1, rows + 1, 1, rows);
    CHECK_FAILS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY, "no ring fits on ");
    CHECK_MESSAGE("a batch of max_batch = ");
    config = replay_fixture_config(&wide, 1, rows / 3 + 2, rows / 3, 1);
    if (!test_on_cuda()) {
        CHECK_FAILS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY, "no ring fits on ");
        CHECK_MESSAGE(" 4 staging blocks of block_rows = ");
    }
    gpur_device_close(device);
}

TEST(the_plan_of_the_papers_replay_is_exact)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 0, 0, 0);
    CHECK_OK(gpur_replay_config_preset(&config, "melee-gpu"));
    CHECK(config.fields == melee && config.field_count == 5);
    const gpur_replay_plan plan = plan_of(&config);
    CHECK_EQUAL(plan.row_bytes, 228);
    CHECK_EQUAL(plan.row_pitch, 256);
    CHECK_EQUAL(plan.ring_bytes, 256000000);
    CHECK_EQUAL(plan.upload_bytes, 256);
    CHECK_EQUAL(plan.pinned_bytes, 4 * 2000 * 256 + 2 * 4096 * 8);
    CHECK_EQUAL(plan.batch_bytes, 4096 * (2 * 108 + 4 + 4 + 1 + 4 + 4 + 8) + 9 * GPUR_RED_ZONE);
    CHECK_EQUAL(plan.device_bytes, 256000256);
    CHECK(plan.frames == 0 && plan.frame_ring_bytes == 0 && plan.priority_bytes == 0);
    config.upload = GPUR_UPLOAD_SCATTER;
    CHECK_EQUAL(plan_of(&config).upload_bytes, 256 + 2000 * 256);
}

/* What the frames may take in all, staging included: 7.3 GB; all fields that a step has, one or three steps. */
TEST(a_million_atari_transitions_fit_in_7_3_gigabytes)
{
    for (int32_t n = 1; n <= 3; n += 2) {
        gpur_replay_config config = replay_fixture_config(atari, 8, 1000000, 0, 0);
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4, config.n_step = n;
        const gpur_replay_plan plan = plan_of(&config);
        CHECK_EQUAL(plan.frame_bytes, 84 * 84);
        CHECK_EQUAL(plan.frames, 1000000 + 1000000 / 64);
        CHECK_EQUAL(plan.frame_ring_bytes, plan.frames * plan.frame_pitch);
        CHECK_EQUAL(plan.device_bytes, plan.ring_bytes + plan.upload_bytes + plan.frame_ring_bytes);
        CHECK(plan.device_bytes + plan.pinned_bytes <= 7300000000ll);
        CHECK(plan.frame_reach >= 4 * 8);
    }
}

TEST(frames_layout_and_priorities_take_what_the_documents_say)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 1000000, 0, 4096);
    const gpur_replay_plan rows = plan_of(&config);
    config.prioritized = 1;
    const gpur_replay_plan prioritized = plan_of(&config);
    CHECK_NEAR(prioritized.priority_bytes, 8.604e6 + 16 * 4096, 1e4);
    CHECK_EQUAL(prioritized.device_bytes - rows.device_bytes, prioritized.priority_bytes);
    config.prioritized = 0, config.layout = GPUR_LAYOUT_FRAMES;
    const gpur_replay_plan frames = plan_of(&config);
    CHECK_EQUAL(frames.row_bytes, rows.row_bytes);
    CHECK(10 * frames.device_bytes <= 6 * rows.device_bytes);
    CHECK(10 * (frames.device_bytes + frames.pinned_bytes) <= 6 * (rows.device_bytes + rows.pinned_bytes));
}

/* The rows layout by either upload and prioritized, and the frames layout with a stack of 1 and of 4. The largest batch
 * by default is one whose rows have no frame in common. */
TEST(the_device_holds_what_the_plan_says)
{
    enum { KINDS = 5 };
    static const int64_t max_rows[KINDS] = {128, 128, 128, 700, 700};
    static const unsigned char obs[4 * 84 * 84], no;
    static const float reward;
    gpur_device *const device = test_device();
    for (int kind = 0; kind < KINDS; kind++) {
        gpur_replay_config config = replay_fixture_config(kind < 4 ? melee : atari, kind < 4 ? 5 : 8, 5000, 100, 128);
        gpur_replay *replay = NULL;
        gpur_writer *writer = NULL;
        gpur_batch *batch = NULL;
        config.upload = kind == 1 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY, config.prioritized = kind == 2;
        if (kind > 2) {
            config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = kind == 3 ? 1 : 4;
            config.capacity = 700, config.block_rows = config.max_batch = 0;
        }
        const gpur_replay_plan plan = plan_of(&config);
        const int64_t before = test_memory_used(device);
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        CHECK_EQUAL(test_memory_used(device) - before, plan.device_bytes);
        CHECK_OK(gpur_writer_create(replay, 1, &writer));
        CHECK_OK(gpur_writer_reset(writer, 0, obs));
        CHECK_OK(gpur_writer_step(writer, &reward, &reward, obs, &no, NULL));
        CHECK_OK(gpur_replay_sample(replay, max_rows[kind], NULL, &batch));
        CHECK_EQUAL(test_memory_used(device) - before, plan.device_bytes + plan.batch_bytes);
        gpur_batch_release(batch);
        CHECK_STATUS(gpur_replay_sample(replay, max_rows[kind] + 1, NULL, &batch), GPUR_INVALID_ARGUMENT);
        gpur_writer_destroy(writer);
        gpur_replay_destroy(replay);
        CHECK_EQUAL(test_memory_used(device), before);
    }
    gpur_replay_destroy(NULL);
    gpur_device_close(device);
}

/* block_rows and max_batch that are 0, as replay.h states them. */
TEST(the_defaults_that_depend_on_the_layout_are_those_of_the_header)
{
    static const struct {
        int64_t capacity;
        int32_t stack, n_step; /* stack 0: rows layout */
        int64_t block_rows, max_batch, max_distinct;
    } rows[] = {
        {1000000, 0, 1, 2000, 4096, 4096}, {800, 0, 1, 50, 800, 750},       {2, 0, 1, 1, 2, 1},
        {1000000, 4, 1, 2000, 4096, 4096}, {8000, 4, 1, 125, 4096, 800},    {8000, 4, 3, 125, 4096, 571}, /* 5, 7 */
        {8000, 4, 50, 125, 4096, 500},     {8000, 1, 1, 125, 4096, 2000},   {2, 1, 1, 1, 2, 1}, /* 8 frames, 2 */
    };
    for (size_t n = 0; n < 2 * sizeof rows / sizeof *rows; n++) {
        const size_t i = n / 2;
        const int is_distinct = n % 2;
        const int is_atari = rows[i].stack == 4;
        gpur_replay_config config =
            replay_fixture_config(is_atari ? atari : melee, is_atari ? 8 : 5, rows[i].capacity, 0, 0);
        gpur_replay_config checked;
        gpur_schema schema;
        config.layout = rows[i].stack ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS, config.n_step = rows[i].n_step;
        config.frame_stack = rows[i].stack ? rows[i].stack : 1;
        config.index_source = is_distinct ? GPUR_UNIFORM_DISTINCT : GPUR_SOURCE_AUTO;
        CHECK_OK(gpur_replay_config_check(&config, &checked, &schema));
        TEST_REQUIRE(checked.block_rows == rows[i].block_rows &&
                         checked.max_batch == (is_distinct ? rows[i].max_distinct : rows[i].max_batch),
                     "row %d: block_rows %lld, max_batch %lld", (int)i, (long long)checked.block_rows,
                     (long long)checked.max_batch);
    }
}

TEST(fields_lie_as_in_a_c_struct)
{
    typedef struct mixed {
        uint8_t a[3];
        int64_t b;
        uint16_t c[5];
        float d;
        uint8_t e;
    } mixed;
    static const gpur_field fields[] = {{"a", GPUR_UINT8, {3}},
                                        {"b", GPUR_INT64, {0}},
                                        {"c", GPUR_FLOAT16, {5, 1}},
                                        {"d", GPUR_FLOAT32, {1}},
                                        {"e", GPUR_BOOL, {0}}};
    static const int64_t offsets[] = {offsetof(mixed, a), offsetof(mixed, b), offsetof(mixed, c), offsetof(mixed, d),
                                      offsetof(mixed, e)};
    gpur_device *const device = test_device();
    const gpur_replay_config config = replay_fixture_config(fields, 5, 100, 0, 0);
    const gpur_replay_plan plan = plan_of(&config);
    gpur_field_info info = {.size = sizeof info};
    gpur_replay *replay = NULL;
    CHECK_EQUAL(plan.row_bytes, sizeof(mixed));
    CHECK_EQUAL(plan.row_pitch, 64);
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    for (int32_t f = 0; f < 5; f++) {
        CHECK_OK(gpur_replay_get_field(replay, f, &info));
        CHECK_EQUAL(info.offset, offsets[f]);
        CHECK(strcmp(info.name, fields[f].name) == 0 && info.dtype == fields[f].dtype);
    }
    CHECK_OK(gpur_replay_get_field(replay, 2, &info));
    CHECK(info.dims == 2 && info.shape[0] == 5 && info.shape[1] == 1 && info.bytes == 10);
    CHECK_FAILS(gpur_replay_get_field(replay, 5, &info), GPUR_INVALID_ARGUMENT, "field 5; there are 5 fields");
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

TEST(an_older_callers_shorter_config_is_understood)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 100, 0, 0);
    gpur_replay_plan plan = {.size = offsetof(gpur_replay_plan, pinned_bytes)};
    config.size = offsetof(gpur_replay_config, staging_blocks);
    config.staging_blocks = -1; /* beyond what this caller's struct has */
    plan.pinned_bytes = -1;
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_EQUAL(plan.ring_bytes, 25600);
    CHECK_EQUAL(plan.pinned_bytes, -1);
}

TEST(finished_rows_are_refused_by_the_frames_layout)
{
    const float values[27] = {0};
    const void *const fields[] = {values, values, values, values, values};
    gpur_replay_config config = replay_fixture_config(melee, 5, 100, 10, 10);
    replay_fixture s;
    config.layout = GPUR_LAYOUT_FRAMES;
    CHECK(replay_fixture_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_writer_append(s.writer, 1, values, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("finished rows do not tell to which episode they belong: use gpur_writer_reset");
    CHECK_STATUS(gpur_writer_append_fields(s.writer, 1, fields, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, fields), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("use gpur_writer_reset and gpur_writer_step_ex");
    CHECK_EQUAL(replay_fixture_stats(s.replay).appended, 0);
    replay_fixture_close(&s);
}

/* A stack whose older frames are others than were given before: refused, named, and nothing has changed. */
TEST(stacks_that_are_not_the_environments_history_are_refused)
{
    enum { STACK = 3, PIXELS = 4, STEPS = 5 };
    static const float zero;
    static const uint8_t no;
    for (int32_t axis = GPUR_STACK_FIRST; axis <= GPUR_STACK_LAST; axis++) {
        const int is_last = axis == GPUR_STACK_LAST;
        gpur_field fields[5] = {{"obs", GPUR_UINT8, {is_last ? PIXELS : STACK, is_last ? STACK : PIXELS}},
                                melee[1],
                                melee[2],
                                {0},
                                melee[4]};
        fields[3] = fields[0], fields[3].name = "next_obs";
        gpur_replay_config config = replay_fixture_config(fields, 5, 64, 8, 10);
        unsigned char obs[STACK * PIXELS] = {0};
        replay_fixture s;
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = STACK, config.stack_axis = axis;
        CHECK(replay_fixture_open(&s, test_device(), &config, 1));
        CHECK_OK(gpur_writer_reset(s.writer, 0, obs));
        for (int t = 1; t < STEPS; t++) {
            for (int i = 0; i < STACK * PIXELS; i++) {
                const int frame = t - STACK + 1 + (is_last ? i % STACK : i / PIXELS);
                obs[i] = frame > 0 ? (unsigned char)(10 * frame + (is_last ? i / STACK : i % PIXELS)) : 0;
            }
            for (int bad = 0; bad < STACK - 1; bad++) { /* one pixel of a frame that was there before */
                unsigned char *const pixel = &obs[is_last ? STACK + bad : bad * PIXELS + 1];
                char message[80];
                ++*pixel;
                snprintf(message, sizeof message, "next_obs of environment 0 has a frame %d of its stack", bad);
                CHECK_FAILS(gpur_writer_step(s.writer, &zero, &zero, obs, &no, NULL), GPUR_INVALID_ARGUMENT, message);
                --*pixel;
            }
            CHECK_OK(gpur_writer_step(s.writer, &zero, &zero, obs, &no, NULL));
            CHECK_EQUAL(replay_fixture_stats(s.replay).appended, t);
        }
        replay_fixture_close(&s);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(bad_schemas_are_refused_with_the_reason);
    RUN(settings_that_others_do_not_allow_are_refused);
    RUN(a_refused_create_leaves_no_handle_and_no_memory);
    RUN(a_refused_size_changes_no_config);
    RUN(the_capacity_that_is_said_to_fit_is_planned_to);
    RUN(what_the_ring_shares_its_memory_with_counts);
    RUN(the_plan_of_the_papers_replay_is_exact);
    RUN(a_million_atari_transitions_fit_in_7_3_gigabytes);
    RUN(frames_layout_and_priorities_take_what_the_documents_say);
    RUN(the_device_holds_what_the_plan_says);
    RUN(the_defaults_that_depend_on_the_layout_are_those_of_the_header);
    RUN(fields_lie_as_in_a_c_struct);
    RUN(an_older_callers_shorter_config_is_understood);
    RUN(finished_rows_are_refused_by_the_frames_layout);
    RUN(stacks_that_are_not_the_environments_history_are_refused);
    return test_main_end();
}
