/* SPDX-License-Identifier: MIT */
/* What a learner holds: target, weights by name, statistics. */
#include "test.h"

#include "learn_world.h"

enum { MOST = 4096 };

static gpur_device *device;

static gpur_learner_stats stats_of(gpur_learner *learner)
{
    gpur_learner_stats stats = {.size = sizeof stats};
    if (gpur_learner_sync(learner) != GPUR_OK || gpur_learner_get_stats(learner, &stats) != GPUR_OK)
        stats.steps = -1;
    return stats;
}

TEST(the_target_follows_at_the_period_and_after_the_first_step)
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
        CHECK_EQUAL(same, t == 1 || t % 10 == 0);
        CHECK_OK(gpur_learner_train(learner, 1));
    }
    CHECK_EQUAL(stats_of(learner).target_copies, 4);
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
    gpur_learner_stats stats = stats_of(learner);
    CHECK(stats.steps == 0 && stats.steps_enqueued == 0 && stats.loss == 0 && stats.mean_loss == 0);
    CHECK(stats.device_bytes > 0);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(gpur_learner_train(learner, 1));
        sum += (double)stats_of(learner).loss;
    }
    CHECK_OK(gpur_learner_train(learner, 300));
    stats = stats_of(learner);
    CHECK_EQUAL(stats.steps, 320);
    CHECK_EQUAL(stats.steps_enqueued, 320);
    CHECK_EQUAL(stats.skipped, 0);
    CHECK_EQUAL(stats.target_copies, 16);
    CHECK(stats.steps_per_second > 0 && stats.mean_loss > 0 && sum > 0);
    CHECK_NEAR(stats.learning_rate, 1e-3, 1e-9);
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
                sum += (double)stats_of(learner).loss;
        }
        if (pass == 1)
            CHECK_NEAR(stats_of(learner).mean_loss, sum / 10, 1e-6 * sum);
        gpur_learner_destroy(learner);
    }
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_target_follows_at_the_period_and_after_the_first_step);
    RUN(weights_survive_a_round_trip_by_name);
    RUN(statistics_count_and_average);
    RUN(the_mean_loss_is_over_the_steps_since_the_stats_before);
    gpur_device_close(device);
    return test_main_end();
}
