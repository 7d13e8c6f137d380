/* SPDX-License-Identifier: MIT */
/* Files of replays whose rows mean something else are refused, by the setting that differs. */
#include "file_scene.h"
#include "test.h"

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_settings: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

static void check_kinds(gpur_device *device, int saved, int loaded, const char *message)
{
    file_scene s, other;
    const char *const path = scene_path("kind");
    CHECK_OK(scene_open(&s, device, saved));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    CHECK_OK(scene_open(&other, device, loaded));
    CHECK_STATUS(gpur_replay_load(other.replay, path, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(message);
    scene_close(&other);
    scene_close(&s);
}

TEST(other_steps_layouts_and_priorities_are_named)
{
    gpur_device *const device = test_device();
    check_kinds(device, 6, 4, "n_step is \"3\" in the file; this replay has \"1\"");
    check_kinds(device, 7, 8, "n_step is \"1\" in the file; this replay has \"3\"");
    check_kinds(device, 8, 9, "stack_pad is \"zero\" in the file; this replay has \"repeat\"");
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(other_steps_layouts_and_priorities_are_named);
    scene_remove_folder();
    return test_main_end();
}

#endif
