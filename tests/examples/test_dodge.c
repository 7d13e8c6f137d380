/* SPDX-License-Identifier: MIT */
/* The dodge game: its rules by hand-made situations, what is observed of them, and who can play it. */
#include "examples/dodge.h"
#include "examples/env_random.h"
#include "test.h"

enum { STAY, LEFT, RIGHT, DOWN, UP };

/* The player in the middle and the opponent resting far to its right, for `resting` frames, with no throw to come. */
static dodge situation(int32_t resting)
{
    return (dodge){.opponent.place = {0.9, 0.0}, .phase = DODGE_REST, .phase_left = resting, .throw_after = 1000};
}

static env_outcome play(dodge *game, int32_t action)
{
    float obs[DODGE_OBS];
    return dodge_kind.step(game, &action, obs);
}

TEST(actions_lead_where_they_say_and_walls_stop)
{
    static const dodge_vector ways[] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    for (int32_t action = STAY; action <= UP; action++) {
        dodge game = situation(1000);
        game.opponent.place.y = 0.9;
        const env_outcome outcome = play(&game, action);
        CHECK_NEAR(game.player.place.x, 6 * 0.06 * ways[action].x, 1e-12);
        CHECK_NEAR(game.player.place.y, 6 * 0.06 * ways[action].y, 1e-12);
        CHECK_NEAR(outcome.reward, 0.1, 1e-7);
        CHECK(!outcome.terminated && !outcome.truncated);
        for (int i = 0; i < 3; i++)
            play(&game, action);
        CHECK_NEAR(game.player.place.x, ways[action].x, 1e-12);
        CHECK(game.player.move.x == 0.0 && game.player.move.y == 0.0);
    }
    dodge game = situation(1000);
    play(&game, 5), play(&game, -1);
    CHECK(game.player.place.x == 0.0 && game.player.place.y == 0.0);
}

TEST(opponent_pursues_aims_dashes_and_rests)
{
    dodge game = situation(6);
    play(&game, STAY); /* rests to the end */
    CHECK(game.phase == DODGE_PURSUE && game.opponent.place.x == 0.9);
    play(&game, STAY), play(&game, STAY);
    CHECK_NEAR(game.opponent.place.x, 0.9 - 12 * 0.03, 1e-12);
    play(&game, STAY); /* comes within 0.40 in the fifth frame, and aims for one of eight */
    CHECK(game.phase == DODGE_AIM && game.phase_left == 7);
    CHECK_NEAR(game.opponent.place.x, 0.39, 1e-12);
    CHECK_NEAR(game.aim.x, -1.0, 1e-12);
    play(&game, UP); /* where it aims it stays aiming */
    CHECK(game.phase == DODGE_AIM && game.phase_left == 1 && game.aim.y == 0.0);
    play(&game, UP); /* the last of eight, then five of six frames of the dash */
    CHECK(game.phase == DODGE_DASH && game.phase_left == 1);
    CHECK_NEAR(game.opponent.place.x, 0.39 - 5 * 0.09, 1e-12);
    play(&game, UP); /* the sixth, then five of ten frames of rest */
    CHECK(game.phase == DODGE_REST && game.phase_left == 5 && game.aim.x == 0.0);
    CHECK_NEAR(game.opponent.place.x, 0.39 - 6 * 0.09, 1e-12);
}

TEST(a_dash_hits_who_stays_and_ends_the_episode)
{
    dodge game = situation(1);
    game.opponent.place.x = 0.30; /* aims from the first frame on, dashes after the ninth; 0.12 is reached in 0.18 */
    CHECK_NEAR(play(&game, STAY).reward, 0.1, 1e-7);
    const env_outcome outcome = play(&game, STAY);
    CHECK_NEAR(game.opponent.place.x, 0.30 - 3 * 0.09, 1e-12);
    CHECK(outcome.terminated && !outcome.truncated);
    CHECK_NEAR(outcome.reward, 5.0 / 60.0, 1e-7);
}

TEST(a_ball_flies_at_where_the_player_was)
{
    dodge game = situation(1);
    game.throw_after = 2;
    play(&game, UP); /* thrown in the second frame, when the player has come 0.12 up */
    const double distance = sqrt(0.9 * 0.9 + 0.12 * 0.12);
    CHECK(game.is_flying[0] && !game.is_flying[1] && !game.is_flying[2]);
    CHECK(game.throw_after >= 24 - 4 && game.throw_after <= 47 - 4);
    CHECK_NEAR(game.balls[0].move.x, -0.05 * 0.9 / distance, 1e-12);
    CHECK_NEAR(game.balls[0].move.y, 0.05 * 0.12 / distance, 1e-12);
    game.throw_after = 1000;
    for (int i = 0; i < 5; i++)
        play(&game, UP);
    CHECK(game.is_flying[0] && game.balls[0].place.x < -0.8);
    play(&game, UP);
    CHECK(!game.is_flying[0]);
}

TEST(a_ball_hits_who_stays)
{
    dodge game = situation(1000);
    game.balls[1] = (dodge_body){{0.0, 0.29}, {0.0, -0.05}}, game.is_flying[1] = 1;
    const env_outcome outcome = play(&game, STAY); /* nearer than 0.10 in the fourth frame */
    CHECK(outcome.terminated && !outcome.truncated);
    CHECK_NEAR(outcome.reward, 3.0 / 60.0, 1e-7);
    CHECK(game.frames == 4);
}

TEST(no_ball_is_thrown_by_an_opponent_that_is_busy_near_or_out_of_balls)
{
    dodge busy = situation(1000), near = situation(1), out = situation(1);
    busy.throw_after = near.throw_after = out.throw_after = 1;
    near.opponent.place.x = 0.62; /* 0.59 once it has moved */
    near.throw_after = 2;
    for (int i = 0; i < DODGE_BALLS; i++)
        out.balls[i].place = (dodge_vector){0.0, -0.9}, out.is_flying[i] = 1;
    play(&busy, STAY), play(&near, STAY), play(&out, STAY);
    CHECK(!busy.is_flying[0] && !near.is_flying[0]);
    CHECK(busy.throw_after > 1 && near.throw_after > 1 && out.throw_after > 1);
    for (int i = 0; i < DODGE_BALLS; i++)
        CHECK(out.balls[i].place.y == -0.9);
}

/* Halves and quarters, so that every number is exact. */
TEST(each_number_observed_is_the_one_documented)
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

TEST(episodes_begin_apart_with_nothing_flying)
{
    dodge game;
    float obs[DODGE_OBS];
    dodge_kind.init(&game, 4);
    for (int i = 0; i < 1000; i++) {
        dodge_kind.reset(&game, obs);
        const double x = game.player.place.x - game.opponent.place.x, y = game.player.place.y - game.opponent.place.y;
        CHECK(sqrt(x * x + y * y) >= 0.8 && game.phase == DODGE_PURSUE && game.frames == 0);
        CHECK(!game.is_flying[0] && !game.is_flying[1] && !game.is_flying[2]);
        CHECK(game.throw_after >= 24 && game.throw_after <= 47);
        CHECK(fabs(game.player.place.x) <= 0.8 && fabs(game.player.place.y) <= 0.8);
    }
}

/* Chooses an action; `memory` is the policy's own. */
typedef int32_t (*policy)(const float *obs, uint64_t *memory);

static int32_t by_chance(const float *obs, uint64_t *memory)
{
    (void)obs;
    return (int32_t)(env_random_bits(memory) % DODGE_ACTIONS);
}

/* By chance, and kept for two steps or four: wider ways than by_chance has. */
static int32_t stubborn(const float *obs, uint64_t *memory, uint64_t steps)
{
    (void)obs;
    const uint64_t turn = memory[1]++ / steps;
    uint64_t seed = memory[0] + turn;
    return (int32_t)(env_random_bits(&seed) % DODGE_ACTIONS);
}

static int32_t for_two_steps(const float *obs, uint64_t *memory)
{
    return stubborn(obs, memory, 2);
}

static int32_t for_four_steps(const float *obs, uint64_t *memory)
{
    return stubborn(obs, memory, 4);
}

static int32_t always(const float *obs, uint64_t *memory)
{
    (void)obs;
    return (int32_t)memory[0];
}

static int32_t by_hand(const float *obs, uint64_t *memory)
{
    (void)memory;
    return dodge_by_hand(obs);
}

typedef struct tally {
    double mean, best; /* return of an episode */
    int truncated;     /* episodes that were */
    int steps_at_most; /* of an episode */
    int out_of_bounds; /* numbers observed that were */
    uint64_t digest;   /* of all numbers observed: FNV-1a */
} tally;

static void look(tally *t, const float *obs)
{
    for (int i = 0; i < DODGE_OBS; i++) {
        uint32_t bits;
        memcpy(&bits, obs + i, sizeof bits);
        t->digest = (t->digest ^ bits) * 0x100000001b3u;
        t->out_of_bounds += !(obs[i] >= dodge_kind.obs_low[i] && obs[i] <= dodge_kind.obs_high[i]);
    }
}

static void play_episode(dodge *game, policy choose, uint64_t *memory, tally *t)
{
    float obs[DODGE_OBS];
    double sum = 0.0;
    env_outcome outcome = {0};
    int steps = 0;
    dodge_kind.reset(game, obs);
    look(t, obs);
    for (; !outcome.terminated && !outcome.truncated; steps++) {
        const int32_t action = choose(obs, memory);
        outcome = dodge_kind.step(game, &action, obs);
        sum += (double)outcome.reward;
        look(t, obs);
    }
    t->mean += sum;
    t->best = fmax(t->best, sum);
    t->truncated += outcome.truncated;
    t->steps_at_most = steps > t->steps_at_most ? steps : t->steps_at_most;
}

/* All that is observed must be within the bounds of the game. */
static tally play_episodes(policy choose, uint64_t first_word, uint64_t seed, int episodes)
{
    tally t = {.digest = 0xcbf29ce484222325u};
    uint64_t memory[2] = {first_word, 0};
    dodge game;
    dodge_kind.init(&game, seed);
    for (int i = 0; i < episodes; i++)
        play_episode(&game, choose, memory, &t);
    t.mean /= episodes;
    if (t.out_of_bounds)
        test_fail(__FILE__, __LINE__), fprintf(stderr, "%d numbers are out of bounds\n", t.out_of_bounds);
    return t;
}

TEST(nobody_plays_it_well_without_looking)
{
    const tally chance = play_episodes(by_chance, 1, 1, 1000);
    const tally two = play_episodes(for_two_steps, 1, 2, 1000), four = play_episodes(for_four_steps, 1, 3, 1000);
    CHECK(chance.mean < 2.0 && chance.mean > 0.5 && chance.truncated == 0);
    CHECK(two.mean < 2.0 && two.truncated <= 1);
    CHECK(four.mean < 2.0 && four.truncated <= 1);
    for (uint64_t action = STAY; action <= UP; action++)
        CHECK(play_episodes(always, action, 5, 200).best < 2.0);
}

TEST(who_looks_and_gives_way_lasts_to_the_last_frame)
{
    const tally hand = play_episodes(by_hand, 0, 6, 200);
    CHECK(hand.mean > 9.5 && hand.truncated >= 180);
    CHECK(hand.steps_at_most == dodge_kind.max_steps && dodge_kind.max_steps == 100);
    CHECK_NEAR(hand.best, 10.0, 1e-4);
    CHECK((double)dodge_kind.solved_return < hand.mean);
}

/* The digests are those of every compiler and machine: what one seed plays, to the last bit. */
TEST(same_seed_plays_the_same_episodes_everywhere_and_another_seed_does_not)
{
    const uint64_t first = play_episodes(by_chance, 1, 42, 200).digest;
    CHECK(play_episodes(by_chance, 1, 42, 200).digest == first);
    CHECK(play_episodes(by_chance, 1, 43, 200).digest != first);
    CHECK(play_episodes(by_chance, 2, 42, 200).digest != first);
    CHECK(first == 0x8a2de1a67bb26b20u);
    CHECK(play_episodes(by_hand, 0, 42, 20).digest == 0x252312661b7be455u);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(actions_lead_where_they_say_and_walls_stop);
    RUN(opponent_pursues_aims_dashes_and_rests);
    RUN(a_dash_hits_who_stays_and_ends_the_episode);
    RUN(a_ball_flies_at_where_the_player_was);
    RUN(a_ball_hits_who_stays);
    RUN(no_ball_is_thrown_by_an_opponent_that_is_busy_near_or_out_of_balls);
    RUN(each_number_observed_is_the_one_documented);
    RUN(episodes_begin_apart_with_nothing_flying);
    RUN(nobody_plays_it_well_without_looking);
    RUN(who_looks_and_gives_way_lasts_to_the_last_frame);
    RUN(same_seed_plays_the_same_episodes_everywhere_and_another_seed_does_not);
    return test_main_end();
}
