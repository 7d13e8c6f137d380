/* SPDX-License-Identifier: MIT */
/* A replay that is made from what its file says of it loads the file, and saves the same bytes. */
#include "replay/checkpoint/describe.h"

#include "support/checkpoint_fixture.h"
#include "support/dpg_fixture.h"
#include "support/file_utils.h"
#include "test.h"

static const char *path;

/* Makes a replay from the file. */
static gpur_status open_again(gpur_device *device, gpur_replay_description *d, gpur_replay **replay)
{
    *replay = NULL;
    const gpur_status status = gpur_replay_describe_file(path, d);
    return status == GPUR_OK ? gpur_replay_create(device, &d->config, replay) : status;
}

static void check_variant(gpur_device *device, int variant)
{
    checkpoint_fixture s = {0};
    gpur_replay_description of_file, of_replay;
    gpur_replay *replay;
    CHECK_OK(checkpoint_fixture_start(&s, device, variant, 60));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    CHECK_OK(gpur_replay_describe(s.replay, &of_replay));
    CHECK_OK(open_again(device, &of_file, &replay));
    CHECK_EQUAL(of_file.rows, of_replay.rows);
    CHECK(of_file.rows > 0);
    CHECK_EQUAL(of_file.config.field_count, of_replay.config.field_count);
    for (int32_t i = 0; i < of_file.config.field_count; i++) {
        CHECK(strcmp(of_file.fields[i].name, of_replay.fields[i].name) == 0);
        CHECK(memcmp(of_file.fields[i].shape, of_replay.fields[i].shape, sizeof of_file.fields[i].shape) == 0);
    }
    CHECK_OK(gpur_replay_load(replay, path, NULL));
    CHECK(replay_is_as(replay, path));
    gpur_replay_destroy(replay);
    checkpoint_fixture_close(&s);
}

TEST(a_replay_made_from_its_file_loads_it)
{
    gpur_device *const device = test_device();
    path = test_file_path("rows");
    for (int variant = 0; variant < CHECKPOINT_VARIANTS; variant++)
        check_variant(device, variant);
    gpur_device_close(device);
    test_remove_folder();
}

TEST(names_with_words_of_a_shape_are_read)
{
    gpur_device *const device = test_device();
    const gpur_field fields[] = {
        {"a of b", GPUR_UINT8, {2, 3}}, {"x of 3 x 4 of", GPUR_INT64, {0}}, {"c", GPUR_BOOL, {7}}};
    gpur_replay_config config;
    gpur_replay_description d;
    gpur_replay *replay, *again;
    path = test_file_path("rows");
    CHECK_OK(gpur_replay_config_init(&config, sizeof config));
    config.capacity = 64, config.fields = fields, config.field_count = 3, config.gamma = 0.875f;
    CHECK_OK(gpur_replay_create(device, &config, &replay));
    CHECK_OK(gpur_replay_save(replay, path, NULL));
    CHECK_OK(open_again(device, &d, &again));
    for (int i = 0; i < 3; i++) {
        CHECK(strcmp(d.fields[i].name, fields[i].name) == 0 && d.fields[i].dtype == fields[i].dtype);
        CHECK(memcmp(d.fields[i].shape, fields[i].shape, sizeof fields[i].shape) == 0);
    }
    CHECK(d.config.gamma == 0.875f && d.rows == 0 && d.config.capacity == 64);
    gpur_replay_destroy(again);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    test_remove_folder();
}

TEST(files_that_are_none_of_a_replay_are_refused)
{
    gpur_device *const device = test_device();
    dpg_fixture f;
    gpur_replay_description d;
    const gpur_dpg_config config = dpg_fixture_config();
    path = test_file_path("learner");
    CHECK_FAILS(gpur_replay_describe_file(path, &d), GPUR_FILE_ERROR, "No such file");
    CHECK_OK(dpg_fixture_open(&f, device, 0));
    gpur_learner *const learner = dpg_fixture_learner(&f, &config);
    CHECK(learner);
    CHECK_OK(gpur_learner_save(learner, path, NULL));
    CHECK_FAILS(gpur_replay_describe_file(path, &d), GPUR_FILE_ERROR, "it must be a replay file");
    gpur_learner_destroy(learner);
    dpg_fixture_close(&f);
    gpur_device_close(device);
    test_remove_folder();
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_replay_made_from_its_file_loads_it);
    RUN(names_with_words_of_a_shape_are_read);
    RUN(files_that_are_none_of_a_replay_are_refused);
    return test_main_end();
}
