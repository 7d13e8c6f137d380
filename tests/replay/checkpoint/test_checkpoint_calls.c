/* SPDX-License-Identifier: MIT */
/* What the calls with files do: rings of any size, the same bytes twice, what a file tells, weights, progress. */
#include "support/file_scene.h"
#include "support/replay_kit.h"
#include "test.h"

#include <unistd.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_calls: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

enum { PLAYED = 58 };

/* A ring of several MiB that has gone round, so that chunks begin and end in mid-row. */
TEST(a_large_ring_comes_back_whole)
{
    const gpur_replay_config config = kit_plain_config(70000, 512, 64, GPUR_FLUSH_AUTO);
    const char *const path = scene_path("large");
    const int64_t ids[] = {50000, 50001, 65536, 69999, 70000, 98303, 98304, 119998, 119999};
    kit_scene from, to;
    CHECK(kit_open(&from, test_device(), &config, 1));
    CHECK(kit_open(&to, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&from, 120000));
    CHECK_OK(gpur_replay_save(from.replay, path, NULL));
    CHECK_OK(gpur_replay_load(to.replay, path, NULL));
    CHECK_OK(kit_gather(&to, 9, ids));
    for (int64_t id = 50000; id + 64 <= 120000; id += 64) {
        int64_t run[64];
        for (int i = 0; i < 64; i++)
            run[i] = id + i;
        CHECK_OK(kit_gather(&to, 64, run));
    }
    kit_close(&from);
    kit_close(&to);
}

TEST(saving_twice_writes_the_same_bytes)
{
    gpur_device *const device = test_device();
    const char *const names[] = {scene_path("once"), scene_path("twice")};
    unsigned char *data[2];
    int64_t bytes[2] = {0, 0};
    file_scene s;
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, PLAYED));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gpur_replay_save(s.replay, names[i], NULL));
        data[i] = read_file(names[i], &bytes[i]);
        CHECK(data[i]);
    }
    CHECK_EQUAL(bytes[0], bytes[1]);
    CHECK(memcmp(data[0], data[1], (size_t)bytes[0]) == 0);
    free(data[0]);
    free(data[1]);
    scene_close(&s);
    gpur_device_close(device);
}

TEST(an_empty_replay_comes_back_empty)
{
    gpur_device *const device = test_device();
    const char *const path = scene_path("empty");
    file_scene s;
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_OK(gpur_replay_save(s.replay, path, NULL));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, PLAYED));
    CHECK_OK(gpur_replay_load(s.replay, path, NULL));
    CHECK_EQUAL(gpur_replay_size(s.replay), 0);
    const float obs[SCENE_ENVS * SCENE_FEATURES] = {0};
    const float reward[SCENE_ENVS] = {0};
    const int32_t action[SCENE_ENVS] = {0};
    const uint8_t ended[SCENE_ENVS] = {0};
    CHECK_STATUS(gpur_writer_step(s.writer, action, reward, obs, ended, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("no open episode");
    scene_close(&s);
    gpur_device_close(device);
}

TEST(a_file_tells_what_is_in_it)
{
    gpur_device *const device = test_device();
    const char *const replay = scene_path("replay"), *const learner = scene_path("learner");
    const char *const weights = scene_path("weights");
    gpur_checkpoint_info info = {.size = sizeof info};
    file_scene s;
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, PLAYED));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    CHECK_OK(gpur_learner_save_weights(s.learner, weights, NULL));
    CHECK_OK(gpur_checkpoint_get_info(replay, &info));
    CHECK(strcmp(info.kind, "replay") == 0 && strcmp(info.version, gpur_version()) == 0);
    CHECK_EQUAL(info.rows, 100);
    CHECK_EQUAL(info.capacity, 100);
    CHECK_EQUAL(info.first_id, PLAYED * SCENE_ENVS - 100);
    CHECK_EQUAL(info.writers, 1);
    CHECK_EQUAL(info.steps, -1);
    CHECK_OK(gpur_checkpoint_get_info(learner, &info));
    CHECK(strcmp(info.kind, "learner") == 0);
    CHECK_EQUAL(info.steps, 32);
    CHECK_EQUAL(info.rows, -1);
    CHECK_EQUAL(info.weights, SCENE_FEATURES * 16 + 16 + 16 * 3 + 3);
    CHECK_OK(gpur_checkpoint_get_info(weights, &info));
    CHECK(strcmp(info.kind, "weights") == 0);
    CHECK_EQUAL(info.tensors, gpur_learner_weight_count(s.learner));
    scene_close(&s);
    gpur_device_close(device);
}

TEST(weights_go_to_another_learner)
{
    gpur_device *const device = test_device();
    const char *const weights = scene_path("weights");
    const float obs[SCENE_FEATURES] = {0.1f, -0.2f, 0.3f, -0.4f, 0.5f};
    float q[3], other_q[3];
    file_scene s, other;
    CHECK_OK(scene_open(&s, device, 1));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, PLAYED));
    CHECK_OK(gpur_learner_save_weights(s.learner, weights, NULL));
    CHECK_OK(scene_open(&other, device, 1));
    CHECK_OK(gpur_learner_load_weights(other.learner, weights, NULL));
    CHECK_OK(gpur_learner_load_weights(s.learner, weights, NULL)); /* its older copy acts as well */
    CHECK_OK(gpur_learner_q_values(s.learner, 1, obs, q, NULL));
    CHECK_OK(gpur_learner_q_values(other.learner, 1, obs, other_q, NULL));
    CHECK(memcmp(q, other_q, sizeof q) == 0);
    scene_close(&other);
    CHECK_OK(scene_open(&other, device, 0));
    CHECK_STATUS(gpur_learner_load_weights(other.learner, weights, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_load(other.learner, weights, NULL), GPUR_FILE_ERROR);
    CHECK_MESSAGE("it is a weights file; it must be a learner file");
    scene_close(&other);
    scene_close(&s);
    gpur_device_close(device);
}

typedef struct listener {
    int64_t done, all, calls, stop_after;
    int backwards;
} listener;

static int32_t hear(void *user, int64_t done, int64_t all)
{
    listener *const l = user;
    l->backwards |= done <= l->done || done > all || (l->calls > 0 && all != l->all);
    l->done = done;
    l->all = all;
    return ++l->calls == l->stop_after;
}

TEST(progress_is_told_and_interrupts)
{
    gpur_device *const device = test_device();
    const char *const path = scene_path("told");
    int64_t before = 0, after = 0;
    gpur_checkpoint_options options;
    listener heard = {0};
    file_scene s;
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = hear;
    options.progress_user = &heard;
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, 20));
    CHECK_OK(gpur_replay_save(s.replay, path, &options));
    CHECK(heard.calls > 0 && heard.done == heard.all && !heard.backwards);
    unsigned char *const first = read_file(path, &before);
    CHECK_OK(scene_run(&s, 20, 30));
    heard = (listener){.stop_after = 1};
    CHECK_STATUS(gpur_replay_save(s.replay, path, &options), GPUR_INTERRUPTED);
    unsigned char *const second = read_file(path, &after);
    CHECK_EQUAL(before, after);
    CHECK(memcmp(first, second, (size_t)before) == 0);
    CHECK(access(scene_path("told.part"), F_OK) != 0);
    CHECK_EQUAL(gpur_replay_size(s.replay), 90);
    heard = (listener){.stop_after = 1};
    CHECK_STATUS(gpur_replay_load(s.replay, path, &options), GPUR_INTERRUPTED);
    CHECK_EQUAL(gpur_replay_size(s.replay), 90);
    heard = (listener){0};
    CHECK_OK(gpur_replay_load(s.replay, path, &options));
    CHECK(heard.done == heard.all && !heard.backwards);
    CHECK_EQUAL(gpur_replay_size(s.replay), 60);
    free(first);
    free(second);
    scene_close(&s);
    gpur_device_close(device);
}

/* It reads the file once, so it can be ended until all is read; so can that into a learner. */
TEST(a_load_into_an_empty_replay_is_interrupted)
{
    gpur_device *const device = test_device();
    const char *const replay = scene_path("replay"), *const learner = scene_path("learner");
    gpur_checkpoint_info info = {.size = sizeof info};
    gpur_checkpoint_options options;
    listener heard = {.stop_after = 1};
    file_scene s, empty;
    CHECK_OK(gpur_checkpoint_options_init(&options, sizeof options));
    options.progress = hear;
    options.progress_user = &heard;
    CHECK_OK(scene_open(&s, device, 0));
    CHECK_OK(scene_open(&empty, device, 0));
    CHECK_OK(scene_begin(&s, 0));
    CHECK_OK(scene_run(&s, 0, PLAYED));
    CHECK_OK(gpur_replay_save(s.replay, replay, NULL));
    CHECK_OK(gpur_learner_save(s.learner, learner, NULL));
    CHECK_OK(gpur_checkpoint_get_info(replay, &info));
    CHECK_STATUS(gpur_replay_load(empty.replay, replay, &options), GPUR_INTERRUPTED);
    CHECK_EQUAL(heard.all, info.bytes);
    CHECK_EQUAL(gpur_replay_size(empty.replay), 0);
    heard = (listener){.stop_after = 1};
    CHECK_STATUS(gpur_learner_load(empty.learner, learner, &options), GPUR_INTERRUPTED);
    CHECK_OK(gpur_replay_load(empty.replay, replay, NULL));
    CHECK_EQUAL(gpur_replay_size(empty.replay), 100);
    scene_close(&empty);
    scene_close(&s);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_large_ring_comes_back_whole);
    RUN(saving_twice_writes_the_same_bytes);
    RUN(an_empty_replay_comes_back_empty);
    RUN(a_file_tells_what_is_in_it);
    RUN(weights_go_to_another_learner);
    RUN(progress_is_told_and_interrupts);
    RUN(a_load_into_an_empty_replay_is_interrupted);
    scene_remove_folder();
    return test_main_end();
}

#endif
