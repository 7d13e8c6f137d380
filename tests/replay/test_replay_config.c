/* SPDX-License-Identifier: MIT */
/* Schemas, settings, plans: what is refused, in which words, and what the accepted ones come to. */
#include "support/replay_kit.h"
#include "test.h"
#include "base/red_zone.h"

#include <stddef.h>

#define LONG_NAME "a_name_of_exactly_64_characters_a_name_of_exactly_64_characters_"

typedef struct refusal {
    gpur_field fields[3];
    int32_t count;
    const char *message;
} refusal;

static const gpur_field one_float = {"x", GPUR_FLOAT32, {0}};

TEST(bad_schemas_are_refused_with_the_reason)
{
    static const refusal refusals[] = {
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
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const gpur_replay_config config = kit_config(refusals[i].fields, refusals[i].count, 100, 0, 0);
        gpur_replay_plan plan = {.size = sizeof plan, .row_bytes = -7};
        CHECK_STATUS(gpur_replay_plan_bytes(&config, &plan), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(refusals[i].message);
        CHECK_EQUAL(plan.row_bytes, -7);
    }
    const gpur_replay_config config = kit_config(NULL, 1, 100, 0, 0);
    gpur_replay_plan plan = {.size = sizeof plan};
    CHECK_STATUS(gpur_replay_plan_bytes(&config, &plan), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("fields is NULL");
}

/* Sets one int32 or int64 or float of the config. */
typedef struct setting {
    size_t offset;
    int64_t value;
    int kind; /* 4, 8: an integer of that size; 1: a float of value / 1000 */
    const char *message;
} setting;
#define AT(member) offsetof(gpur_replay_config, member)

TEST(bad_settings_are_refused_with_value_and_range)
{
    static const setting settings[] = {
        {AT(capacity), 1, 8, "capacity is 1; it must be 2 to"},
        {AT(capacity), -5, 8, "capacity is -5"},
        {AT(capacity), INT64_MAX, 8, "capacity is 9223372036854775807"},
        {AT(update_size), -1, 8, "update_size is -1"},
        {AT(update_size), 60, 8, "room for a batch of max_batch = 50 beside a block of update_size = 60"},
        {AT(update_size), 100, 8, "capacity is 100; it must have room"},
        {AT(max_batch), -1, 8, "max_batch is -1"},
        {AT(max_batch), 100, 8, "capacity is 100; it must have room"},
        {AT(min_size), 101, 8, "min_size is 101; it must be 0 to the capacity, 100"},
        {AT(min_size), -1, 8, "min_size is -1"},
        {AT(staging_blocks), 1, 4, "staging_blocks is 1; it must be 2 to 64"},
        {AT(staging_blocks), 65, 4, "staging_blocks is 65"},
        {AT(index_source), 5, 4, "index_source is 5"},
        {AT(feed), 2, 4, "feed is 2"},
        {AT(flush), -1, 4, "flush is -1"},
        {AT(when_full), 2, 4, "when_full is 2"},
        {AT(gamma), 1001, 1, "gamma is 1.001; it must be 0 to 1"},
        {AT(gamma), -1, 1, "gamma is -0.001"},
        {AT(reward_clip), -1, 1, "reward_clip is -0.001"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        gpur_replay_config config = kit_config(&one_float, 1, 100, 10, 50);
        unsigned char *const at = (unsigned char *)&config + settings[i].offset;
        const int32_t narrow = (int32_t)settings[i].value;
        const float real = (float)settings[i].value / 1000;
        const void *const from = settings[i].kind == 8   ? (const void *)&settings[i].value
                                 : settings[i].kind == 4 ? (const void *)&narrow
                                                         : (const void *)&real;
        memcpy(at, from, settings[i].kind == 8 ? 8 : 4);
        gpur_replay_plan plan = {.size = sizeof plan};
        CHECK_STATUS(gpur_replay_plan_bytes(&config, &plan), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(settings[i].message);
    }
}

TEST(a_refused_create_leaves_no_handle_and_no_memory)
{
    gpur_device *const device = test_device();
    gpur_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_replay *replay = (gpur_replay *)&before;
    gpur_replay_config config = kit_config(&one_float, 1, 100, 0, 0);
    CHECK_OK(gpur_device_get_info(device, &before));
    CHECK_STATUS(gpur_replay_create(NULL, &config, &replay), GPUR_INVALID_ARGUMENT);
    CHECK(replay == NULL);
    CHECK_STATUS(gpur_replay_create(device, NULL, &replay), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_replay_create(device, &config, NULL), GPUR_INVALID_ARGUMENT);
    config.capacity = (int64_t)1 << 44;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK(replay == NULL);
    CHECK_MESSAGE("a capacity of 17592186044416 takes 1125899906842624 bytes");
    CHECK_OK(gpur_device_get_info(device, &after));
    CHECK_EQUAL(after.memory_used, before.memory_used);
    gpur_device_close(device);
}

/* Taking that much would be slow, so it is planned. Priorities grow in steps. */
TEST(the_capacity_that_is_said_to_fit_is_planned_to)
{
    gpur_device *const device = test_device();
    const gpur_field wide = {"x", GPUR_FLOAT32, {300}};
    for (int way = 0; way < 4; way++) {
        const int64_t capacity = (int64_t)1 << (way < 2 ? 44 : 30);
        gpur_replay_config config = kit_config(way < 2 ? &one_float : &wide, 1, capacity, 0, 0);
        config.prioritized = way > 1, config.feed = way & 1 ? GPUR_FEED_SCATTER : GPUR_FEED_COPY;
        config.weight_norm = way > 2 ? GPUR_WEIGHT_NORM_MEMORY : GPUR_WEIGHT_NORM_BATCH;
        CHECK(kit_says_what_fits(device, &config));
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
    gpur_replay_config config = kit_config(&wide, 1, rows + 1, 1, rows);
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("no ring fits on ");
    CHECK_MESSAGE("a batch of max_batch = ");
    config = kit_config(&wide, 1, rows / 3 + 2, rows / 3, 1);
    if (!test_on_cuda()) {
        CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
        CHECK_MESSAGE("no ring fits on ");
        CHECK_MESSAGE(" 4 staging blocks of update_size = ");
    }
    gpur_device_close(device);
}

/* The rows of the paper: 27 + 1 + 1 + 27 + 1 numbers [Parr 2018, section 4]. */
typedef struct melee_row {
    float obs[27];
    int32_t action;
    float reward;
    float next_obs[27];
    uint8_t terminated;
} melee_row;

static const gpur_field melee[] = {{"obs", GPUR_FLOAT32, {27}},
                                   {"action", GPUR_INT32, {0}},
                                   {"reward", GPUR_FLOAT32, {0}},
                                   {"next_obs", GPUR_FLOAT32, {27}},
                                   {"terminated", GPUR_BOOL, {0}}};

TEST(the_plan_of_the_papers_replay_is_exact)
{
    gpur_replay_config config = kit_config(melee, 5, 0, 0, 0);
    gpur_replay_plan plan = {.size = sizeof plan};
    CHECK_OK(gpur_replay_config_preset(&config, "melee-gpu"));
    CHECK_EQUAL(config.capacity, 1000000);
    CHECK_EQUAL(config.update_size, 2000);
    CHECK_NEAR(config.gamma, 0.99, 1e-7);
    CHECK_NEAR(config.reward_clip, 1, 0);
    CHECK(config.fields == melee && config.field_count == 5);
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_EQUAL(plan.row_bytes, 228);
    CHECK_EQUAL(plan.row_bytes, sizeof(melee_row));
    CHECK_EQUAL(plan.row_pitch, 256);
    CHECK_EQUAL(plan.ring_bytes, 256000000);
    CHECK_EQUAL(plan.feed_bytes, 256);
    CHECK_EQUAL(plan.pinned_bytes, 4 * 2000 * 256 + 2 * 4096 * 8);
    CHECK_EQUAL(plan.batch_bytes, 4096 * (2 * 108 + 4 + 4 + 1 + 4 + 4 + 8) + 9 * GPUR_RED_ZONE);
    CHECK_EQUAL(plan.device_bytes, 256000256);
    config.feed = GPUR_FEED_SCATTER;
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_EQUAL(plan.feed_bytes, 256 + 2000 * 256);
    CHECK_STATUS(gpur_replay_config_preset(&config, "doom"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no replay preset \"doom\"; there are \"melee-gpu\"");
}

TEST(the_device_holds_what_the_plan_says)
{
    gpur_device *const device = test_device();
    gpur_replay_config config = kit_config(melee, 5, 5000, 100, 128);
    gpur_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_replay *replay = NULL;
    for (config.feed = GPUR_FEED_COPY; config.feed <= GPUR_FEED_SCATTER; config.feed++) {
        CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
        CHECK_OK(gpur_device_get_info(device, &before));
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        CHECK_OK(gpur_device_get_info(device, &after));
        CHECK_EQUAL(after.memory_used - before.memory_used, plan.device_bytes);
        gpur_replay_destroy(replay);
        CHECK_OK(gpur_device_get_info(device, &after));
        CHECK_EQUAL(after.memory_used, before.memory_used);
    }
    gpur_replay_destroy(NULL);
    gpur_device_close(device);
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
    const gpur_replay_config config = kit_config(fields, 5, 100, 0, 0);
    gpur_replay_plan plan = {.size = sizeof plan};
    gpur_field_info info = {.size = sizeof info};
    gpur_replay *replay = NULL;
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
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
    gpur_replay_config config = kit_config(melee, 5, 100, 0, 0);
    gpur_replay_plan plan = {.size = offsetof(gpur_replay_plan, pinned_bytes)};
    config.size = AT(staging_blocks);
    config.staging_blocks = -1; /* beyond what this caller's struct has */
    plan.pinned_bytes = -1;
    CHECK_OK(gpur_replay_plan_bytes(&config, &plan));
    CHECK_EQUAL(plan.ring_bytes, 25600);
    CHECK_EQUAL(plan.pinned_bytes, -1);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(bad_schemas_are_refused_with_the_reason);
    RUN(bad_settings_are_refused_with_value_and_range);
    RUN(a_refused_create_leaves_no_handle_and_no_memory);
    RUN(the_capacity_that_is_said_to_fit_is_planned_to);
    RUN(what_the_ring_shares_its_memory_with_counts);
    RUN(the_plan_of_the_papers_replay_is_exact);
    RUN(the_device_holds_what_the_plan_says);
    RUN(fields_lie_as_in_a_c_struct);
    RUN(an_older_callers_shorter_config_is_understood);
    return test_main_end();
}
