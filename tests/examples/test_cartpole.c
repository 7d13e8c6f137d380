/* SPDX-License-Identifier: MIT */
/* CartPole and the vectoriser by themselves; test_cartpole.py compares the physics with Gymnasium. */
#include "examples/cartpole.h"
#include "examples/vec_env.h"
#include "test.h"

#include <math.h>
#include <string.h>

static cartpole open_cartpole(uint64_t seed, float *obs)
{
    cartpole pole;
    cartpole_kind.init(&pole, seed);
    cartpole_kind.reset(&pole, obs);
    return pole;
}

static env_outcome push(cartpole *pole, int32_t action, float *obs)
{
    return cartpole_kind.step(pole, &action, obs);
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
    const env_outcome outcome = push(&pole, 1, obs);
    CHECK(pole.x == 0.0 && pole.theta == 0.0);
    CHECK_NEAR(pole.x_dot, 0.02 * 400.0 / 41.0, 1e-15);
    CHECK_NEAR(pole.theta_dot, -0.02 * 600.0 / 41.0, 1e-15);
    CHECK(outcome.reward == 1.0f && !outcome.terminated && !outcome.truncated);
    CHECK(obs[1] == (float)pole.x_dot && obs[3] == (float)pole.theta_dot);
}

TEST(left_is_the_mirror_of_right)
{
    float obs[4];
    cartpole right = open_cartpole(2, obs), left = right;
    left.x = -left.x, left.x_dot = -left.x_dot, left.theta = -left.theta, left.theta_dot = -left.theta_dot;
    for (int i = 0; i < 12; i++) {
        push(&right, i % 3 == 0, obs);
        push(&left, i % 3 != 0, obs);
        CHECK(right.x == -left.x && right.x_dot == -left.x_dot);
        CHECK(right.theta == -left.theta && right.theta_dot == -left.theta_dot);
    }
}

TEST(pushing_one_way_drops_the_pole_in_8_to_11_steps)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        float obs[4];
        cartpole pole = open_cartpole(seed, obs);
        env_outcome outcome = {0};
        int steps = 0;
        for (; !outcome.terminated && steps < 100; steps++)
            outcome = push(&pole, 0, obs);
        CHECK(steps >= 8 && steps <= 11 && !outcome.truncated);
        CHECK(fabsf(obs[2]) > 0.2094395f);
    }
}

TEST(balanced_pole_is_truncated_at_step_500_and_not_terminated)
{
    float obs[4];
    cartpole pole = open_cartpole(3, obs);
    for (int i = 1; i <= 500; i++) {
        const env_outcome outcome = push(&pole, balance(obs), obs);
        CHECK(!outcome.terminated);
        CHECK(outcome.truncated == (i == 500));
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
        cartpole_kind.reset(&first, a);
        cartpole_kind.reset(&second, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
}

TEST(copies_start_apart_and_step_like_single_ones)
{
    vec_env envs;
    CHECK(vec_env_open(&envs, &cartpole_kind, 3, 11) == 0);
    cartpole singles[3];
    memcpy(singles, envs.states, sizeof singles);
    CHECK(singles[0].x != singles[1].x && singles[1].x != singles[2].x && singles[0].x != singles[2].x);
    for (int step = 0; step < 8; step++) {
        const int32_t actions[3] = {step % 2, (step + 1) % 2, step % 3 == 0};
        vec_env_step(&envs, actions);
        for (int i = 0; i < 3; i++) {
            float obs[4];
            push(&singles[i], actions[i], obs);
            CHECK(memcmp(obs, vec_env_obs(&envs, i), sizeof obs) == 0);
            CHECK(memcmp(obs, envs.next_obs + i * envs.obs_bytes, sizeof obs) == 0);
        }
    }
    vec_env_close(&envs);
}

TEST(an_ended_copy_shows_its_final_observation_and_waits_with_a_new_first_one)
{
    vec_env envs;
    CHECK(vec_env_open(&envs, &cartpole_kind, 2, 5) == 0);
    float steps = 0.0f;
    do {
        const int32_t actions[2] = {0, balance(vec_env_obs(&envs, 1))};
        vec_env_step(&envs, actions);
        steps++;
    } while (!vec_env_ended(&envs, 0) && steps < 100.0f);
    const float *const last = (const float *)(const void *)envs.next_obs;
    const float *const first = vec_env_obs(&envs, 0);
    CHECK(envs.terminated[0] && !envs.truncated[0] && fabsf(last[2]) > 0.2f);
    CHECK(fabsf(first[0]) <= 0.05f && fabsf(first[2]) <= 0.05f);
    CHECK(envs.episode_return[0] == steps);
    CHECK(!vec_env_ended(&envs, 1) && envs.episode_return[1] == steps);
    const int32_t actions[2] = {0, 0};
    vec_env_step(&envs, actions);
    CHECK(envs.episode_return[0] == 1.0f && envs.episode_return[1] == steps + 1.0f);
    vec_env_close(&envs);
}

TEST(resetting_begins_new_episodes_everywhere)
{
    vec_env envs;
    CHECK(vec_env_open(&envs, &cartpole_kind, 2, 6) == 0);
    const int32_t actions[2] = {0, 1};
    float before[8];
    memcpy(before, envs.obs, sizeof before);
    vec_env_step(&envs, actions);
    vec_env_reset(&envs);
    CHECK(memcmp(before, envs.obs, 16) != 0 && memcmp(before + 4, envs.obs + 16, 16) != 0);
    CHECK(envs.episode_return[0] == 0.0f && envs.episode_return[1] == 0.0f);
    vec_env_close(&envs);
}

/* A kind that counts its open copies, and has no memory for a third. */
static int counted_open;

static int counted_init(void *env, uint64_t seed)
{
    return counted_open == 2 ? -1 : (counted_open++, cartpole_kind.init(env, seed));
}

static void counted_close(void *env)
{
    (void)env;
    counted_open--;
}

TEST(a_copy_that_cannot_be_opened_leaves_none_open)
{
    env_kind kind = cartpole_kind;
    kind.init = counted_init;
    kind.close = counted_close;
    vec_env envs;
    CHECK(vec_env_open(&envs, &kind, 3, 1) == -1);
    CHECK(counted_open == 0 && envs.states == NULL);
    CHECK(vec_env_open(&envs, &kind, 2, 1) == 0);
    CHECK(counted_open == 2);
    vec_env_close(&envs);
    CHECK(counted_open == 0);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(first_push_from_rest_is_as_by_hand);
    RUN(left_is_the_mirror_of_right);
    RUN(pushing_one_way_drops_the_pole_in_8_to_11_steps);
    RUN(balanced_pole_is_truncated_at_step_500_and_not_terminated);
    RUN(same_seed_plays_the_same_episodes_and_another_seed_does_not);
    RUN(copies_start_apart_and_step_like_single_ones);
    RUN(an_ended_copy_shows_its_final_observation_and_waits_with_a_new_first_one);
    RUN(resetting_begins_new_episodes_everywhere);
    RUN(a_copy_that_cannot_be_opened_leaves_none_open);
    return test_main_end();
}
