/* SPDX-License-Identifier: MIT */
/* The end of a train step: target copies, counts and means, and steps that find nothing to train on. */
#include "test.h"
#include "support/learn_rig.h"
#include "support/optimizer_rig.h"

static gpur_device *device;

/* The numbers of the steps that ended in a copy, as bits. */
static uint64_t copies_of(int64_t period, int first)
{
    static float w[P], g[P], online[P], target[P];
    uint64_t copies = 0;
    optimizer_rig b;
    gpur_learner_config config = optimizer_rig_config(GPUR_ADAM, 0);
    config.target_period = period;
    config.target_copy_first = first;
    rig_random(1, w, P);
    if (optimizer_rig_open(&b, device, &config, w) != GPUR_OK)
        return ~0ull;
    for (int t = 1; t <= 25; t++) {
        optimizer_rig_gradient(t, g);
        if (optimizer_rig_step(&b, g) != GPUR_OK || optimizer_rig_read(&b, b.optimizer.weights, online) != GPUR_OK ||
            optimizer_rig_read(&b, b.optimizer.target, target) != GPUR_OK)
            return ~0ull;
        copies |= (uint64_t)(memcmp(online, target, sizeof online) == 0) << t;
    }
    const int counted = optimizer_rig_state(&b).target_copies == __builtin_popcountll(copies);
    optimizer_rig_close(&b);
    return counted ? copies : ~0ull;
}

TEST(the_target_is_copied_at_exactly_the_right_steps)
{
    CHECK(copies_of(10, 0) == (1ull << 10 | 1ull << 20));
    CHECK(copies_of(10, 1) == (1ull << 1 | 1ull << 11 | 1ull << 21)); /* steps 0, 10, 20 of a count from 0 */
    CHECK(copies_of(1, 0) == ((1ull << 26) - 2));
    CHECK(copies_of(1, 1) == ((1ull << 26) - 2));
    CHECK(copies_of(100, 1) == 1ull << 1);
    CHECK(copies_of(100, 0) == 0);
}

TEST(an_empty_window_changes_nothing_and_is_counted)
{
    static float w[P], g[P], got[P];
    const gpur_window empty = {7, 3, 0};
    optimizer_rig b;
    const gpur_learner_config config = optimizer_rig_config(GPUR_RMSPROP_TF, 1);
    rig_random(1, w, P);
    CHECK_OK(optimizer_rig_open(&b, device, &config, w));
    const gpur_train_state before = optimizer_rig_state(&b);
    CHECK_OK(gpur_device_copy(device, b.window, &empty, sizeof empty));
    optimizer_rig_gradient(1, g);
    CHECK_OK(optimizer_rig_step(&b, g));
    gpur_train_state after = optimizer_rig_state(&b);
    CHECK_EQUAL(after.skipped, 1);
    after.skipped = 0;
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    CHECK_OK(optimizer_rig_read(&b, b.optimizer.weights, got));
    CHECK(memcmp(got, w, sizeof w) == 0);
    CHECK_OK(optimizer_rig_read(&b, b.optimizer.square, got));
    for (int i = 0; i < P; i++)
        CHECK_NEAR(got[i], 1, 0);
    optimizer_rig_close(&b);
}

TEST(the_end_of_a_step_averages_loss_and_counts)
{
    static float w[P], g[P];
    optimizer_rig b;
    const gpur_learner_config config = optimizer_rig_config(GPUR_ADAM, 0);
    CHECK_OK(optimizer_rig_open(&b, device, &config, w));
    for (int t = 1; t <= 7; t++)
        CHECK_OK(optimizer_rig_step(&b, g));
    const gpur_train_state state = optimizer_rig_state(&b);
    CHECK_EQUAL(state.step, 7);
    CHECK_NEAR(state.loss, 3, 0);
    CHECK_NEAR(state.mean_q, 3, 0);
    CHECK_NEAR(state.loss_sum, 21, 0);
    CHECK_EQUAL(state.invalid_actions, 14);
    CHECK_NEAR(state.gradient_norm, 0, 0);
    CHECK_NEAR(state.beta1_power, pow((double)0.9f, 8), 1e-14);
    optimizer_rig_close(&b);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(the_target_is_copied_at_exactly_the_right_steps);
    RUN(an_empty_window_changes_nothing_and_is_counted);
    RUN(the_end_of_a_step_averages_loss_and_counts);
    gpur_device_close(device);
    return test_main_end();
}
