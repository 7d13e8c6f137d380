/* SPDX-License-Identifier: MIT */
/* Threads that append, draw, update and train at the same time: no draw finds a row that is gone, and no node of the
 * tree is ever lost. */
#include "learn/learner.h"
#include "support/learn_world.h"
#include "support/replay_kit.h"
#include "test.h"

#include <pthread.h>

enum { CAPACITY = 700, BATCH = 32, THREADS = 2 };

static int rounds(void)
{
#if defined(__SANITIZE_THREAD__) || defined(GPUR_RACE_CHECK)
    return 20;
#else
    return test_is_long() ? 20000 : 1000;
#endif
}

static kit_scene scene;
static atomic_int stop;

/* Fields that follow from the id alone: rows of one writer come in the order of its appends, and there is one. */
static void *append_rows(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop))
        if (kit_append_next(&scene, 7) != GPUR_OK)
            test_fail(__FILE__, __LINE__);
    return NULL;
}

static void draw_and_update(uint64_t *random)
{
    int64_t ids[BATCH];
    float priorities[BATCH];
    gpur_batch *batch = NULL;
    CHECK_OK(gpur_replay_sample(scene.replay, BATCH, NULL, &batch));
    CHECK_EQUAL(kit_wrong_bytes(&scene.kit, batch, ids), 0);
    gpur_batch_release(batch);
    for (int b = 0; b < BATCH; b++) {
        CHECK(ids[b] >= 0);
        priorities[b] = (float)kit_below(random, 100);
    }
    CHECK_OK(gpur_replay_update_priorities(scene.replay, BATCH, ids, priorities, NULL));
}

static void *draw_rows(void *seed)
{
    uint64_t random = *(const uint64_t *)seed;
    for (int i = 0; i < rounds(); i++)
        draw_and_update(&random);
    return NULL;
}

static int64_t wrong_nodes(gpur_replay *replay)
{
    int64_t wrong = -1;
    return gpur_replay_check_priorities(replay, &wrong) == GPUR_OK ? wrong : -1;
}

static void check_crowd(int32_t norm, int32_t feed)
{
    gpur_replay_config config = kit_plain_config(CAPACITY, 50, BATCH, GPUR_FLUSH_AUTO);
    pthread_t appender, drawers[THREADS];
    uint64_t seeds[THREADS] = {1, 2};
    config.prioritized = 1, config.index_source = GPUR_PRIORITIZED, config.weight_norm = norm, config.feed = feed;
    config.beta.first = config.beta.last = 0.0f; /* the kit wants weights of 1 */
    CHECK(kit_open(&scene, test_device(), &config, 1));
    CHECK_OK(kit_append_next(&scene, 100));
    atomic_store(&stop, 0);
    CHECK(pthread_create(&appender, NULL, append_rows, NULL) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&drawers[t], NULL, draw_rows, &seeds[t]) == 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(drawers[t], NULL);
    CHECK_EQUAL(wrong_nodes(scene.replay), 0); /* appends still go on */
    atomic_store(&stop, 1);
    pthread_join(appender, NULL);
    CHECK_EQUAL(wrong_nodes(scene.replay), 0);
    kit_close(&scene);
}

TEST(draws_find_their_rows_and_the_tree_stays_whole_beside_appends)
{
    check_crowd(GPUR_WEIGHT_NORM_BATCH, GPUR_FEED_COPY);
    check_crowd(GPUR_WEIGHT_NORM_MEMORY, GPUR_FEED_SCATTER);
}

static learn_world world;

static void *append_world(void *unused)
{
    (void)unused;
    for (int i = 0; !atomic_load(&stop); i++)
        if (gpur_writer_append(world.writer, 10, world.rows + i % 40 * 10, NULL) != GPUR_OK)
            test_fail(__FILE__, __LINE__);
    return NULL;
}

TEST(a_learner_trains_on_whole_batches_beside_appends)
{
    gpur_device *const device = test_device();
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    pthread_t appender;
    int64_t ids[16];
    config.index_source = GPUR_PRIORITIZED_PLAIN;
    CHECK_OK(world_open_prioritized(&world, device, WORLD_ROWS, GPUR_WEIGHT_NORM_MEMORY));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    atomic_store(&stop, 0);
    CHECK(pthread_create(&appender, NULL, append_world, NULL) == 0);
    for (int i = 0; i < rounds() / 5; i++) {
        CHECK_OK(gpur_learner_train(learner, 10));
        CHECK_OK(gpur_learner_sync(learner));
        CHECK_OK(gpur_device_copy(device, ids, learner->step.batch.id, sizeof ids));
        for (int b = 0; b < 16; b++)
            CHECK(ids[b] >= 0);
    }
    atomic_store(&stop, 1);
    pthread_join(appender, NULL);
    CHECK_EQUAL(wrong_nodes(world.replay), 0);
    CHECK_OK(gpur_replay_get_priority_stats(world.replay, &stats));
    CHECK_EQUAL(stats.updates + stats.stale + stats.invalid, rounds() / 5 * 10 * 16);
    CHECK_EQUAL(stats.invalid, 0);
    gpur_learner_destroy(learner);
    world_close(&world);
    gpur_device_close(device);
}

TEST(an_empty_window_makes_the_step_a_counted_nothing)
{
    gpur_device *const device = test_device();
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    config.index_source = GPUR_PRIORITIZED;
    CHECK_OK(world_open_prioritized(&world, device, WORLD_ROWS, GPUR_WEIGHT_NORM_BATCH));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 3));
    CHECK_OK(world_set_window(learner, 0));
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_OK(world_set_window(learner, WORLD_ROWS));
    const gpur_learner_stats learned = world_stats(learner);
    CHECK_EQUAL(learned.steps, 3);
    CHECK_EQUAL(learned.skipped, 5);
    CHECK_OK(gpur_replay_get_priority_stats(world.replay, &stats));
    CHECK_EQUAL(stats.updates, 3 * 16);
    CHECK_EQUAL(stats.stale, 0);
    CHECK_EQUAL(wrong_nodes(world.replay), 0);
    gpur_learner_destroy(learner);
    world_close(&world);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(draws_find_their_rows_and_the_tree_stays_whole_beside_appends);
    RUN(a_learner_trains_on_whole_batches_beside_appends);
    RUN(an_empty_window_makes_the_step_a_counted_nothing);
    return test_main_end();
}
