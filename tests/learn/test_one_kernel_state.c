/* SPDX-License-Identifier: MIT */
/* What train steps in one kernel leave behind, and to whom they are refused. */
#include "test.h"
#include "support/learn_rig.h"
#include "support/learn_world.h"
#include "replay/replay.h"
#include "support/steps_pair.h"

enum { MOST = 4096, PART = 200, BATCH = 16 };

static gpur_device *device;
static learn_world world;

static gpur_learner_config one_config(void)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    config.step_kernel = GPUR_STEP_ONE_KERNEL;
    return config;
}

static void check_empty_window(int64_t steps_a_launch, float clip_norm)
{
    gpur_learner_config config = one_config();
    static float a[MOST], b[MOST];
    config.target_period = 1;
    config.optimizer.clip_norm = clip_norm;
    gpur_learner *const learner = rig_open_learner(&world, device, config);
    CHECK(learner);
    learner->one.way.steps = steps_a_launch;
    CHECK_OK(gpur_learner_train(learner, 3));
    const int64_t count = world_weights(learner, GPUR_WEIGHTS_ONLINE, a, MOST);
    CHECK(count > 0);
    CHECK_OK(world_set_window(learner, 0));
    CHECK_OK(gpur_learner_train(learner, 5));
    CHECK_EQUAL(world_weights(learner, GPUR_WEIGHTS_ONLINE, b, MOST), count);
    CHECK(memcmp(a, b, (size_t)count * sizeof *a) == 0);
    CHECK_OK(world_set_window(learner, WORLD_ROWS));
    CHECK_OK(gpur_learner_train(learner, 1));
    const gpur_learner_stats stats = world_stats(learner);
    CHECK_EQUAL(stats.steps, 4);
    CHECK_EQUAL(stats.skipped, 5);
    CHECK_EQUAL(stats.target_copies, 4);
    rig_close_learner(&world, learner);
}

TEST(an_empty_window_makes_the_step_a_counted_nothing)
{
    check_empty_window(1, 0.0f);
    check_empty_window(3, 0.0f);
    check_empty_window(256, 0.1f);
}

/* Steps of several a launch, by ids, by rows in RAM: all go on from the same state. */
static int64_t mixed(int32_t step_kernel, float *values, gpur_learner_stats *stats)
{
    gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    int64_t ids[BATCH];
    gpur_status status = GPUR_OK;
    config.step_kernel = step_kernel;
    config.host_batches = 1;
    gpur_learner *const learner = rig_open_learner(&world, device, config);
    for (int round = 0; learner && round < 4 && status == GPUR_OK; round++) {
        world_ids(round, BATCH, ids);
        learner->one.way.steps = 2;
        status = gpur_learner_train(learner, 5);
        if (status == GPUR_OK)
            status = gpur_learner_train_on(learner, ids);
        if (status == GPUR_OK)
            status = gpur_learner_train_rows(learner, world.rows);
    }
    const int64_t count = learner && status == GPUR_OK ? world_weights(learner, GPUR_WEIGHTS_ONLINE, values, MOST) : -1;
    if (count > 0)
        *stats = world_stats(learner);
    rig_close_learner(&world, learner);
    return count;
}

TEST(both_ways_take_turns_on_one_state)
{
    static float a[MOST], b[MOST];
    gpur_learner_stats libraries, one;
    const int64_t count = mixed(GPUR_STEP_LIBRARIES, a, &libraries);
    CHECK(count > 0);
    CHECK_EQUAL(mixed(GPUR_STEP_ONE_KERNEL, b, &one), count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(b[i], a[i], 1e-5);
    CHECK_EQUAL(one.steps, 28);
    CHECK_EQUAL(one.steps, libraries.steps);
    CHECK_EQUAL(one.target_copies, libraries.target_copies);
    CHECK_NEAR(one.loss, libraries.loss, 1e-4 * fabs((double)libraries.loss));
}

static void read_priorities(steps_side *side, float *priorities)
{
    int64_t ids[PART];
    for (int first = 0; first < PAIR_ROWS; first += PART) {
        for (int i = 0; i < PART; i++)
            ids[i] = first + i;
        CHECK_OK(gpur_replay_get_priorities(side->replay, PART, ids, priorities + first));
    }
}

static void check_priorities(steps_pair *pair)
{
    float libraries[PAIR_ROWS], one[PAIR_ROWS];
    int64_t wrong = -1;
    gpur_priority_stats a = {.size = sizeof a}, b = {.size = sizeof b};
    read_priorities(&pair->libraries, libraries);
    read_priorities(&pair->one, one);
    for (int i = 0; i < PAIR_ROWS; i++)
        CHECK_NEAR(one[i], libraries[i], 1e-4 * (double)libraries[i]);
    CHECK_OK(gpur_replay_check_priorities(pair->one.replay, &wrong));
    CHECK_EQUAL(wrong, 0);
    CHECK_OK(gpur_replay_get_priority_stats(pair->libraries.replay, &a));
    CHECK_OK(gpur_replay_get_priority_stats(pair->one.replay, &b));
    CHECK_EQUAL(a.updates, b.updates);
    CHECK_EQUAL(a.stale, b.stale);
}

static void check_prioritized(int32_t source, int32_t norm)
{
    gpur_learner_config config = one_config();
    float weights[2][BATCH];
    steps_pair pair;
    steps_gap gap;
    config.index_source = source;
    config.beta.first = 0.4f, config.beta.last = 1.0f, config.beta.begin = 2, config.beta.steps = 10;
    CHECK_OK(pair_open(&pair, device, &config, 5, norm));
    for (int t = 0; t < 12; t++) {
        CHECK_OK(pair_train(&pair, 1, &gap));
        CHECK_NEAR(gap.loss, 0, 1e-4);
        CHECK_OK(gpur_device_copy(device, weights[0], pair.libraries.learner->step.batch.weight, sizeof *weights));
        CHECK_OK(gpur_device_copy(device, weights[1], pair.one.learner->step.batch.weight, sizeof *weights));
        for (int i = 0; i < BATCH; i++)
            CHECK_NEAR(weights[1][i], weights[0][i], 1e-4);
    }
    check_priorities(&pair);
    pair_close(&pair);
}

TEST(draws_by_priority_weigh_and_leave_priorities_alike)
{
    for (int32_t norm = GPUR_WEIGHT_NORM_BATCH; norm <= GPUR_WEIGHT_NORM_NONE; norm++)
        for (int32_t source = GPUR_PRIORITIZED; source <= GPUR_PRIORITIZED_PLAIN; source++)
            check_prioritized(source, norm);
}

/* Several steps a launch draw from the priorities that the step before has left. */
TEST(steps_of_one_launch_see_each_others_priorities)
{
    gpur_learner_config config = one_config();
    static float priorities[2][PAIR_ROWS];
    config.index_source = GPUR_PRIORITIZED;
    for (int i = 0; i < 2; i++) {
        steps_side side;
        CHECK_OK(side_open(&side, device, &config, 5, GPUR_WEIGHT_NORM_BATCH));
        side.learner->one.way.steps = i == 0 ? 1 : 12;
        CHECK_OK(gpur_learner_train(side.learner, 12));
        read_priorities(&side, priorities[i]);
        side_close(&side);
    }
    CHECK(memcmp(priorities[0], priorities[1], sizeof priorities[0]) == 0);
}

static void check_refused(const gpur_learner_config *config, const char *why)
{
    gpur_learner *learner = NULL;
    CHECK_STATUS(gpur_learner_create(world.replay, config, &learner), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE(why);
    CHECK(!learner);
}

TEST(a_learner_that_it_is_not_for_is_refused_with_the_reason)
{
    gpur_learner_config config = one_config();
    CHECK_OK(world_open(&world, device, WORLD_ROWS));
    config.step_kernel = 3;
    check_refused(&config, "step_kernel is 3; it must be GPUR_STEP_AUTO, LIBRARIES or ONE_KERNEL (0 to 2)");
    config.step_kernel = GPUR_STEP_ONE_KERNEL;
    config.math = GPUR_MATH_TF32;
    check_refused(&config, "takes GPUR_MATH_FP32 (0); math is 1");
    config.math = GPUR_MATH_FP32;
    config.network.hidden = 0;
    check_refused(&config, "takes two dense layers below the last; this network has 0 convolutions and 1 dense");
    config.network = rig_network(9, 8, GPUR_RELU, GPUR_HEAD_DUELING, 12, WORLD_ACTIONS);
    config.network.init = GPUR_INIT_FAN_IN;
    check_refused(&config, "this network has 0 convolutions and 3 dense layers there");
    config = one_config();
    config.network.input_scale = 0.5f;
    check_refused(&config, "obs of float32 and network.input_scale 1; obs is float32 and input_scale 0.5");
    world_close(&world);
}

/* A replay of observations of another kind: (2, 3) numbers. */
static void check_replay_refused(int32_t dtype, int32_t layout, const char *why)
{
    const gpur_field fields[] = {{"obs", dtype, {2, 3}},
                                 {"action", GPUR_INT32, {0}},
                                 {"reward", GPUR_FLOAT32, {0}},
                                 {"next_obs", dtype, {2, 3}},
                                 {"terminated", GPUR_BOOL, {0}}};
    gpur_learner_config config = one_config();
    gpur_replay_config replay;
    CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
    replay.fields = fields, replay.field_count = sizeof fields / sizeof fields[0];
    replay.capacity = 2048;
    replay.layout = layout;
    replay.frame_stack = layout == GPUR_LINKED ? 2 : replay.frame_stack;
    CHECK_OK(gpur_replay_create(device, &replay, &world.replay));
    check_refused(&config, why);
    gpur_replay_destroy(world.replay);
}

TEST(a_replay_that_it_is_not_for_is_refused_with_the_reason)
{
    check_replay_refused(GPUR_UINT8, GPUR_PACKED, "obs is uint8 and input_scale 1");
    check_replay_refused(GPUR_FLOAT32, GPUR_LINKED, "takes a packed replay; this one is linked, with 4 links in a row");
}

TEST(the_default_goes_by_libraries)
{
    gpur_learner_config config = one_config();
    config.step_kernel = GPUR_STEP_AUTO;
    gpur_learner *learner = rig_open_learner(&world, device, config);
    CHECK(learner && !learner->one.step);
    gpur_learner_destroy(learner);
    config.step_kernel = GPUR_STEP_ONE_KERNEL;
    CHECK_OK(gpur_learner_create(world.replay, &config, &learner));
    CHECK(learner->one.step == &learner->step);
    rig_close_learner(&world, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(an_empty_window_makes_the_step_a_counted_nothing);
    RUN(both_ways_take_turns_on_one_state);
    RUN(draws_by_priority_weigh_and_leave_priorities_alike);
    RUN(steps_of_one_launch_see_each_others_priorities);
    RUN(a_learner_that_it_is_not_for_is_refused_with_the_reason);
    RUN(a_replay_that_it_is_not_for_is_refused_with_the_reason);
    RUN(the_default_goes_by_libraries);
    gpur_device_close(device);
    return test_main_end();
}
