/* SPDX-License-Identifier: MIT */
/* Saving and loading while other threads step and draw: a file has each call of a writer whole or not at all. */
#include "support/file_scene.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>

#ifndef GPUR_HAS_FILES

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    printf("test_checkpoint_threads: skipped: a build without cJSON or xxHash\n");
    return 77;
}

#else

/* A step of all environments takes several blocks, and waits for one in its midst. */
enum { ENVS = 48, UPDATE = 8, CAPACITY = 4096 };

typedef struct crowd {
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    atomic_int over;
    atomic_int bad; /* calls that failed */
} crowd;

static gpur_replay *open_replay(gpur_device *device)
{
    const gpur_field fields[] = {
        {"obs", GPUR_INT32, {0}},      {"action", GPUR_INT32, {0}},   {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_INT32, {0}}, {"terminated", GPUR_BOOL, {0}},
    };
    gpur_replay_config config = kit_config(fields, 5, CAPACITY, UPDATE, 64);
    config.staging_blocks = 2;
    gpur_replay *replay = NULL;
    return gpur_replay_create(device, &config, &replay) == GPUR_OK ? replay : NULL;
}

/* Step n ends in observation n + 1, whatever it begins with. */
static gpur_status step(gpur_writer *writer, int32_t n)
{
    int32_t next[ENVS], action[ENVS] = {0};
    float reward[ENVS] = {0};
    uint8_t terminated[ENVS] = {0};
    for (int env = 0; env < ENVS; env++)
        next[env] = n + 1;
    return gpur_writer_step(writer, action, reward, next, terminated, NULL);
}

static void *step_on(void *context)
{
    crowd *const c = context;
    for (int32_t n = 0; !atomic_load(&c->over); n++)
        if (step(c->writer, n) != GPUR_OK)
            atomic_fetch_add(&c->bad, 1);
    return NULL;
}

static void *draw_on(void *context)
{
    crowd *const c = context;
    while (!atomic_load(&c->over)) {
        gpur_batch *batch = NULL;
        const gpur_status status = gpur_replay_sample(c->replay, 32, NULL, &batch);
        if (status != GPUR_OK && status != GPUR_TOO_FEW)
            atomic_fetch_add(&c->bad, 1);
        gpur_batch_release(batch);
        gpur_replay_stats stats = {.size = sizeof stats};
        if (gpur_replay_get_stats(c->replay, &stats) != GPUR_OK)
            atomic_fetch_add(&c->bad, 1);
    }
    return NULL;
}

/* In a replay of its own the next step begins where the last one in the file ended. */
static void check_file(gpur_device *device, const char *path)
{
    gpur_replay *const replay = open_replay(device);
    gpur_writer *writer = NULL;
    gpur_batch *batch = NULL;
    gpur_replay_stats stats = {.size = sizeof stats};
    int32_t obs[2], next_obs[2];
    CHECK(replay);
    CHECK_OK(gpur_writer_create(replay, ENVS, &writer));
    CHECK_OK(gpur_replay_load(replay, path, NULL));
    CHECK_OK(gpur_replay_get_stats(replay, &stats));
    CHECK_EQUAL(stats.appended % ENVS, 0);
    CHECK_OK(step(writer, 1 << 20));
    const int64_t end = stats.first_id + stats.visible, ids[2] = {end - 1, end};
    if (stats.visible > 0) {
        CHECK_OK(gpur_replay_gather(replay, 2, ids, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "obs", obs, sizeof obs));
        CHECK_OK(gpur_batch_read(batch, "next_obs", next_obs, sizeof next_obs));
        gpur_batch_release(batch);
        CHECK_EQUAL(obs[1], next_obs[0]);
    }
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
}

TEST(files_have_calls_whole_or_not_at_all)
{
    crowd c = {.device = test_device()};
    const int32_t first[ENVS] = {0};
    pthread_t stepper, drawer;
    c.replay = open_replay(c.device);
    CHECK(c.replay);
    CHECK_OK(gpur_writer_create(c.replay, ENVS, &c.writer));
    CHECK_OK(gpur_writer_reset(c.writer, -1, first));
    CHECK(pthread_create(&stepper, NULL, step_on, &c) == 0);
    CHECK(pthread_create(&drawer, NULL, draw_on, &c) == 0);
    for (int i = 0; i < (test_is_long() ? 400 : 40) && atomic_load(&test_state.failures) == 0; i++) {
        const char *const path = scene_path("crowd");
        if (gpur_replay_save(c.replay, path, NULL) != GPUR_OK)
            atomic_fetch_add(&c.bad, 1);
        check_file(c.device, path);
        if (i % 4 == 3 && gpur_replay_load(c.replay, path, NULL) != GPUR_OK)
            atomic_fetch_add(&c.bad, 1);
    }
    atomic_store(&c.over, 1);
    pthread_join(stepper, NULL);
    pthread_join(drawer, NULL);
    CHECK_EQUAL(atomic_load(&c.bad), 0);
    gpur_writer_destroy(c.writer);
    gpur_replay_destroy(c.replay);
    gpur_device_close(c.device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(files_have_calls_whole_or_not_at_all);
    scene_remove_folder();
    return test_main_end();
}

#endif
