/* SPDX-License-Identifier: MIT */
/* The linked layout's settings, its memory, and what it refuses. */
#include "replay/config.h"
#include "support/episode_kit.h"
#include "test.h"

static const gpur_field atari[] = {{"obs", GPUR_UINT8, {4, 84, 84}}, {"action", GPUR_INT32, {0}},
                                   {"reward", GPUR_FLOAT32, {0}},    {"next_obs", GPUR_UINT8, {4, 84, 84}},
                                   {"terminated", GPUR_BOOL, {0}},   {"truncated", GPUR_BOOL, {0}},
                                   {"discount", GPUR_FLOAT32, {0}},  {"previous", GPUR_INT64, {0}}};
static const gpur_field vector[] = {{"obs", GPUR_FLOAT32, {27}},
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

/* What the frames may take in all, staging included: 7.3 GB; all fields that a step knows, one or three steps. */
TEST(a_million_atari_transitions_fit_in_7_3_gigabytes)
{
    for (int32_t n = 1; n <= 3; n += 2) {
        gpur_replay_config config = kit_config(atari, 8, 1000000, 0, 0);
        config.layout = GPUR_LINKED, config.frame_stack = 4, config.n_step = n;
        const gpur_replay_plan plan = plan_of(&config);
        CHECK_EQUAL(plan.frame_bytes, 84 * 84);
        CHECK_EQUAL(plan.frames, 1000000 + 1000000 / 64);
        CHECK_EQUAL(plan.frame_ring_bytes, plan.frames * plan.frame_pitch);
        CHECK_EQUAL(plan.device_bytes, plan.ring_bytes + plan.feed_bytes + plan.frame_ring_bytes);
        CHECK(plan.device_bytes + plan.pinned_bytes <= 7300000000ll);
        CHECK(plan.frame_reach >= 4 * 8);
    }
}

TEST(a_replay_of_27_floats_takes_at_most_six_tenths_of_the_packed_one)
{
    gpur_replay_config config = kit_config(vector, 5, 1000000, 0, 0);
    const gpur_replay_plan packed = plan_of(&config);
    config.layout = GPUR_LINKED;
    const gpur_replay_plan linked = plan_of(&config);
    CHECK(packed.frames == 0 && packed.frame_ring_bytes == 0);
    CHECK_EQUAL(linked.row_bytes, packed.row_bytes);
    CHECK(10 * linked.device_bytes <= 6 * packed.device_bytes);
    CHECK(10 * (linked.device_bytes + linked.pinned_bytes) <= 6 * (packed.device_bytes + packed.pinned_bytes));
}

static int64_t used(gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    return gpur_device_get_info(device, &info) == GPUR_OK ? info.memory_used : -1;
}

TEST(the_device_holds_what_the_plan_of_a_linked_replay_says)
{
    gpur_device *const device = test_device();
    for (int32_t stack = 1; stack <= 4; stack += 3) {
        gpur_replay_config config = kit_config(stack == 1 ? vector : atari, stack == 1 ? 5 : 8, 700, 0, 0);
        gpur_replay *replay = NULL;
        gpur_batch *batch = NULL;
        gpur_writer *writer = NULL;
        config.layout = GPUR_LINKED, config.frame_stack = stack;
        const gpur_replay_plan plan = plan_of(&config);
        const int64_t before = used(device);
        CHECK_OK(gpur_replay_create(device, &config, &replay));
        CHECK_EQUAL(used(device) - before, plan.device_bytes);
        static const unsigned char obs[4 * 84 * 84], no;
        static const float reward;
        CHECK_OK(gpur_writer_create(replay, 1, &writer));
        CHECK_OK(gpur_writer_reset(writer, 0, obs));
        CHECK_OK(gpur_writer_step(writer, &reward, &reward, obs, &no, NULL));
        const int64_t most = stack == 1 ? 700 / 2 / 2 : 700 / 2 / 5; /* the default: rows of frames of their own fit */
        CHECK_OK(gpur_replay_sample(replay, most, NULL, &batch));
        CHECK_EQUAL(used(device) - before, plan.device_bytes + plan.batch_bytes);
        gpur_batch_release(batch);
        CHECK_STATUS(gpur_replay_sample(replay, most + 1, NULL, &batch), GPUR_INVALID_ARGUMENT);
        gpur_writer_destroy(writer);
        gpur_replay_destroy(replay);
        CHECK_EQUAL(used(device), before);
    }
    gpur_device_close(device);
}

/* With a slack of its own the ring of frames does not grow as the other does. */
TEST(the_capacity_that_is_said_to_fit_counts_its_frames)
{
    gpur_device *const device = test_device();
    gpur_device_info info = {.size = sizeof info};
    CHECK_OK(gpur_device_get_info(device, &info));
    for (int64_t part = 0; part <= 6; part += 3) {
        gpur_replay_config config = kit_config(atari, 8, 1000000000, 2000, 1);
        config.layout = GPUR_LINKED, config.frame_stack = 4;
        config.frame_slack = info.memory_free / 10 * part / (84 * 84);
        CHECK(kit_says_what_fits(device, &config));
    }
    gpur_device_close(device);
}

TEST(a_slack_that_fits_with_no_capacity_is_named)
{
    gpur_device *const device = test_device();
    gpur_replay *replay = NULL;
    gpur_replay_config config = kit_config(atari, 8, 100, 20, 10);
    config.layout = GPUR_LINKED, config.frame_stack = 4, config.frame_slack = 4000000000;
    CHECK_STATUS(gpur_replay_create(device, &config, &replay), GPUR_OUT_OF_MEMORY);
    CHECK_MESSAGE("the least capacity beside them, 30 with 4000000350 frames, ");
    gpur_device_close(device);
}

/* update_size and max_batch that are 0, as replay.h tells them. */
static void check_defaults(int64_t capacity, int32_t stack, int32_t n_step, int64_t update_size, int64_t max_batch)
{
    const gpur_field *const fields = stack == 4 ? atari : vector;
    gpur_replay_config config = kit_config(fields, stack == 4 ? 8 : 5, capacity, 0, 0), checked;
    gpur_schema schema;
    config.layout = stack ? GPUR_LINKED : GPUR_PACKED, config.frame_stack = stack ? stack : 1;
    config.n_step = n_step;
    CHECK_OK(gpur_replay_config_check(&config, &checked, &schema));
    CHECK_EQUAL(checked.update_size, update_size);
    CHECK_EQUAL(checked.max_batch, max_batch);
}

TEST(the_defaults_that_depend_on_the_layout_are_those_of_the_header)
{
    check_defaults(1000000, 0, 1, 2000, 4096);
    check_defaults(8000, 0, 1, 500, 4000);
    check_defaults(2, 0, 1, 1, 1);
    check_defaults(1000000, 4, 1, 2000, 4096);
    check_defaults(8000, 4, 1, 125, 800);  /* of 5 frames */
    check_defaults(8000, 4, 3, 125, 571);  /* of 7 */
    check_defaults(8000, 4, 50, 125, 500); /* of 8, which two stacks are */
    check_defaults(8000, 1, 1, 125, 2000); /* of 2 */
    check_defaults(2, 1, 1, 1, 1);
}

static void check_refused(const gpur_replay_config *config, const char *message)
{
    gpur_replay_plan plan = {.size = sizeof plan};
    CHECK_STATUS(gpur_replay_plan_bytes(config, &plan), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
}

#define REFUSED(member, value, message)                                                                                \
    do {                                                                                                               \
        gpur_replay_config changed_ = good;                                                                            \
        changed_.member = value;                                                                                       \
        check_refused(&changed_, message);                                                                             \
    } while (0)

TEST(bad_linked_settings_are_refused_with_value_and_range)
{
    gpur_replay_config good = kit_config(atari, 8, 1000, 10, 10);
    good.layout = GPUR_LINKED, good.frame_stack = 4;
    CHECK(plan_of(&good).device_bytes > 0);
    REFUSED(layout, 2, "layout is 2");
    REFUSED(frame_stack, 0, "frame_stack is 0; it must be 1 to 16");
    REFUSED(frame_stack, 17, "frame_stack is 17; it must be 1 to 16");
    REFUSED(frame_stack, 3, "frame_stack is 3 and the first axis of \"obs\" is 4 long");
    REFUSED(stack_axis, GPUR_STACK_LAST, "frame_stack is 4 and the last axis of \"obs\" is 84 long");
    REFUSED(stack_axis, 2, "stack_axis is 2");
    REFUSED(stack_pad, 2, "stack_pad is 2");
    REFUSED(frame_slack, -1, "frame_slack is -1");
    REFUSED(frame_slack, 4294967295, "a link of 32 bits tells 4294967294 apart");
    REFUSED(feed, GPUR_FEED_SCATTER, "fed by copies alone: set feed to GPUR_FEED_COPY");
    REFUSED(field_count, 3, "the schema has no field \"next_obs\"");
    gpur_field unlike[8];
    memcpy(unlike, atari, sizeof unlike);
    unlike[3].dtype = GPUR_BOOL;
    REFUSED(fields, unlike, "\"obs\" and \"next_obs\" differ");
}

TEST(finished_rows_are_refused)
{
    gpur_replay_config config = kit_config(vector, 5, 100, 7, 32);
    static const float values[64];
    const void *const fields[] = {values, values, values, values, values};
    kit_scene s;
    config.layout = GPUR_LINKED;
    CHECK(kit_open(&s, test_device(), &config, 1));
    CHECK_STATUS(gpur_writer_append(s.writer, 1, values, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("finished rows do not tell to which episode they belong: use gpur_writer_reset");
    CHECK_STATUS(gpur_writer_append_fields(s.writer, 1, fields, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("use gpur_writer_reset and gpur_writer_step_with");
    CHECK_STATUS(gpur_writer_try_append_fields(s.writer, 1, fields), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("use gpur_writer_reset and gpur_writer_step_with");
    CHECK_EQUAL(rows_appended(s.replay), 0);
    kit_close(&s);
}

/* A stack whose older frames are others than were given before: refused, named, and nothing has changed. */
static void check_stacks(int32_t last)
{
    const linked_setting setting = {.shape = {3, last},
                                    .writers = 1,
                                    .envs = 2,
                                    .ends_in = 1000000000,
                                    .capacity = 64,
                                    .update_size = 8,
                                    .max_batch = 8,
                                    .n_step = 1,
                                    .staging_blocks = 2};
    linked_world w;
    unsigned char obs[2 * 3 * PLAY_FRAME];
    const int32_t action[2] = {0};
    const float reward[2] = {0};
    const uint8_t no[2] = {0};
    const int64_t extra[2] = {0};
    const void *extras[PLAY_FIELDS] = {0};
    extras[PLAY_FIELDS - 1] = extra;
    CHECK(linked_open(&w, test_device(), &setting, 1));
    for (int steps = 0; steps < 5; steps++) {
        int64_t tags[HISTORY_MOST_STACK], wrong[HISTORY_MOST_STACK];
        history_stack(&w.plays[0].history, 0, tags);
        for (int32_t bad = 1; bad < 3; bad++) { /* frame `bad` of the stack before is the next one's bad - 1 */
            memcpy(wrong, tags + 1, 2 * sizeof *tags);
            wrong[2] = 1000000, wrong[bad - 1] += 1;
            play_stack(obs, setting.shape, wrong);
            const gpur_step_input input = {sizeof input, action, reward, obs, no, NULL, NULL, extras};
            char message[80];
            snprintf(message, sizeof message, "next_obs of environment 0 has a frame %d of its stack", (int)bad - 1);
            CHECK_STATUS(gpur_writer_step_with(w.plays[0].writers[1], &input), GPUR_INVALID_ARGUMENT);
            CHECK_MESSAGE(message);
        }
        CHECK_OK(play_step(&w.plays[0]));
    }
    CHECK_EQUAL(linked_wrong(&w, setting.max_batch), 0);
    linked_close(&w);
}

TEST(stacks_that_are_not_the_environments_history_are_refused)
{
    check_stacks(0);
    check_stacks(1);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_million_atari_transitions_fit_in_7_3_gigabytes);
    RUN(a_replay_of_27_floats_takes_at_most_six_tenths_of_the_packed_one);
    RUN(the_device_holds_what_the_plan_of_a_linked_replay_says);
    RUN(the_capacity_that_is_said_to_fit_counts_its_frames);
    RUN(a_slack_that_fits_with_no_capacity_is_named);
    RUN(the_defaults_that_depend_on_the_layout_are_those_of_the_header);
    RUN(bad_linked_settings_are_refused_with_value_and_range);
    RUN(finished_rows_are_refused);
    RUN(stacks_that_are_not_the_environments_history_are_refused);
    return test_main_end();
}
