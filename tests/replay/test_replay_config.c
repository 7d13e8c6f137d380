/* SPDX-License-Identifier: MIT */
/* Schemas, settings, plans: what is refused, in which words, and what the accepted ones come to. */
#include "support/counting_alloc.h"
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

typedef struct schema_refusal {
    gpur_field fields[3];
    int32_t count;
    const char *message;
} schema_refusal;

TEST(bad_schemas_are_refused_with_the_reason)
{
    static const schema_refusal refusals[] = {
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
    gpur_replay_config linked = replay_fixture_config(unlike, 8, 1000, 10, 10);
    linked.layout = GPUR_LAYOUT_FRAMES, linked.frame_stack = 4;
    check_refused(&linked, "\"obs\" and \"next_obs\" differ");
}

enum { PLAIN, RANKED, LINKED };

static gpur_replay_config config_of(int which)
{
    gpur_replay_config config = which == LINKED ? replay_fixture_config(atari, 8, 1000, 10, 10)
                                                : replay_fixture_config(&one_float, 1, 100, 10, 50);
    if (which == LINKED)
        config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = 4;
    if (which == RANKED)
        config.prioritized = 1, config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    return config;
}

/* One member of a good config, and a value that it must not have. */
typedef struct refusal {
    int config;
    size_t offset;
    int kind; /* 4, 8: an integer of so many bytes; 1: a float */
    int64_t whole;
    float real;
    const char *message;
} refusal;
#define AT(member) offsetof(gpur_replay_config, member)
#define LONG(config, member, value, message)                                                                           \
    {                                                                                                                  \
        config, AT(member), 8, value, 0.0f, message                                                                    \
    }
#define INT(config, member, value, message)                                                                            \
    {                                                                                                                  \
        config, AT(member), 4, value, 0.0f, message                                                                    \
    }
#define REAL(config, member, value, message)                                                                           \
    {                                                                                                                  \
        config, AT(member), 1, 0, value, message                                                                       \
    }

static const refusal refusals[] = {
    LONG(PLAIN, capacity, 1, "capacity is 1; it must be 2 to"),
    LONG(PLAIN, capacity, -5, "capacity is -5"),
    LONG(PLAIN, capacity, INT64_MAX, "capacity is 9223372036854775807"),
    LONG(PLAIN, block_rows, -1, "block_rows is -1"),
    LONG(PLAIN, block_rows, 60, "room for a batch of max_batch = 50 beside a block of block_rows = 60"),
    LONG(PLAIN, block_rows, 100, "capacity is 100; it must have room"),
    LONG(PLAIN, max_batch, -1, "max_batch is -1"),
    LONG(PLAIN, max_batch, 100, "capacity is 100; it must have room"),
    LONG(PLAIN, min_size, 101, "min_size is 101; it must be 0 to the capacity, 100"),
    LONG(PLAIN, min_size, -1, "min_size is -1"),
    INT(PLAIN, staging_blocks, 1, "staging_blocks is 1; it must be 2 to 64"),
    INT(PLAIN, staging_blocks, 65, "staging_blocks is 65"),
    INT(PLAIN, index_source, 5, "index_source is 5"),
    INT(PLAIN, upload, 2, "upload is 2"),
    INT(PLAIN, flush, -1, "flush is -1"),
    INT(PLAIN, when_full, 2, "when_full is 2"),
    REAL(PLAIN, gamma, 1.001f, "gamma is 1.001; it must be 0 to 1"),
    REAL(PLAIN, gamma, -0.001f, "gamma is -0.001"),
    REAL(PLAIN, reward_clip, -0.001f, "reward_clip is -0.001"),
    INT(PLAIN, weight_norm, 2, "weight_norm is 2 and prioritized 0; without priorities it must be 0"),
    REAL(PLAIN, alpha, 0.5f, "alpha is 0.5 and prioritized 0; without priorities it must be 0.6"),
    REAL(PLAIN, priority_offset, 0.5f, "priority_offset is 0.5 and prioritized 0"),
    REAL(PLAIN, beta.last, 1.0f, "beta goes from 0.4 to 1 and prioritized is 0; without"),
    INT(RANKED, prioritized, 2, "prioritized is 2"),
    INT(RANKED, prioritized, 0, "index_source is 3, by priority, and prioritized is 0; set prioritized"),
    INT(RANKED, index_source, -1, "index_source is -1"),
    INT(RANKED, weight_norm, 3, "weight_norm is 3"),
    REAL(RANKED, alpha, -0.5f, "alpha is -0.5"),
    REAL(RANKED, alpha, NAN, "alpha is nan; it must be 0 to 10"),
    REAL(RANKED, alpha, INFINITY, "alpha is inf; it must be 0 to 10"),
    REAL(RANKED, priority_offset, -1.0f, "priority_offset is -1"),
    REAL(RANKED, priority_offset, INFINITY, "priority_offset is inf; it must be 0 to 4096"),
    REAL(RANKED, beta.last, -1.0f, "beta goes from 0.4 to -1"),
    REAL(RANKED, beta.first, NAN, "beta goes from nan to 0.4"),
    REAL(RANKED, beta.first, NAN, "it must stay within 0 to 10, and begin and steps must be 0 or more"),
    LONG(RANKED, beta.steps, -1, "over -1 steps"),
    LONG(RANKED, capacity, (int64_t)1 << 31, "at most 2147483647"),
    INT(LINKED, layout, 2, "layout is 2"),
    INT(LINKED, frame_stack, 0, "frame_stack is 0; it must be 1 to 16"),
    INT(LINKED, frame_stack, 17, "frame_stack is 17; it must be 1 to 16"),
    INT(LINKED, frame_stack, 3, "frame_stack is 3 and the first axis of \"obs\" is 4 long"),
    INT(LINKED, stack_axis, GPUR_STACK_LAST, "frame_stack is 4 and the last axis of \"obs\" is 84 long"),
    INT(LINKED, stack_axis, 2, "stack_axis is 2"),
    INT(LINKED, stack_pad, 2, "stack_pad is 2"),
    LONG(LINKED, extra_frames, -1, "extra_frames is -1"),
    LONG(LINKED, extra_frames, 4294967295, "a link of 32 bits tells 4294967294 apart"),
    INT(LINKED, upload, GPUR_UPLOAD_SCATTER, "with GPUR_LAYOUT_FRAMES it must be GPUR_UPLOAD_COPY"),
    INT(LINKED, field_count, 3, "the schema has no field \"next_obs\""),
};
_Static_assert(sizeof((gpur_replay_config *)0)->beta.steps == 8, "beta.steps is listed as a long");

TEST(bad_settings_are_refused_with_value_and_range)
{
    for (int which = PLAIN; which <= LINKED; which++) {
        const gpur_replay_config good = config_of(which);
        CHECK(plan_of(&good).device_bytes > 0);
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *const r = &refusals[i];
        gpur_replay_config config = config_of(r->config);
        unsigned char *const at = (unsigned char *)&config + r->offset;
        const int32_t narrow = (int32_t)r->whole;
        if (r->kind == 8)
            memcpy(at, &r->whole, 8);
        else
            memcpy(at, r->kind == 4 ? (const void *)&narrow : (const void *)&r->real, 4);
        check_refused(&config, r->message);
    }
}

TEST(a_presets_priorities_may_stay_where_there_are_none)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 300, 20, 64);
    CHECK_OK(gpur_replay_config_preset(&config, "apex-dqn"));
    config.layout = GPUR_LAYOUT_ROWS, config.n_step = 1, config.prioritized = 0, config.index_source = GPUR_UNIFORM;
    config.reward_clip = 0;
    CHECK(plan_of(&config).device_bytes > 0);
    CHECK_STATUS(gpur_replay_config_preset(&config, "doom"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no replay preset \"doom\"; there are \"melee-gpu\"");
}

TEST(a_refused_create_leaves_no_handle_and_no_memory)
{
    gpur_device *const device = test_device();
    const int64_t before = kit_memory_used(device);
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
    CHECK_MESSAGE("the least capacity beside them, 30 with 4000000350 frames, ");
    CHECK_EQUAL(kit_memory_used(device), before);
    gpur_device_close(device);
}

/* A replay, a writer and a batch, as far as it goes; 1 when it went to the end, 0 when memory ran out, -1 when anything
 * else happened. */
static int use_all(gpur_device *device, int32_t feed)
{
    static const float rows[100 * 57];
    gpur_replay_config config = replay_fixture_config(melee, 5, 64, 8, 16);
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL;
    gpur_batch *batch = NULL;
    config.upload = feed;
    gpur_status status = gpur_replay_create(device, &config, &replay);
    if (status == GPUR_OK)
        status = gpur_writer_create(replay, 3, &writer);
    if (status == GPUR_OK)
        status = gpur_writer_append(writer, 100, rows, NULL);
    if (status == GPUR_OK)
        status = gpur_replay_sample(replay, 16, NULL, &batch);
    const int clean = status == GPUR_OK || batch == NULL;
    gpur_batch_release(batch);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    return !clean ? -1 : status == GPUR_OK ? 1 : status == GPUR_OUT_OF_MEMORY ? 0 : -1;
}

TEST(every_failing_allocation_of_the_callers_is_refused_cleanly)
{
#ifdef GPUR_RACE_CHECK
    const int32_t last = -1; /* there the question is kernels */
#else
    const int32_t last = GPUR_UPLOAD_SCATTER;
#endif
    for (int32_t feed = GPUR_UPLOAD_COPY; feed <= last; feed++) {
        int64_t refused = 0;
        for (int outcome = 0; outcome == 0; refused++) {
            counting_alloc counts = {0};
            gpur_device_config config = test_device_config();
            gpur_device *device = NULL;
            config.alloc = counting_alloc_take, config.release = counting_alloc_give, config.alloc_user = &counts;
            CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
            counts.fail_at = counts.calls + refused + 1;
            outcome = use_all(device, feed);
            gpur_device_close(device);
            CHECK(outcome >= 0 && refused < 1000);
            CHECK(counts.blocks == 0 && counts.bytes == 0 && counts.wrong_sizes == 0);
        }
        CHECK(refused > 5);
    }
}

/* Taking that much would be slow, so it is planned. Priorities grow in steps; with a slack of its own the ring of
 * frames does not grow as the other does. */
TEST(the_capacity_that_is_said_to_fit_is_planned_to)
{
    gpur_device *const device = test_device();
    const gpur_field wide = {"x", GPUR_FLOAT32, {300}};
    gpur_device_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_get_info(device, &info));
    for (int way = 0; way < 4; way++) {
        const int64_t capacity = (int64_t)1 << (way < 2 ? 44 : 30);
        gpur_replay_config config = replay_fixture_config(way < 2 ? &one_float : &wide, 1, capacity, 0, 0);
        config.prioritized = way > 1, config.upload = way & 1 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY;
        config.weight_norm = way > 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH;
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
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("no ring fits on ");
    CHECK_MESSAGE("a batch of max_batch = ");
    config = replay_fixture_config(&wide, 1, rows / 3 + 2, rows / 3, 1);
    if (!test_on_cuda()) {
        CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
        CHECK_MESSAGE("no ring fits on ");
        CHECK_MESSAGE(" 4 staging blocks of block_rows = ");
    }
    gpur_device_close(device);
}

typedef struct melee_row {
    float obs[27];
    int32_t action;
    float reward;
    float next_obs[27];
    uint8_t terminated;
} melee_row;

TEST(the_plan_of_the_papers_replay_is_exact)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 0, 0, 0);
    CHECK_OK(gpur_replay_config_preset(&config, "melee-gpu"));
    CHECK_EQUAL(config.capacity, 1000000);
    CHECK_EQUAL(config.block_rows, 2000);
    CHECK_NEAR(config.gamma, 0.99, 1e-7);
    CHECK_NEAR(config.reward_clip, 1, 0);
    CHECK(config.fields == melee && config.field_count == 5);
    const gpur_replay_plan plan = plan_of(&config);
    CHECK_EQUAL(plan.row_bytes, 228);
    CHECK_EQUAL(plan.row_bytes, sizeof(melee_row));
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

/* What the frames may take in all, staging included: 7.3 GB; all fields that a step knows, one or three steps. */
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

TEST(links_and_priorities_take_what_the_documents_say)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 1000000, 0, 4096);
    const gpur_replay_plan packed = plan_of(&config);
    config.prioritized = 1;
    const gpur_replay_plan ranked = plan_of(&config);
    CHECK_NEAR(ranked.priority_bytes, 8.57e6 + 16 * 4096, 1e4);
    CHECK_EQUAL(ranked.device_bytes - packed.device_bytes, ranked.priority_bytes);
    config.prioritized = 0, config.layout = GPUR_LAYOUT_FRAMES;
    const gpur_replay_plan linked = plan_of(&config);
    CHECK_EQUAL(linked.row_bytes, packed.row_bytes);
    CHECK(10 * linked.device_bytes <= 6 * packed.device_bytes);
    CHECK(10 * (linked.device_bytes + linked.pinned_bytes) <= 6 * (packed.device_bytes + packed.pinned_bytes));
}

/* Packed by either feed, prioritized, and linked with a stack of 1 and of 4. The largest batch by default is one whose
 * rows have no frame in common. */
TEST(the_device_holds_what_the_plan_says)
{
    enum { WAYS = 5 };
    static const int64_t most_rows[WAYS] = {128, 128, 128, 700 / 2 / 2, 700 / 2 / 5};
    static const unsigned char obs[4 * 84 * 84], no;
    static const float reward;
    gpur_device *const device = test_device();
    for (int way = 0; way < WAYS; way++) {
        gpur_replay_config config = replay_fixture_config(way < 4 ? melee : atari, way < 4 ? 5 : 8, 5000, 100, 128);
        gpur_replay *replay = NULL;
        gpur_writer *writer = NULL;
        gpur_batch *batch = NULL;
        config.upload = way == 1 ? GPUR_UPLOAD_SCATTER : GPUR_UPLOAD_COPY, config.prioritized = way == 2;
        if (way > 2) {
            config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = way == 3 ? 1 : 4;
            config.capacity = 700, config.block_rows = config.max_batch = 0;
        }
        const gpur_replay_plan plan = plan_of(&config);
        const int64_t before = kit_memory_used(device);
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        CHECK_EQUAL(kit_memory_used(device) - before, plan.device_bytes);
        CHECK_OK(gpur_writer_create(replay, 1, &writer));
        CHECK_OK(gpur_writer_reset(writer, 0, obs));
        CHECK_OK(gpur_writer_step(writer, &reward, &reward, obs, &no, NULL));
        CHECK_OK(gpur_replay_sample(replay, most_rows[way], NULL, &batch));
        CHECK_EQUAL(kit_memory_used(device) - before, plan.device_bytes + plan.batch_bytes);
        gpur_batch_release(batch);
        CHECK_STATUS(gpur_replay_sample(replay, most_rows[way] + 1, NULL, &batch), GPUR_INVALID_ARGUMENT);
        gpur_writer_destroy(writer);
        gpur_replay_destroy(replay);
        CHECK_EQUAL(kit_memory_used(device), before);
    }
    gpur_replay_destroy(NULL);
    gpur_device_close(device);
}

/* block_rows and max_batch that are 0, as replay.h tells them. */
TEST(the_defaults_that_depend_on_the_layout_are_those_of_the_header)
{
    static const struct {
        int64_t capacity;
        int32_t stack, n_step; /* stack 0: packed */
        int64_t block_rows, max_batch;
    } rows[] = {
        {1000000, 0, 1, 2000, 4096}, {8000, 0, 1, 500, 4000}, {2, 0, 1, 1, 1},
        {1000000, 4, 1, 2000, 4096}, {8000, 4, 1, 125, 800},  {8000, 4, 3, 125, 571}, /* of 5 frames; of 7 */
        {8000, 4, 50, 125, 500},     {8000, 1, 1, 125, 2000}, {2, 1, 1, 1, 1},        /* of 8, which two stacks are */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int is_atari = rows[i].stack == 4;
        gpur_replay_config config =
            replay_fixture_config(is_atari ? atari : melee, is_atari ? 8 : 5, rows[i].capacity, 0, 0);
        gpur_replay_config checked;
        gpur_schema schema;
        config.layout = rows[i].stack ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS, config.n_step = rows[i].n_step;
        config.frame_stack = rows[i].stack ? rows[i].stack : 1;
        CHECK_OK(gpur_replay_config_check(&config, &checked, &schema));
        TEST_REQUIRE(checked.block_rows == rows[i].block_rows && checked.max_batch == rows[i].max_batch,
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
    CHECK_STATUS(gpur_replay_get_field(replay, 5, &info), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("field 5; there are 5 fields");
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

TEST(an_older_callers_shorter_config_is_understood)
{
    gpur_replay_config config = replay_fixture_config(melee, 5, 100, 0, 0);
    gpur_replay_plan plan = {.size = offsetof(gpur_replay_plan, pinned_bytes)};
    config.size = AT(staging_blocks);
    config.staging_blocks = -1; /* beyond what this caller's struct has */
    plan.pinned_bytes = -1;
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_EQUAL(plan.ring_bytes, 25600);
    CHECK_EQUAL(plan.pinned_bytes, -1);
}

TEST(finished_rows_are_refused_by_linked_replays)
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
    CHECK_MESSAGE("use gpur_writer_reset and gpur_writer_step_ex");
    CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, fields), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("use gpur_writer_reset and gpur_writer_step_ex");
    CHECK_EQUAL(kit_stats(s.replay).appended, 0);
    replay_fixture_close(&s);
}

/* Environment env's stack of frames at - 2 to at, of 4 bytes each, that start with frame 0. */
enum { STACK = 3, PIXELS = 4, ENVS = 2 };

static void put_stacks(unsigned char *obs, int at, int32_t axis)
{
    for (int i = 0; i < ENVS * STACK * PIXELS; i++) {
        const int in_stack = i % (STACK * PIXELS), env = i / (STACK * PIXELS);
        const int frame = at - STACK + 1 + (axis == GPUR_STACK_LAST ? in_stack % STACK : in_stack / PIXELS);
        const int pixel = axis == GPUR_STACK_LAST ? in_stack / STACK : in_stack % PIXELS;
        obs[i] = frame < 0 ? 0 : (unsigned char)(1 + 100 * env + 10 * frame + pixel);
    }
}

/* A stack whose older frames are others than were given before: refused, named, and nothing has changed. */
static void check_stacks(int32_t axis)
{
    enum { STEPS = 5, BYTES = ENVS * STACK * PIXELS };
    const gpur_field first = {"obs", GPUR_UINT8, {STACK, PIXELS}}, last = {"obs", GPUR_UINT8, {PIXELS, STACK}};
    gpur_field fields[5] = {axis == GPUR_STACK_LAST ? last : first, melee[1], melee[2], {0}, melee[4]};
    fields[3] = fields[0], fields[3].name = "next_obs";
    gpur_replay_config config = replay_fixture_config(fields, 5, 64, 8, 10);
    const int32_t action[ENVS] = {0};
    const float reward[ENVS] = {0};
    const uint8_t no[ENVS] = {0};
    unsigned char obs[BYTES], next[BYTES], got[STEPS * BYTES];
    int64_t ids[STEPS * ENVS];
    gpur_batch *batch = NULL;
    replay_fixture s;
    config.layout = GPUR_LAYOUT_FRAMES, config.frame_stack = STACK, config.stack_axis = axis;
    CHECK(replay_fixture_open(&s, test_device(), &config, ENVS));
    put_stacks(obs, 0, axis);
    CHECK_OK(gpur_writer_reset(s.writer, -1, obs));
    for (int t = 0; t < STEPS; t++) {
        put_stacks(next, t + 1, axis);
        for (int bad = 0; bad < STACK - 1; bad++) { /* one pixel of a frame that was there before */
            char message[80];
            const int at = axis == GPUR_STACK_LAST ? STACK + bad : bad * PIXELS + 1;
            next[at]++;
            snprintf(message, sizeof message, "next_obs of environment 0 has a frame %d of its stack", bad);
            CHECK_STATUS(gpur_writer_step(s.writer, action, reward, next, no, NULL), GPUR_INVALID_ARGUMENT);
            CHECK_MESSAGE(message);
            next[at]--;
        }
        CHECK_OK(gpur_writer_step(s.writer, action, reward, next, no, NULL));
    }
    for (int64_t i = 0; i < STEPS * ENVS; i++)
        ids[i] = i;
    CHECK_OK(gpur_replay_gather(s.replay, STEPS * ENVS, ids, NULL, &batch));
    for (int is_next = 0; is_next < 2; is_next++) {
        CHECK_OK(gpur_batch_read(batch, is_next ? "next_obs" : "obs", got, sizeof got));
        for (int t = 0; t < STEPS; t++) {
            put_stacks(obs, t + is_next, axis);
            CHECK(memcmp(got + t * BYTES, obs, sizeof obs) == 0);
        }
    }
    gpur_batch_release(batch);
    replay_fixture_close(&s);
}

TEST(stacks_that_are_not_the_environments_history_are_refused)
{
    check_stacks(GPUR_STACK_FIRST);
    check_stacks(GPUR_STACK_LAST);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(bad_schemas_are_refused_with_the_reason);
    RUN(bad_settings_are_refused_with_value_and_range);
    RUN(a_presets_priorities_may_stay_where_there_are_none);
    RUN(a_refused_create_leaves_no_handle_and_no_memory);
    RUN(every_failing_allocation_of_the_callers_is_refused_cleanly);
    RUN(the_capacity_that_is_said_to_fit_is_planned_to);
    RUN(what_the_ring_shares_its_memory_with_counts);
    RUN(the_plan_of_the_papers_replay_is_exact);
    RUN(a_million_atari_transitions_fit_in_7_3_gigabytes);
    RUN(links_and_priorities_take_what_the_documents_say);
    RUN(the_device_holds_what_the_plan_says);
    RUN(the_defaults_that_depend_on_the_layout_are_those_of_the_header);
    RUN(fields_lie_as_in_a_c_struct);
    RUN(an_older_callers_shorter_config_is_understood);
    RUN(finished_rows_are_refused_by_linked_replays);
    RUN(stacks_that_are_not_the_environments_history_are_refused);
    return test_main_end();
}
