/* SPDX-License-Identifier: MIT */
/* Acting: greedy, random, and what is refused. */
#include "test.h"
#include "support/learn_rig.h"

enum { ACTS = 64 };

static gpur_device *device;
static learn_world world;

static int best_of(const float *q)
{
    int best = 0;
    for (int k = 1; k < WORLD_ACTIONS; k++)
        best = q[k] > q[best] ? k : best;
    return best;
}

TEST(greedy_acting_takes_the_best_of_the_q_values)
{
    float obs[ACTS * WORLD_FEATURES], q[ACTS * WORLD_ACTIONS];
    int32_t actions[ACTS];
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_DUELING, 1));
    CHECK(learner);
    for (int round = 0; round < 20; round++) {
        const int count = round % 2 ? ACTS : round + 1;
        rig_random((uint64_t)round, obs, ACTS * WORLD_FEATURES);
        CHECK_OK(gpur_learner_q_values(learner, count, obs, q, NULL));
        CHECK_OK(gpur_learner_act(learner, count, obs, 0.0f, actions, NULL));
        for (int i = 0; i < count; i++)
            CHECK_EQUAL(actions[i], best_of(q + i * WORLD_ACTIONS));
        CHECK_OK(gpur_learner_train(learner, 3));
    }
    rig_close_learner(&world, learner);
}

TEST(q_values_agree_with_the_reference_after_training)
{
    float obs[ACTS * WORLD_FEATURES], q[ACTS * WORLD_ACTIONS];
    static ref_tape tape;
    const gpur_learner_config config = world_config(GPUR_HEAD_DUELING, 1);
    gpur_learner *const learner = rig_open_learner(&world, device, config);
    CHECK(learner);
    CHECK_OK(gpur_learner_train(learner, 50));
    ref_net *const net = world_net(learner, &config);
    CHECK(net);
    rig_random(8, obs, ACTS * WORLD_FEATURES);
    CHECK_OK(gpur_learner_q_values(learner, ACTS, obs, q, NULL));
    for (int i = 0; i < ACTS; i++) {
        ref_forward(net, 0, obs + i * WORLD_FEATURES, &tape);
        for (int k = 0; k < WORLD_ACTIONS; k++)
            CHECK_NEAR(q[i * WORLD_ACTIONS + k], tape.y[k], 1e-5 * (1 + fabs(tape.y[k])));
    }
    ref_net_destroy(net);
    rig_close_learner(&world, learner);
}

TEST(a_q_value_does_not_depend_on_its_batch_mates)
{
    float obs[ACTS * WORLD_FEATURES], all[ACTS * WORLD_ACTIONS], one[WORLD_ACTIONS];
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_DUELING, 1));
    CHECK(learner);
    rig_random(9, obs, ACTS * WORLD_FEATURES);
    CHECK_OK(gpur_learner_q_values(learner, ACTS, obs, all, NULL));
    for (int i = 0; i < ACTS; i++) {
        CHECK_OK(gpur_learner_q_values(learner, 1, obs + i * WORLD_FEATURES, one, NULL));
        for (int k = 0; k < WORLD_ACTIONS; k++)
            CHECK_NEAR(one[k], all[i * WORLD_ACTIONS + k], 1e-5);
    }
    rig_close_learner(&world, learner);
}

/* Counts of each action over many acts on one observation. */
static gpur_status count_actions(gpur_learner *learner, float epsilon, int rounds, int counts[WORLD_ACTIONS])
{
    float obs[ACTS * WORLD_FEATURES] = {0};
    int32_t actions[ACTS];
    for (int i = 0; i < rounds; i++) {
        const gpur_status status = gpur_learner_act(learner, ACTS, obs, epsilon, actions, NULL);
        if (status != GPUR_OK)
            return status;
        for (int j = 0; j < ACTS; j++)
            counts[actions[j]]++;
    }
    return GPUR_OK;
}

TEST(epsilon_one_is_uniform)
{
    enum { ROUNDS = 500 };
    int counts[WORLD_ACTIONS] = {0};
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_OK(count_actions(learner, 1.0f, ROUNDS, counts));
    const double expected = (double)ROUNDS * ACTS / WORLD_ACTIONS;
    double chi = 0;
    for (int k = 0; k < WORLD_ACTIONS; k++)
        chi += (counts[k] - expected) * (counts[k] - expected) / expected;
    CHECK(chi < 27.64); /* chi-square, 2 degrees of freedom: above this once in 1,000,000 */
    rig_close_learner(&world, learner);
}

TEST(epsilon_is_the_share_of_random_actions)
{
    enum { ROUNDS = 500 };
    int greedy[WORLD_ACTIONS] = {0}, counts[WORLD_ACTIONS] = {0}, best = 0;
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_OK(count_actions(learner, 0.0f, 1, greedy));
    CHECK_OK(count_actions(learner, 0.3f, ROUNDS, counts));
    for (int k = 0; k < WORLD_ACTIONS; k++)
        best = greedy[k] > greedy[best] ? k : best;
    CHECK_EQUAL(greedy[best], ACTS);
    const double n = (double)ROUNDS * ACTS, p = 1 - 0.3 * (WORLD_ACTIONS - 1) / WORLD_ACTIONS;
    CHECK_NEAR(counts[best], n * p, 5 * sqrt(n * p * (1 - p))); /* 5 sigma: once in 1,700,000 */
    for (int k = 0; k < WORLD_ACTIONS; k++)
        CHECK(k == best || fabs(counts[k] - n * 0.1) <= 5 * sqrt(n * 0.1 * 0.9));
    rig_close_learner(&world, learner);
}

TEST(exploration_follows_the_seed_alone)
{
    float obs[ACTS * WORLD_FEATURES] = {0};
    int32_t actions[3][ACTS];
    for (int i = 0; i < 3; i++) {
        gpur_learner_config config = world_config(GPUR_HEAD_Q, 1);
        config.seed = i < 2 ? 5 : 6;
        gpur_learner *const learner = rig_open_learner(&world, device, config);
        CHECK(learner);
        CHECK_OK(gpur_learner_act(learner, ACTS, obs, 1.0f, actions[i], NULL));
        CHECK_OK(gpur_learner_act(learner, ACTS, obs, 1.0f, actions[i], NULL));
        rig_close_learner(&world, learner);
    }
    CHECK(memcmp(actions[0], actions[1], sizeof actions[0]) == 0);
    CHECK(memcmp(actions[0], actions[2], sizeof actions[0]) != 0);
}

TEST(the_first_of_equal_actions_is_taken)
{
    const float obs[WORLD_FEATURES] = {0.5f}, zero[12 * WORLD_ACTIONS] = {0};
    int32_t action = -1;
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "q.out.weight", zero, 12 * WORLD_ACTIONS));
    CHECK_OK(gpur_learner_write_weights(learner, GPUR_WEIGHTS_ONLINE, "q.out.bias", zero, WORLD_ACTIONS));
    CHECK_OK(gpur_learner_act(learner, 1, obs, 0.0f, &action, NULL));
    CHECK_EQUAL(action, 0);
    rig_close_learner(&world, learner);
}

/* A larger call takes memory for its observations. Rows of 1, 65, 200 and 3,000 observations are answered alike. */
TEST(a_larger_call_grows_the_buffers)
{
    enum { MOST = 3000 };
    static const int64_t counts[] = {65, 1, 200, 66, MOST};
    static float obs[MOST * WORLD_FEATURES], q[MOST * WORLD_ACTIONS], alone[WORLD_ACTIONS];
    static int32_t actions[MOST];
    gpur_learner_stats stats = {.size = sizeof stats};
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_DUELING, 1));
    CHECK(learner);
    rig_random(4, obs, MOST * WORLD_FEATURES);
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    const int64_t pinned = stats.pinned_bytes, bytes = stats.device_bytes;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        CHECK_OK(gpur_learner_q_values(learner, counts[c], obs, q, NULL));
        CHECK_OK(gpur_learner_act(learner, counts[c], obs, 0.0f, actions, NULL));
        for (int64_t i = 0; i < counts[c]; i += 1 + counts[c] / 7) {
            CHECK_OK(gpur_learner_q_values(learner, 1, obs + i * WORLD_FEATURES, alone, NULL));
            for (int k = 0; k < WORLD_ACTIONS; k++)
                CHECK_NEAR(q[i * WORLD_ACTIONS + k], alone[k], 1e-5 * (1 + fabsf(alone[k])));
            CHECK_EQUAL(actions[i], best_of(q + i * WORLD_ACTIONS));
        }
        CHECK_OK(gpur_learner_train(learner, 1));
    }
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK(stats.pinned_bytes > pinned && stats.device_bytes > bytes);
    rig_close_learner(&world, learner);
}

TEST(observations_may_lie_in_device_memory)
{
    float obs[ACTS * WORLD_FEATURES];
    int32_t here[ACTS], there[ACTS];
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    rig_random(12, obs, ACTS * WORLD_FEATURES);
    float *const on_device = rig_upload(device, obs, sizeof obs);
    CHECK(on_device);
    CHECK_OK(gpur_learner_act(learner, ACTS, obs, 0.0f, here, NULL));
    CHECK_OK(gpur_learner_act(learner, ACTS, on_device, 0.0f, there, NULL));
    CHECK(memcmp(here, there, sizeof here) == 0);
    gpur_device_free(device, on_device);
    gpur_learner_stats stats = {.size = sizeof stats};
    CHECK_OK(gpur_learner_get_stats(learner, &stats));
    CHECK_EQUAL(stats.acts, 2 * ACTS);
    rig_close_learner(&world, learner);
}

TEST(bad_acts_are_refused_with_their_value)
{
    float obs[WORLD_FEATURES] = {0}, q[WORLD_ACTIONS];
    int32_t action = 77;
    gpur_learner *const learner = rig_open_learner(&world, device, world_config(GPUR_HEAD_Q, 1));
    CHECK(learner);
    CHECK_STATUS(gpur_learner_act(learner, 0, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 0; it must be 1 to 1048576");
    CHECK_STATUS(gpur_learner_act(learner, 1048577, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_act(learner, INT64_MAX, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("count is 9223372036854775807");
    CHECK_STATUS(gpur_learner_act(learner, INT64_MIN, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_q_values(learner, INT64_MAX, obs, q, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_act(learner, 1, NULL, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_act(learner, 1, obs, 0, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_act(learner, 1, obs, 1.5f, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("epsilon is 1.5; it must be 0 to 1");
    CHECK_STATUS(gpur_learner_act(learner, 1, obs, NAN, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_act(NULL, 1, obs, 0, &action, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_q_values(learner, 1048577, obs, q, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_STATUS(gpur_learner_q_values(learner, 1, obs, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_EQUAL(action, 77);
    if (!test_on_cuda()) {
        CHECK_STATUS(gpur_learner_act(learner, 1, obs, 0, &action, &action), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE("on the CPU it must be NULL");
        CHECK_STATUS(gpur_learner_q_values(learner, 1, obs, q, &action), GPUR_INVALID_ARGUMENT);
    }
    rig_close_learner(&world, learner);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(greedy_acting_takes_the_best_of_the_q_values);
    RUN(q_values_agree_with_the_reference_after_training);
    RUN(a_q_value_does_not_depend_on_its_batch_mates);
    RUN(epsilon_one_is_uniform);
    RUN(epsilon_is_the_share_of_random_actions);
    RUN(exploration_follows_the_seed_alone);
    RUN(the_first_of_equal_actions_is_taken);
    RUN(a_larger_call_grows_the_buffers);
    RUN(observations_may_lie_in_device_memory);
    RUN(bad_acts_are_refused_with_their_value);
    gpur_device_close(device);
    return test_main_end();
}
