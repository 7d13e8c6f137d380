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
    gpur_env_result result;
    CHECK(!dodge_type.step(&game, &action, obs, &result));
    CHECK_NEAR(result.reward, 0.1, 1e-7);
    CHECK(!dodge_type.step(&game, &action, obs, &result));
    CHECK_NEAR(game.opponent.place.x, 0.30 - 3 * 0.09, 1e-12);
    CHECK(result.terminated && !result.truncated);
    CHECK_NEAR(result.reward, 5.0 / 60.0, 1e-7);
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
    gpur_env_result result;
    CHECK(!dodge_type.step(&game, &action, obs, &result));
    for (int i = 0; i < DODGE_OBS; i++)
        CHECK_NEAR(obs[i], wanted[i], 1e-6);
}

typedef struct tally {
    double mean;       /* return of an episode */
    int truncated;     /* episodes that were */
    int max_steps;     /* of an episode */
    int failures;      /* of calls */
    int out_of_bounds; /* numbers observed that were */
    uint64_t digest;   /* of all numbers observed: FNV-1a */
} tally;

static void count_obs(tally *t, const float *obs)
{
    for (int i = 0; i < DODGE_OBS; i++) {
        uint32_t bits;
        memcpy(&bits, obs + i, sizeof bits);
        t->digest = (t->digest ^ bits) * 0x100000001b3u;
        t->out_of_bounds += !(obs[i] >= -1.0f && obs[i] <= 1.0f);
    }
}

/* Random actions. Each is repeated `repeat` times, so that the player also gets far. */
static tally run_episodes(int repeat, uint64_t memory, uint64_t seed, int episodes)
{
    tally t = {.digest = 0xcbf29ce484222325u};
    float obs[DODGE_OBS];
    gpur_env_info info = {.size = sizeof info};
    void *game = NULL;
    t.failures += dodge_type.init("", seed, &info, &game) != NULL;
    for (int i = 0; i < episodes; i++) {
        double sum = 0.0;
        gpur_env_result result = {0};
        int steps = 0;
        int32_t action = 0;
        t.failures += dodge_type.reset(game, obs) != NULL;
        count_obs(&t, obs);
        for (; !result.terminated && !result.truncated; steps++) {
            if (steps % repeat == 0)
                action = (int32_t)(env_random_bits(&memory) % DODGE_ACTIONS);
            t.failures += dodge_type.step(game, &action, obs, &result) != NULL;
            sum += (double)result.reward;
            count_obs(&t, obs);
        }
        t.mean += sum / episodes;
        t.truncated += result.truncated;
        t.max_steps = steps > t.max_steps ? steps : t.max_steps;
    }
    dodge_type.close(game);
    return t;
}

TEST(random_actions_score_low_and_nothing_observed_is_out_of_bounds)
{
    const tally single = run_episodes(1, 1, 1, 1000), repeated = run_episodes(4, 1, 1, 1000);
    CHECK(single.mean < 2.0 && single.mean > 0.5 && single.truncated == 0);
    CHECK_EQUAL(single.out_of_bounds + repeated.out_of_bounds, 0);
    CHECK_EQUAL(single.failures + repeated.failures, 0);
    CHECK(single.max_steps <= 100);
}

TEST(spaces_are_the_documented_ones_and_what_is_not_is_refused)
{
    const int32_t action = DODGE_ACTIONS;
    gpur_env_info info = {.size = sizeof info};
    gpur_env_result result;
    float obs[DODGE_OBS];
    void *game = NULL;
    CHECK(strstr(dodge_type.init("balls=4", 1, &info, &game), "has no options") && !game);
    CHECK(!dodge_type.init("", 1, &info, &game));
    CHECK(info.obs.dtype == GPUR_FLOAT32 && info.obs.shape[0] == DODGE_OBS && info.obs.shape[1] == 0);
    CHECK(info.obs.low == -1.0f && info.obs.high == 1.0f && info.action.num_actions == DODGE_ACTIONS);
    CHECK(info.max_steps == 100 && info.save_bytes == 0);
    CHECK(!dodge_type.reset(game, obs));
    CHECK(strstr(dodge_type.step(game, &action, obs, &result), "the action is 5; it must be 0 to 4"));
    dodge_type.close(game);
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
    RUN(spaces_are_the_documented_ones_and_what_is_not_is_refused);
    RUN(a_seed_gives_the_same_episodes_everywhere_and_another_seed_others);
    return test_main_end();
}
