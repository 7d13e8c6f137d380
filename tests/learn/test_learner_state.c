/* SPDX-License-Identifier: MIT */
/* What a learner holds: target, weights by name, statistics. */
#include "test.h"
#include "base/clock.h"
#include "base/status.h"
#include "support/learn_world.h"

enum { MOST = 4096 };

static gpur_device *device;

TEST(the_target_follows_after_the_first_step_and_a_period_after_each)
{
    static learn_world world;
    static float online[MOST], target[MOST];
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    config.target_period = 10;
    config.target_copy_first = 1;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    for (int t = 0; t <= 30; t++) {
        const int64_t count = world_weights(learner, GPUR_WEIGHTS_ONLINE, online, MOST);
        CHECK_EQUAL(world_weights(learner, GPUR_WEIGHTS_TARGET, target, MOST), count);
        const int same = memcmp(online, target, (size_t)count * sizeof *online) == 0;
        CHECK_EQUAL(same, t == 0 || t % 10 == 1); /* steps 0, 10, 20 of a count from 0 */
        CHECK_OK(gpur_learner_train(learner, 1));
    }
    CHECK_EQUAL(world_stats(learner).target_copies, 4); /* the last in step 31 */
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(weights_survive_a_round_trip_by_name)
{
    static learn_world world;
    static float values[MOST], back[MOST];
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *learner = NULL;
    gpur_weight_info info = {.size = sizeof info};
    CHECK_OK(world_open(&world, device, 0)); /* an empty replay will do */
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_EQUAL(gpur_learner_weight_count(learner), 10);
    for (int32_t i = 0; i < 10; i++) {
        CHECK_OK(gpur_learner_weight(learner, i, &info));
        for (int64_t j = 0; j < info.count; j++)
            values[j] = (float)(i * 1000 + j);
        CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, values, info.count));
    }
    for (int32_t i = 0; i < 10; i++) {
        CHECK_OK(gpur_learner_weight(learner, i, &info));
        CHECK_OK(gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, info.name, back, info.count));
        for (int64_t j = 0; j < info.count; j++)
            CHECK_NEAR(back[j], i * 1000 + j, 0);
        CHECK_EQUAL(info.count, info.shape[0] * (info.dims == 2 ? info.shape[1] : 1));
    }
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(statistics_count_and_average)
{
    static learn_world world;
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    double sum = 0;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    gpur_learner_stats stats = world_stats(learner);
    CHECK(stats.steps == 0 && stats.steps_enqueued == 0 && stats.loss == 0 && stats.mean_loss == 0);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(gpur_learner_train(learner, 1));
        sum += (double)world_stats(learner).loss;
    }
    CHECK_OK(gpur_learner_train(learner, 300));
    stats = world_stats(learner);
    CHECK_EQUAL(stats.steps, 320);
    CHECK_EQUAL(stats.steps_enqueued, 320);
    CHECK_EQUAL(stats.skipped, 0);
    CHECK_EQUAL(stats.target_copies, 16);
    CHECK_EQUAL(stats.invalid_actions, 0);
    CHECK(stats.mean_loss > 0 && sum > 0);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(the_learning_rate_told_is_the_one_the_last_step_used)
{
    static learn_world world;
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    gpur_schedule *const rate = &config.optimizer.learning_rate;
    gpur_learner *learner = NULL;
    rate->first = 1e-3f, rate->last = 1e-4f, rate->begin = 2, rate->steps = 6;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    for (int t = 0; t < 10; t++) {
        CHECK_OK(gpur_learner_train(learner, 1));
        CHECK_NEAR(world_stats(learner).learning_rate, ref_schedule(rate, t), 1e-9);
    }
    gpur_learner_destroy(learner);
    world_close(&world);
}

/* The clock of the stats is read between our two readings beside each call. */
TEST(steps_per_second_are_those_since_the_stats_before)
{
    static learn_world world;
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_OK(gpur_learner_train(learner, 64));
    for (int steps = 10; steps < 200; steps += 90) {
        const double before = gpur_clock_seconds();
        (void)world_stats(learner);
        const double begin = gpur_clock_seconds();
        CHECK_OK(gpur_learner_train(learner, steps));
        CHECK_OK(gpur_learner_sync(learner));
        const double end = gpur_clock_seconds();
        const double rate = world_stats(learner).steps_per_second;
        CHECK(rate >= steps / (gpur_clock_seconds() - before) && rate <= steps / (end - begin));
    }
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(device_bytes_are_what_the_learner_took_of_the_device)
{
    static learn_world world;
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    CHECK_OK(gpur_device_get_info(device, &before));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK_OK(gpur_device_get_info(device, &after));
    CHECK_EQUAL(world_stats(learner).device_bytes, after.memory_used - before.memory_used);
    gpur_learner_destroy(learner);
    world_close(&world);
}

/* Steps on batches of the first `count` transitions, over and over. */
static gpur_status train_on_first(gpur_learner *learner, int count, int steps)
{
    int64_t ids[16];
    for (int i = 0; i < 16; i++)
        ids[i] = i % count;
    for (int t = 0; t < steps; t++)
        GPUR_TRY(gpur_learner_train_on(learner, ids));
    return GPUR_OK;
}

TEST(actions_that_there_are_not_train_nothing_and_are_counted)
{
    static learn_world world;
    static float before[MOST], after[MOST];
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    CHECK_OK(world_open(&world, device, 0));
    world.rows[0].action = WORLD_ACTIONS, world.rows[1].action = -1;
    CHECK_OK(gpur_writer_append(world.writer, 8, world.rows, NULL));
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    const int64_t count = world_weights(learner, GPUR_WEIGHTS_ONLINE, before, MOST);
    CHECK_OK(train_on_first(learner, 2, 5));
    gpur_learner_stats stats = world_stats(learner);
    CHECK(stats.steps == 5 && stats.invalid_actions == 5 * 16);
    CHECK(stats.loss == 0 && stats.mean_loss == 0 && stats.mean_q == 0 && stats.gradient_norm == 0);
    CHECK_EQUAL(world_weights(learner, GPUR_WEIGHTS_ONLINE, after, MOST), count);
    CHECK(memcmp(before, after, (size_t)count * sizeof *before) == 0);
    CHECK_OK(train_on_first(learner, 8, 1)); /* a quarter of the batch */
    stats = world_stats(learner);
    CHECK(stats.invalid_actions == 5 * 16 + 4 && stats.loss > 0);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(the_mean_loss_is_over_the_steps_since_the_stats_before)
{
    static learn_world world;
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    gpur_learner *learner = NULL;
    double sum = 0;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
        for (int t = 0; t < 10; t++) {
            CHECK_OK(gpur_learner_train(learner, 1));
            if (pass == 0)
                sum += (double)world_stats(learner).loss;
        }
        if (pass == 1)
            CHECK_NEAR(world_stats(learner).mean_loss, sum / 10, 1e-6 * sum);
        gpur_learner_destroy(learner);
    }
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_target_follows_after_the_first_step_and_a_period_after_each);
    RUN(weights_survive_a_round_trip_by_name);
    RUN(statistics_count_and_average);
    RUN(the_learning_rate_told_is_the_one_the_last_step_used);
    RUN(steps_per_second_are_those_since_the_stats_before);
    RUN(device_bytes_are_what_the_learner_took_of_the_device);
    RUN(actions_that_there_are_not_train_nothing_and_are_counted);
    RUN(the_mean_loss_is_over_the_steps_since_the_stats_before);
    gpur_device_close(device);
    return test_main_end();
}
