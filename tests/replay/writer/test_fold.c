/* SPDX-License-Identifier: MIT */
/* The n-step fold by itself: which transitions are due, and what their rewards come to. */
#include "test.h"
#include "replay/writer/env_state.h"

TEST(one_step_is_due_once_there_are_enough_and_all_are_at_an_end)
{
    for (int32_t n = 1; n <= 64; n++)
        for (int32_t pending = 1; pending <= n; pending++) {
            CHECK_EQUAL(gpur_fold_due(pending, n, 0), pending == n);
            CHECK_EQUAL(gpur_fold_due(pending, n, 1), pending);
        }
    CHECK_EQUAL(gpur_fold_due(0, 5, 1), 0);
    CHECK_EQUAL(gpur_fold_due(0, 5, 0), 0);
}

/* Rewards 1, 10, 100, ... show which were taken, and gamma 1/2, exact in binary, how often each was discounted. */
TEST(rewards_fold_with_the_product_of_their_discounts)
{
    const float rewards[4] = {1, 10, 100, 1000};
    const double want[5] = {0, 1, 1 + 5, 1 + 5 + 25, 1 + 5 + 25 + 125};
    for (int32_t m = 1; m <= 4; m++) {
        const gpur_fold fold = gpur_fold_rewards(rewards, 4, 0, m, 0.5f);
        CHECK_NEAR(fold.reward, want[m], 0);
        CHECK_NEAR(fold.discount, pow(0.5, m), 0);
    }
}

TEST(the_ring_of_rewards_goes_round)
{
    const float rewards[4] = {4, 8, 1000, 2};
    const gpur_fold fold = gpur_fold_rewards(rewards, 4, 7, 3, 0.5f); /* 2, 4, 8 */
    CHECK_NEAR(fold.reward, 2 + 2 + 2, 0);
    CHECK_NEAR(gpur_fold_rewards(rewards, 4, 4 * 1000000007ll + 3, 2, 0.5f).reward, 2 + 2, 0);
}

TEST(a_single_reward_is_not_touched)
{
    const float odd[] = {NAN, INFINITY, -0.0f, 1e-45f, 0.1f};
    for (int i = 0; i < 5; i++) {
        const gpur_fold fold = gpur_fold_rewards(&odd[i], 1, i * 7, 1, 0.99f);
        CHECK(memcmp(&fold.reward, &odd[i], sizeof odd[i]) == 0 || (isnan(fold.reward) && isnan(odd[i])));
        CHECK(fold.discount == 0.99f);
    }
}

TEST(a_long_fold_keeps_the_precision_of_a_float)
{
    float rewards[64];
    double want = 0, power = 1;
    for (int i = 0; i < 64; i++, power *= (double)0.997f) {
        rewards[i] = (float)(i % 7) * 0.3f - 1;
        want += power * (double)rewards[i];
    }
    const gpur_fold fold = gpur_fold_rewards(rewards, 64, 0, 64, 0.997f);
    CHECK_NEAR(fold.reward, want, 1e-7 * (1 + fabs(want)));
    CHECK_NEAR(fold.discount, power, 1e-7);
    CHECK_NEAR(gpur_fold_rewards(rewards, 64, 0, 64, 0.0f).reward, rewards[0], 0);
    CHECK_NEAR(gpur_fold_rewards(rewards, 64, 0, 64, 1.0f).discount, 1, 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(one_step_is_due_once_there_are_enough_and_all_are_at_an_end);
    RUN(rewards_fold_with_the_product_of_their_discounts);
    RUN(the_ring_of_rewards_goes_round);
    RUN(a_single_reward_is_not_touched);
    RUN(a_long_fold_keeps_the_precision_of_a_float);
    return test_main_end();
}
