/* SPDX-License-Identifier: MIT */
/* The dodge game: its rules, what is observed of them, and what policies score in it. */
#include "examples/dodge.h"
#include "examples/env_random.h"
#include "test.h"

enum { STAY = 0, UP = 4 };

/* The opponent aims from the first frame on and dashes after the ninth; 0.12 is reached in 0.18. */
TEST(a_dash_hits_a_player_that_stays_and_ends_the_episode)
{
    dodge game = {.phase = DODGE_REST, .phase_left = 1, .throw_after = 1000};
    float obs[DODGE_OBS];
    const int32_t action = STAY;
    game.opponent.place.x = 0.30;
    CHECK_NEAR(dodge_kind.step(&game, &action, obs).reward, 0.1, 1e-7);
    const env_outcome outcome = dodge_kind.step(&game, &action, obs);
    CHECK_NEAR(game.opponent.place.x, 0.30 - 3 * 0.09, 1e-12);
    CHECK(outcome.terminated && !outcome.truncated);
    CHECK_NEAR(outcome.reward, 5.0 / 60.0, 1e-7);
}

/* Halves and quarters, so that every number is exact. */
TEST(each_observed_number_is_the_documented_one)
{
    static const float wanted[DODGE_OBS] = {0.25f, 0.0f, 0.0f,  1.0f, 0.25f, -0.25f, 0.0f, 0.0f, 0.0f,
                                            1.0f,  0.0f, 0.0f,  0.5f, 0.0f,  1.0f,   1.0f, 1.0f, 0.0f,
                                            0.0f,  0.0f, 0.25f, 0.0f, 1.0f,  1.0f,   1.0f, 0.0f, 0.0f};
    dodge game = {.player.place = {0.25, -0.36}, .opponent.place = {0.75, -0.5}, .phase = DODGE_AIM, .phase_left = 10};
    game.aim = (dodge_vector){0.0, 1.0}, game.throw_after = 1000;
    game.balls[1] = (dodge_body){{0.25, 0.2}, {0.0, 0.05}}, game.is_flying[1] = 1;
    float obs[DODGE_OBS];
    const int32_t action = UP;
    dodge_kind.step(&game, &action, obs);
    for (int i = 0; i < DODGE_OBS; i++)
        CHECK_NEAR(obs[i], wanted[i], 1e-6);
}

typedef struct tally {
    double mean;       /* return of an episode */
    int truncated;     /* episodes that were */
    int max_steps;     /* of an episode */
    int out_of_bounds; /* numbers observed that were */
    uint64_t digest;   /* of all numbers observed: FNV-1a */
} tally;

static void count_obs(tally *t, const float *obs)
{
    for (int i = 0; i < DODGE_OBS; i++) {
        uint32_t bits;
        memcpy(&bits, obs + i, sizeof bits);
        t->digest = (t->digest ^ bits) * 0x100000001b3u;
        t->out_of_bounds += !(obs[i] >= dodge_kind.obs_low[i] && obs[i] <= dodge_kind.obs_high[i]);
    }
}

/* Random actions. Each is repeated `repeat` times, so that the player also gets far. */
static tally run_episodes(int repeat, uint64_t memory, uint64_t seed, int episodes)
{
    tally t = {.digest = 0xcbf29ce484222325u};
    dodge game;
    float obs[DODGE_OBS];
    dodge_kind.init(&game, seed);
    for (int i = 0; i < episodes; i++) {
        double sum = 0.0;
        env_outcome outcome = {0};
        int steps = 0;
        int32_t action = 0;
        dodge_kind.reset(&game, obs);
        count_obs(&t, obs);
        for (; !outcome.terminated && !outcome.truncated; steps++) {
            if (steps % repeat == 0)
                action = (int32_t)(env_random_bits(&memory) % DODGE_ACTIONS);
            outcome = dodge_kind.step(&game, &action, obs);
            sum += (double)outcome.reward;
            count_obs(&t, obs);
        }
        t.mean += sum / episodes;
        t.truncated += outcome.truncated;
        t.max_steps = steps > t.max_steps ? steps : t.max_steps;
    }
    return t;
}

TEST(random_actions_score_low_and_nothing_observed_is_out_of_bounds)
{
    const tally single = run_episodes(1, 1, 1, 1000), repeated = run_episodes(4, 1, 1, 1000);
    CHECK(single.mean < 2.0 && single.mean > 0.5 && single.truncated == 0);
    CHECK_EQUAL(single.out_of_bounds + repeated.out_of_bounds, 0);
    CHECK(single.max_steps <= dodge_kind.max_steps && dodge_kind.max_steps == 100);
}

/* Every rule of the game is in these digests, which are the same with every compiler and on every machine. */
TEST(a_seed_gives_the_same_episodes_everywhere_and_another_seed_others)
{
    const uint64_t first = run_episodes(1, 1, 42, 200).digest;
    CHECK(first == 0x8a2de1a67bb26b20u);
    CHECK(run_episodes(1, 1, 43, 200).digest != first);
    CHECK(run_episodes(1, 2, 42, 200).digest != first);
    CHECK(run_episodes(4, 1, 42, 200).digest == 0x24356d26fd340e02u);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_dash_hits_a_player_that_stays_and_ends_the_episode);
    RUN(each_observed_number_is_the_documented_one);
    RUN(random_actions_score_low_and_nothing_observed_is_out_of_bounds);
    RUN(a_seed_gives_the_same_episodes_everywhere_and_another_seed_others);
    return test_main_end();
}
