/* SPDX-License-Identifier: MIT */
/* Train steps beside appends: no draw finds a row that is gone, and no node of the tree is ever lost. */
#include "learn/learner.h"
#include "support/learner_fixture.h"
#include "test.h"

#include <pthread.h>

static int rounds(void)
{
#if defined(__SANITIZE_THREAD__) || defined(GPUR_RACE_CHECK)
    return 20;
#else
    return test_is_long() ? 20000 : 1000;
#endif
}

static learner_fixture fixture;
static atomic_int stop;

static int64_t wrong_nodes(gpur_replay *replay)
{
    int64_t wrong = -1;
    return gpur_replay_check_priorities(replay, &wrong) == GPUR_OK ? wrong : -1;
}

static void *append_fixture(void *unused)
{
    (void)unused;
    for (int i = 0; !atomic_load(&stop); i++)
        if (gpur_writer_append(fixture.writer, 10, fixture.rows + i % 40 * 10, NULL) != GPUR_OK)
            test_fail(__FILE__, __LINE__);
    return NULL;
}

TEST(a_learner_trains_on_whole_batches_beside_appends)
{
    gpur_device *const device = test_device();
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    pthread_t appender;
    int64_t ids[16];
    config.index_source = GPUR_PRIORITIZED_INDEPENDENT;
    CHECK_OK(learner_fixture_open_prioritized(&fixture, device, FIXTURE_ROWS, GPUR_WEIGHT_NORM_MEMORY));
    CHECK_OK(gpur_learner_create(fixture.replay, &config, &learner));
    atomic_store(&stop, 0);
    CHECK(pthread_create(&appender, NULL, append_fixture, NULL) == 0);
    for (int i = 0; i < rounds() / 5; i++) {
        CHECK_OK(gpur_learner_train(learner, 10));
        CHECK_OK(gpur_learner_sync(learner));
        CHECK_OK(gpur_device_copy(device, ids, learner->step.batch.id, sizeof ids));
        for (int b = 0; b < 16; b++)
            CHECK(ids[b] >= 0);
    }
    atomic_store(&stop, 1);
    pthread_join(appender, NULL);
    CHECK_EQUAL(wrong_nodes(fixture.replay), 0);
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &stats));
    CHECK_EQUAL(stats.updates + stats.stale + stats.invalid, rounds() / 5 * 10 * 16);
    CHECK_EQUAL(stats.invalid, 0);
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
    gpur_device_close(device);
}

TEST(an_empty_window_makes_the_step_a_counted_nothing)
{
    gpur_device *const device = test_device();
    gpur_learner_config config = learner_fixture_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    gpur_priority_stats stats = {.size = sizeof stats};
    config.index_source = GPUR_PRIORITIZED_STRATIFIED;
    CHECK_OK(learner_fixture_open_prioritized(&fixture, device, FIXTURE_ROWS, GPUR_WEIGHT_NORM_BATCH));
    CHECK_OK(gpur_learner_create(fixture.replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 3));
    CHECK_OK(learner_fixture_set_window(learner, 0));
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_OK(learner_fixture_set_window(learner, FIXTURE_ROWS));
    const gpur_learner_stats learned = learner_fixture_stats(learner);
    CHECK_EQUAL(learned.steps, 3);
    CHECK_EQUAL(learned.skipped, 5);
    CHECK_OK(gpur_replay_get_priority_stats(fixture.replay, &stats));
    CHECK_EQUAL(stats.updates, 3 * 16);
    CHECK_EQUAL(stats.stale, 0);
    CHECK_EQUAL(wrong_nodes(fixture.replay), 0);
    gpur_learner_destroy(learner);
    learner_fixture_close(&fixture);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_learner_trains_on_whole_batches_beside_appends);
    RUN(an_empty_window_makes_the_step_a_counted_nothing);
    return test_main_end();
}
