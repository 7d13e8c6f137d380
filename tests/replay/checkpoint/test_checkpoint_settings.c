/* SPDX-License-Identifier: MIT */
/* Files of replays and learners that are set otherwise are refused, by the setting that differs. */
#include "base/status.h"
#include "support/file_scene.h"
#include "support/replay_kit.h"
#include "test.h"

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_settings: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

enum { FEATURES = 2, FIELDS = 6 };
static char path[128]; /* of the file that is loaded: those of scene_path do not last */

/* 1 when a save of the replay writes the same bytes before and after the load, which must be refused. */
static int is_refused(gpur_replay *replay)
{
    const char *const names[] = {scene_path("before"), scene_path("after")};
    unsigned char *data[2] = {NULL, NULL};
    int64_t bytes[2] = {0, 0};
    gpur_status status = GPUR_OK;
    char why[512] = "";
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            status = gpur_replay_load(replay, path, NULL);
        snprintf(why, sizeof why, "%s", gpur_last_error());
        if (gpur_replay_save(replay, names[i], NULL) == GPUR_OK)
            data[i] = read_file(names[i], &bytes[i]);
    }
    const int same = data[0] && data[1] && bytes[0] == bytes[1] && memcmp(data[0], data[1], (size_t)bytes[0]) == 0;
    free(data[0]);
    free(data[1]);
    (void)gpur_fail(GPUR_INVALID_ARGUMENT, "%s", why); /* what the load said, for CHECK_MESSAGE */
    return status == GPUR_INVALID_ARGUMENT && same;
}

/* Linked, prioritized, of three steps; a stack may be either axis of an observation. */
static gpur_replay_config base_config(gpur_field *fields)
{
    const gpur_field all[FIELDS] = {{"obs", GPUR_FLOAT32, {FEATURES, FEATURES}},
                                    {"action", GPUR_INT32, {0}},
                                    {"reward", GPUR_FLOAT32, {0}},
                                    {"next_obs", GPUR_FLOAT32, {FEATURES, FEATURES}},
                                    {"terminated", GPUR_BOOL, {0}},
                                    {"discount", GPUR_FLOAT32, {0}}};
    memcpy(fields, all, sizeof all);
    gpur_replay_config config = kit_config(fields, FIELDS, 1000, 8, 32);
    config.n_step = 3;
    config.prioritized = 1;
    config.index_source = GPUR_PRIORITIZED;
    config.layout = GPUR_LINKED;
    config.frame_stack = FEATURES;
    config.frame_slack = 60;
    return config;
}

typedef struct change {
    void (*make)(gpur_replay_config *config);
    const char *message;
} change;

static void to_capacity(gpur_replay_config *config)
{
    config->capacity = 1001;
}
static void to_one_step(gpur_replay_config *config)
{
    config->n_step = 1;
}
static void to_packed(gpur_replay_config *config)
{
    config->layout = GPUR_PACKED;
    config->frame_slack = 0;
}
static void to_last_axis(gpur_replay_config *config)
{
    config->stack_axis = GPUR_STACK_LAST;
}
static void to_repeated_pad(gpur_replay_config *config)
{
    config->stack_pad = GPUR_PAD_REPEAT;
}
static void to_more_slack(gpur_replay_config *config)
{
    config->frame_slack = 61;
}
static void to_small_blocks(gpur_replay_config *config)
{
    config->update_size = 4;
}
static void to_large_blocks(gpur_replay_config *config)
{
    config->update_size = 56;
    config->max_batch = 8;
}
static void to_no_priorities(gpur_replay_config *config)
{
    config->prioritized = 0;
    config->index_source = GPUR_UNIFORM;
}
static void to_offset(gpur_replay_config *config)
{
    config->priority_offset = 0.25f;
}
static void to_gamma(gpur_replay_config *config)
{
    config->gamma = 0.5f;
}
static void to_clip(gpur_replay_config *config)
{
    config->reward_clip = 2.0f;
}

static const change changes[] = {
    {to_capacity, "capacity is \"1000\" in the file; this replay has \"1001\""},
    {to_one_step, "n_step is \"3\" in the file; this replay has \"1\""},
    {to_packed, "layout is \"linked\" in the file; this replay has \"packed\""},
    {to_last_axis, "stack_axis is \"first\" in the file; this replay has \"last\""},
    {to_repeated_pad, "stack_pad is \"zero\" in the file; this replay has \"repeat\""},
    {to_more_slack, "frame_slots is \"1060\" in the file; this replay has \"1061\""},
    {to_large_blocks, "frame_reach is \"60\" in the file"},
    {to_small_blocks, "group_rows is \"8\" in the file; this replay has \"4\""},
    {to_no_priorities, "prioritized is \"1\" in the file; this replay has \"0\""},
    {to_offset, "priority_offset is "},
    {to_gamma, "gamma is \"0.99"},
    {to_clip, "reward_clip is \"0\" in the file; this replay has \"2\""},
};

TEST(each_setting_of_a_replay_is_named)
{
    gpur_device *const device = test_device();
    gpur_field fields[FIELDS];
    gpur_replay *base = NULL, *other = NULL;
    gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_save(base, path, NULL));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        config = base_config(fields);
        changes[i].make(&config);
        CHECK_OK(gpur_replay_create(device, &config, &other));
        CHECK(is_refused(other));
        CHECK_MESSAGE(changes[i].message);
        gpur_replay_destroy(other);
    }
    gpur_replay_destroy(base);
    gpur_device_close(device);
}

/* A writer of these ways, with an episode begun: what a file has of it, and what a load would change. */
static void open_writer(gpur_replay *replay, int32_t autoreset, int32_t input, gpur_writer **writer)
{
    const float obs[FEATURES * FEATURES] = {1, 2, 3, 4};
    gpur_writer_config config;
    CHECK_OK(gpur_writer_config_init(&config, sizeof config));
    config.autoreset = autoreset;
    config.input = input;
    CHECK_OK(gpur_writer_open(replay, &config, writer));
    CHECK_OK(gpur_writer_reset(*writer, -1, obs));
}

static void check_ways(gpur_replay *replay, int32_t autoreset, int32_t input, const char *message)
{
    gpur_writer *writer = NULL;
    open_writer(replay, autoreset, input, &writer);
    CHECK(is_refused(replay));
    CHECK_MESSAGE(message);
    gpur_writer_destroy(writer);
}

TEST(another_way_of_steps_is_named)
{
    gpur_device *const device = test_device();
    gpur_field fields[FIELDS];
    gpur_replay *base = NULL, *other = NULL;
    gpur_writer *writer = NULL;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &base));
    CHECK_OK(gpur_replay_create(device, &config, &other));
    open_writer(base, GPUR_AUTORESET_NEXT_STEP, GPUR_INPUT_FRAMES, &writer);
    CHECK_OK(gpur_replay_save(base, path, NULL));
    check_ways(other, GPUR_AUTORESET_DISABLED, GPUR_INPUT_FRAMES,
               "writer 0 has autoreset next_step, input frames; this replay's has autoreset disabled, input frames");
    check_ways(other, GPUR_AUTORESET_SAME_STEP, GPUR_INPUT_FRAMES, "has autoreset same_step, input frames");
    check_ways(other, GPUR_AUTORESET_NEXT_STEP, GPUR_INPUT_STACKS, "has autoreset next_step, input stacks");
    gpur_writer_destroy(writer);
    gpur_replay_destroy(base);
    gpur_replay_destroy(other);
    gpur_device_close(device);
}

/* A state waits for a writer of its own way, also through another file. */
TEST(a_state_waits_for_a_writer_of_its_way)
{
    gpur_device *const device = test_device();
    gpur_field fields[FIELDS];
    gpur_replay *replay = NULL;
    gpur_writer *writer = NULL, *other = NULL;
    gpur_writer_config alike;
    const float obs[FEATURES] = {5, 6}, reward = 1;
    const int32_t action = 0;
    const uint8_t ended = 0;
    const gpur_replay_config config = base_config(fields);
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    open_writer(replay, GPUR_AUTORESET_NEXT_STEP, GPUR_INPUT_FRAMES, &writer);
    CHECK_OK(gpur_replay_save(replay, path, NULL));
    gpur_writer_destroy(writer);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_replay_load(replay, path, NULL));
        CHECK_OK(gpur_replay_save(replay, path, NULL));
    }
    CHECK_OK(gpur_writer_config_init(&alike, sizeof alike));
    alike.input = GPUR_INPUT_FRAMES;
    CHECK_OK(gpur_writer_open(replay, &alike, &other));
    CHECK_STATUS(gpur_writer_step(other, &action, &reward, obs, &ended, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no open episode");
    alike.autoreset = GPUR_AUTORESET_NEXT_STEP;
    CHECK_OK(gpur_writer_open(replay, &alike, &writer));
    CHECK_OK(gpur_writer_step(writer, &action, &reward, obs, &ended, NULL));
    gpur_writer_destroy(other);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
}

static void check_learners(gpur_device *device, int saved, int loaded, const char *message)
{
    file_scene s, other;
    CHECK_OK(scene_open(&s, device, saved));
    CHECK_OK(gpur_learner_save(s.learner, path, NULL));
    CHECK_OK(scene_open(&other, device, loaded));
    CHECK_STATUS(gpur_learner_load(other.learner, path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    scene_close(&other);
    scene_close(&s);
}

TEST(another_head_optimizer_or_input_is_named)
{
    gpur_device *const device = test_device();
    check_learners(device, 0, 1, "head is ");
    check_learners(device, 1, 0, "head is ");
    check_learners(device, 0, 2, "optimizer is \"adam\" in the file; this learner has \"rmsprop-torch\"");
    check_learners(device, 4, 8, "weights is ");
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    snprintf(path, sizeof path, "%s", scene_path("base"));
    RUN(each_setting_of_a_replay_is_named);
    RUN(another_way_of_steps_is_named);
    RUN(a_state_waits_for_a_writer_of_its_way);
    RUN(another_head_optimizer_or_input_is_named);
    scene_remove_folder();
    return test_main_end();
}

#endif
