/* SPDX-License-Identifier: MIT */
/* The recorded step from inside: what it draws, what it leaves for prioritised replay, empty windows, launch shapes. */
#include "test.h"
#include "learn/learner.h"
#include "support/learn_world.h"
#include "replay/replay.h"

enum { BATCH = 16, PAPER_BATCH = 32, MOST = 4096 };

static gpur_device *device;
static learn_world world;

static gpur_learner *open_learner(const gpur_learner_config *config)
{
    gpur_learner *learner = NULL;
    return gpur_learner_create(world.replay, config, &learner) == GPUR_OK ? learner : NULL;
}

TEST(a_drawn_step_is_the_injected_step_of_the_same_ids)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    static float a[MOST], b[MOST];
    int64_t ids[BATCH];
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    gpur_learner *const drawn = open_learner(&config), *const injected = open_learner(&config);
    CHECK(drawn && injected);
    for (int t = 0; t < 20; t++) {
        CHECK_OK(gpur_learner_train(drawn, 1));
        CHECK_OK(gpur_device_copy(device, ids, drawn->step.batch.id, sizeof ids));
        for (int i = 0; i < BATCH; i++)
            CHECK(ids[i] >= 0 && ids[i] < WORLD_ROWS);
        CHECK_OK(gpur_learner_train_on(injected, ids));
    }
    const int64_t count = world_weights(drawn, GPUR_WEIGHTS_ONLINE, a, MOST);
    CHECK_EQUAL(world_weights(injected, GPUR_WEIGHTS_ONLINE, b, MOST), count);
    CHECK(count > 0 && memcmp(a, b, (size_t)count * sizeof *a) == 0);
    gpur_learner_destroy(drawn);
    gpur_learner_destroy(injected);
    world_close(&world);
}

TEST(the_seed_chooses_the_draws)
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    int64_t ids[3][BATCH];
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    for (int i = 0; i < 3; i++) {
        config.seed = i < 2 ? 8 : 9;
        gpur_learner *const learner = open_learner(&config);
        CHECK(learner);
        CHECK_OK(gpur_learner_train(learner, 2));
        CHECK_OK(gpur_device_copy(device, ids[i], learner->step.batch.id, sizeof ids[i]));
        gpur_learner_destroy(learner);
    }
    CHECK(memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    CHECK(memcmp(ids[0], ids[2], sizeof ids[0]) != 0);
    world_close(&world);
}

/* Steps count from 0 for a learner and for gpur_replay_sample, so a common seed must not make them draw the same. */
static void check_own_draws(int32_t source)
{
    enum { DRAWS = 4 };
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    int64_t learned[DRAWS][BATCH], drawn[DRAWS][BATCH];
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    world.replay->config.index_source = config.index_source = source;
    config.seed = world.replay->config.seed;
    gpur_learner *const learner = open_learner(&config);
    CHECK(learner);
    for (int t = 0; t < DRAWS; t++) {
        gpur_batch *batch = NULL;
        CHECK_OK(gpur_learner_train(learner, 1));
        CHECK_OK(gpur_device_copy(device, learned[t], learner->step.batch.id, sizeof *learned));
        CHECK_OK(gpur_replay_sample(world.replay, BATCH, NULL, &batch));
        CHECK_OK(gpur_batch_read(batch, "id", drawn[t], sizeof *drawn));
        gpur_batch_release(batch);
    }
    for (int i = 0; i < DRAWS * DRAWS; i++)
        CHECK(memcmp(learned[i / DRAWS], drawn[i % DRAWS], sizeof *drawn) != 0);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(a_learner_and_a_user_of_the_same_seed_draw_differently)
{
    check_own_draws(GPUR_UNIFORM);
    check_own_draws(GPUR_UNIFORM_DISTINCT);
}

/* The caller's ids are free to change when the call returns, though their step has yet to run. */
static int64_t weights_after_ids(int syncs, float *values)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    int64_t ids[BATCH], count = -1;
    gpur_status status = world_open(&world, device, WORLD_ROWS);
    gpur_learner *const learner = status == GPUR_OK ? open_learner(&config) : NULL;
    for (int t = 0; t < 200 && learner && status == GPUR_OK; t++) {
        for (int i = 0; i < BATCH; i++)
            ids[i] = (t * 31 + i * 7) % WORLD_ROWS;
        status = gpur_learner_train_on(learner, ids);
        if (syncs && status == GPUR_OK)
            status = gpur_learner_sync(learner);
    }
    if (learner && status == GPUR_OK)
        count = world_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST);
    gpur_learner_destroy(learner);
    world_close(&world);
    return count;
}

TEST(injected_steps_may_follow_each_other_without_waiting)
{
    static float a[MOST], b[MOST];
    const int64_t count = weights_after_ids(1, a);
    CHECK(count > 0);
    CHECK_EQUAL(weights_after_ids(0, b), count);
    CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

TEST(the_size_of_each_rows_error_stays_for_priorities)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
    static ref_tape online, next, target;
    float td[BATCH];
    int64_t ids[BATCH];
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    gpur_learner *const learner = open_learner(&config);
    CHECK(learner);
    ref_net *const net = world_net(learner, &config);
    CHECK(net);
    for (int i = 0; i < BATCH; i++)
        ids[i] = i * 11;
    CHECK_OK(gpur_learner_train_on(learner, ids));
    CHECK_OK(gpur_device_copy(device, td, learner->step.dqn.td.td, sizeof td));
    for (int i = 0; i < BATCH; i++) {
        const ref_row row = world_reference(&world, ids[i]);
        int best = 0;
        ref_forward(net, 0, row.obs, &online);
        ref_forward(net, 0, row.next_obs, &next);
        ref_forward(net, 1, row.next_obs, &target);
        for (int k = 1; k < WORLD_ACTIONS; k++)
            best = next.y[k] > next.y[best] ? k : best;
        const double y = row.reward + (row.terminated ? 0 : (double)0.9f * target.y[best]);
        CHECK_NEAR(td[i], fabs(y - online.y[row.action]), 1e-5);
    }
    ref_net_destroy(net);
    gpur_learner_destroy(learner);
    world_close(&world);
}

TEST(an_empty_window_makes_the_step_a_counted_nothing)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    static float a[MOST], b[MOST];
    gpur_learner_stats stats = {.size = sizeof stats};
    config.target_period = 1;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    gpur_learner *const learner = open_learner(&config);
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 3));
    const int64_t count = world_weights(learner, GPUR_WEIGHTS_ONLINE, a, MOST);
    CHECK_OK(world_set_window(learner, 0));
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_EQUAL(world_weights(learner, GPUR_WEIGHTS_ONLINE, b, MOST), count);
    CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
    CHECK_OK(world_set_window(learner, WORLD_ROWS));
    CHECK_OK(gpur_learner_train(learner, 1));
    CHECK_OK(gpur_learner_sync(learner));
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.steps, 4);
    CHECK_EQUAL(stats.skipped, 5);
    CHECK_EQUAL(stats.target_copies, 4);
    gpur_learner_destroy(learner);
    world_close(&world);
}

static int64_t weights_under_grid(gpur_grid grid, float *values)
{
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    int64_t count = -1;
    if (world_open(&world, device, WORLD_ROWS) != GPUR_OK)
        return -1;
    gpur_device_force_grid(device, grid);
    gpur_learner *const learner = open_learner(&config);
    if (learner && gpur_learner_train(learner, 12) == GPUR_OK)
        count = world_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST);
    gpur_learner_destroy(learner);
    gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
    world_close(&world);
    return count;
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static float a[MOST], b[MOST];
    const int64_t count = weights_under_grid((gpur_grid){1, 32, 0}, a);
    CHECK(count > 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(weights_under_grid(grids[i], b), count);
        CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
    }
}

TEST(the_padding_between_weights_stays_zero)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    static float w[MOST], g[MOST];
    config.optimizer.kind = GPUR_RMSPROP_TF;
    config.optimizer.momentum = 0.9f;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    gpur_learner *const learner = open_learner(&config);
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 30));
    CHECK_OK(gpur_learner_sync(learner));
    const gpur_params *const params = &learner->network.params;
    CHECK(params->count <= MOST);
    CHECK_OK(gpur_device_copy(device, w, learner->step.optimizer.weights, params->count * 4));
    CHECK_OK(gpur_device_copy(device, g, learner->step.optimizer.gradient, params->count * 4));
    for (int32_t i = 0; i < params->tensor_count; i++)
        for (int64_t j = 0; j < gpur_tensor_count(&params->tensor[i]); j++)
            w[params->tensor[i].offset + j] = g[params->tensor[i].offset + j] = 0;
    for (int64_t i = 0; i < params->count; i++)
        CHECK(w[i] == 0 && g[i] == 0);
    gpur_learner_destroy(learner);
    world_close(&world);
}

/* The paper's learner, but for its observations and actions; some of its first 200 steps, or
 * all of them with GPUR_TEST_LONG=1. */
TEST(the_papers_learner_follows_the_reference)
{
    gpur_learner_config config = world_config(GPUR_HEAD_Q, 0);
    gpur_learner_stats stats = {.size = sizeof stats};
    const int steps = test_is_long() ? 200 : 10;
    CHECK_OK(gpur_learner_config_preset(&config, "melee-gpu"));
    config.network.outputs = WORLD_ACTIONS;
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    gpur_learner *const learner = open_learner(&config);
    CHECK(learner);
    ref_net *const net = world_net(learner, &config);
    CHECK(net);
    for (int t = 1; t <= steps; t++) {
        int64_t ids[PAPER_BATCH];
        ref_row rows[PAPER_BATCH];
        CHECK_OK(gpur_learner_train(learner, 1));
        CHECK_OK(gpur_device_copy(device, ids, learner->step.batch.id, sizeof ids));
        for (int b = 0; b < PAPER_BATCH; b++)
            rows[b] = world_reference(&world, ids[b]);
        const double loss = ref_dqn_loss(net, &config, (double)0.9f, rows, PAPER_BATCH, NULL);
        (void)ref_dqn_update(net, &config, t);
        CHECK_OK(gpur_learner_get_stats(learner, &stats));
        CHECK_NEAR(stats.loss, loss, 1e-4 * fabs(loss));
    }
    ref_net_destroy(net);
    gpur_learner_destroy(learner);
    world_close(&world);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(a_drawn_step_is_the_injected_step_of_the_same_ids);
    RUN(the_seed_chooses_the_draws);
    RUN(a_learner_and_a_user_of_the_same_seed_draw_differently);
    RUN(injected_steps_may_follow_each_other_without_waiting);
    RUN(the_size_of_each_rows_error_stays_for_priorities);
    RUN(an_empty_window_makes_the_step_a_counted_nothing);
    RUN(no_launch_shape_changes_a_bit);
    RUN(the_padding_between_weights_stays_zero);
    RUN(the_papers_learner_follows_the_reference);
    gpur_device_close(device);
    return test_main_end();
}
