/* SPDX-License-Identifier: MIT */
/* Train steps in one kernel beside the same steps by libraries: rows, losses, weights, optimisers, target copies. */
#include "test.h"
#include "support/learn_rig.h"
#include "support/learn_world.h"
#include "support/steps_pair.h"

static gpur_device *device;

/* In the race check a thread of a block is a thread of the host. */
#ifdef GPUR_RACE_CHECK
enum { CLIP_STEP = 3, SHAPE_STEPS = 3 };
static int rounds_of(int rounds)
{
    return rounds < 3 ? rounds : 3;
}
#else
enum { CLIP_STEP = 1, SHAPE_STEPS = 5 };
static int rounds_of(int rounds)
{
    return rounds;
}
#endif

static gpur_learner_config config_of(gpur_network_config network, int64_t batch)
{
    gpur_learner_config config;
    (void)gpur_learner_config_init(&config, sizeof config);
    config.network = network;
    config.network.init = GPUR_INIT_FAN_IN;
    config.batch_size = batch;
    config.target_period = 7;
    config.seed = 11;
    return config;
}

static gpur_learner_config small_config(void)
{
    return config_of(rig_network(33, 0, GPUR_RELU, GPUR_HEAD_DUELING, 35, 4), 16);
}

/* How far the two ways may be apart in the end. */
typedef struct limits {
    double gradient_norm, weights;
} limits;

static void check_within(const gpur_learner_config *config, int features, int steps, limits most)
{
    steps_pair pair;
    steps_gap gap;
    CHECK_OK(pair_open(&pair, device, config, features, PAIR_UNIFORM));
    CHECK_OK(pair_train(&pair, steps, &gap));
    CHECK_EQUAL(gap.steps, steps);
    CHECK_EQUAL(gap.other_rows, 0);
    CHECK_EQUAL(gap.stats_differ, 0);
    CHECK_NEAR(gap.loss, 0, 1e-4);
    CHECK_NEAR(gap.gradient_norm, 0, most.gradient_norm);
    CHECK_NEAR(gap.weights, 0, most.weights);
    pair_close(&pair);
}

static void check_pair_of(const gpur_learner_config *config, int features, int steps)
{
    const limits most = {1e-4, 1e-5};
    check_within(config, features, steps, most);
}

#ifndef GPUR_RACE_CHECK
/* Of so many steps one may find two actions that are worth the same but for rounding, and choose the other one. With
 * the default seed melee-dqn comes near to that at step 65; with the next ones the losses part by less than 4e-7. */
static void check_preset(const char *name, int features, int steps)
{
    const limits most = {1e-2, 1e-3};
    gpur_learner_config config;
    CHECK_OK(gpur_learner_config_init(&config, sizeof config));
    CHECK_OK(gpur_learner_config_preset(&config, name));
    config.target_period = 50;
    config.seed++;
    check_within(&config, features, steps, most);
}

TEST(the_presets_lose_alike_for_two_hundred_steps)
{
    const int steps = test_on_cuda() ? 200 : (int)test_rounds(200); /* a launch is many steps */
    check_preset("melee-gpu", 27, steps);
    check_preset("melee-dqn", 27, steps);
    check_preset("melee-double", 27, steps);
    check_preset("cartpole", 4, steps);
}
#endif

TEST(odd_shapes_lose_alike)
{
    static const int64_t batches[] = {1, 7, 32, 100};
    for (int i = 0; i < 4; i++) {
        gpur_learner_config dueling = config_of(rig_network(33, 0, GPUR_RELU, GPUR_HEAD_DUELING, 70, 3), batches[i]);
        gpur_learner_config plain = config_of(rig_network(70, 33, GPUR_TANH, GPUR_HEAD_Q, 0, 1 + i), batches[i]);
        dueling.double_dqn = i % 2, plain.double_dqn = 1 - i % 2;
        check_pair_of(&dueling, 5, rounds_of(30));
        check_pair_of(&plain, 5, rounds_of(30));
    }
}

/* A batch and a hidden layer whose sums are in several parts. */
TEST(sums_in_parts_lose_alike)
{
    gpur_learner_config config = config_of(rig_network(9, 0, GPUR_RELU, GPUR_HEAD_DUELING, 150, 3), 300);
    check_pair_of(&config, 5, rounds_of(20));
    config.optimizer.clip_norm = 0.5f;
    check_pair_of(&config, 5, rounds_of(20));
}

TEST(distinct_draws_and_actions_of_one_network_are_the_same)
{
    gpur_learner_config config = small_config();
    config.index_source = GPUR_UNIFORM_DISTINCT;
    config.loss = GPUR_LOSS_SQUARED;
    config.double_dqn = 0;
    config.target_copy_first = 1;
    check_pair_of(&config, 6, rounds_of(50));
}

TEST(every_optimiser_goes_on_alike)
{
    for (int32_t kind = GPUR_ADAM; kind <= GPUR_RMSPROP_DEEPMIND; kind++)
        for (int32_t clip = 0; clip < 4; clip += CLIP_STEP) {
            gpur_learner_config config = small_config();
            config.optimizer.kind = kind;
            config.optimizer.momentum = 0.5f;
            config.optimizer.centered = kind == GPUR_RMSPROP_TORCH;
            config.optimizer.epsilon = 1e-2f; /* gradients near 0 do not become steps of either sign */
            config.optimizer.clip_norm = clip & 1 ? 0.05f : 0.0f;
            config.optimizer.clip_value = clip & 2 ? 0.01f : 0.0f;
            config.optimizer.learning_rate.last = 1e-4f, config.optimizer.learning_rate.steps = 25;
            check_pair_of(&config, 5, rounds_of(30));
        }
}

static float *weights_after(const gpur_learner_config *config, const gpur_one_kernel_way *way, int32_t large,
                            int32_t norm)
{
    steps_side side;
    float *weights = NULL;
    if (side_open(&side, device, config, 5, norm) == GPUR_OK) {
        side.learner->one.way = *way;
        for (int i = 0; i < side.learner->one.args.product_count && large >= 0; i++)
            side.learner->one.args.products[i].large = large;
        if (gpur_learner_train(side.learner, SHAPE_STEPS) == GPUR_OK)
            weights = side_weights(&side);
    }
    side_close(&side);
    return weights;
}

/* Small tiles, large ones, and those that the product asks for; sums in one part and in several. */
static void check_shapes(const gpur_learner_config *config, int32_t large, int32_t norm)
{
    static const gpur_one_kernel_way ways[] = {{1, 32, 0, 1},  {1, 64, 0, 5}, {2, 96, 0, 2},
                                               {3, 128, 1, 5}, {4, 16, 0, 3}, {16, 256, 0, 5}};
    float *const wanted = weights_after(config, &ways[0], large, norm);
    const gpur_scene scene = gpur_scene_of(5);
    gpur_network network;
    CHECK(wanted);
    CHECK_OK(gpur_network_build(&network, &config->network, &scene));
    for (size_t i = 1; i < sizeof ways / sizeof ways[0]; i++) {
        gpur_one_kernel_way way = ways[i];
        way.threads = test_on_cuda() && way.threads < 32 ? 32 : way.threads;
        float *const got = weights_after(config, &way, large, norm);
        const int same = got && memcmp(wanted, got, (size_t)network.params.count * sizeof *got) == 0;
        free(got);
        CHECK(same);
    }
    free(wanted);
}

TEST(no_launch_shape_changes_a_bit)
{
    gpur_learner_config config = small_config();
    config.step_kernel = GPUR_STEP_ONE_KERNEL;
    for (int32_t large = -1; large <= 1; large++)
        check_shapes(&config, large, PAIR_UNIFORM);
    config.index_source = GPUR_PRIORITIZED;
    config.optimizer.clip_norm = 0.1f;
    check_shapes(&config, -1, GPUR_WEIGHT_NORM_MEMORY);
    config = config_of(rig_network(9, 0, GPUR_RELU, GPUR_HEAD_DUELING, 70, 3), 270);
    config.step_kernel = GPUR_STEP_ONE_KERNEL;
    check_shapes(&config, 1, PAIR_UNIFORM);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
#ifndef GPUR_RACE_CHECK
    RUN(the_presets_lose_alike_for_two_hundred_steps);
#endif
    RUN(odd_shapes_lose_alike);
    RUN(sums_in_parts_lose_alike);
    RUN(distinct_draws_and_actions_of_one_network_are_the_same);
    RUN(every_optimiser_goes_on_alike);
    RUN(no_launch_shape_changes_a_bit);
    gpur_device_close(device);
    return test_main_end();
}
