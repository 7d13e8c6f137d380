/* SPDX-License-Identifier: MIT */
/* CartPole: one push by hand, the end of an episode, seeds; test_cartpole.py compares every step with Gymnasium's. */
#include "examples/cartpole.h"
#include "test.h"

#include <string.h>

typedef struct outcome {
    uint8_t terminated, truncated;
} outcome;

static cartpole open_cartpole(uint64_t seed, float *obs)
{
    cartpole pole = {.random = seed};
    cartpole_reset(&pole, obs);
    return pole;
}

static outcome push(cartpole *pole, int32_t action, float *obs)
{
    outcome o;
    cartpole_step(pole, action, obs, &o.terminated, &o.truncated);
    return o;
}

/* Right when the pole falls or drifts to the right: enough to stand forever from any start. */
static int32_t balance(const float *obs)
{
    return obs[2] + 0.5f * obs[3] + 0.02f * obs[0] + 0.05f * obs[1] > 0.0f;
}

/* From rest at the origin with 10 N: swing = 10 / 1.1, and by hand theta'' = -600 / 41 and x'' = 400 / 41. */
TEST(first_push_from_rest_is_as_by_hand)
{
    float obs[4];
    cartpole pole = open_cartpole(1, obs);
    pole.x = pole.x_dot = pole.theta = pole.theta_dot = 0.0;
    const outcome end = push(&pole, 1, obs);
    CHECK(pole.x == 0.0 && pole.theta == 0.0);
    CHECK_NEAR(pole.x_dot, 0.02 * 400.0 / 41.0, 1e-15);
    CHECK_NEAR(pole.theta_dot, -0.02 * 600.0 / 41.0, 1e-15);
    CHECK(!end.terminated && !end.truncated);
    CHECK(obs[1] == (float)pole.x_dot && obs[3] == (float)pole.theta_dot);
}

TEST(balanced_pole_is_truncated_at_step_500_and_not_terminated)
{
    float obs[4];
    cartpole pole = open_cartpole(3, obs);
    for (int i = 1; i <= 500; i++) {
        const outcome end = push(&pole, balance(obs), obs);
        CHECK(!end.terminated);
        CHECK(end.truncated == (i == 500));
    }
}

TEST(same_seed_plays_the_same_episodes_and_another_seed_does_not)
{
    float a[4], b[4], c[4];
    cartpole first = open_cartpole(7, a), second = open_cartpole(7, b);
    open_cartpole(8, c);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(memcmp(a, c, sizeof a) != 0);
    for (int episode = 0; episode < 5; episode++) {
        cartpole_reset(&first, a);
        cartpole_reset(&second, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(first_push_from_rest_is_as_by_hand);
    RUN(balanced_pole_is_truncated_at_step_500_and_not_terminated);
    RUN(same_seed_plays_the_same_episodes_and_another_seed_does_not);
    return test_main_end();
}
