/* SPDX-License-Identifier: MIT */
/* The library's games at play: determinism, saving, and what steps refuse. test_cartpole.py, test_minatar.py and
 * test_pendulum.py compare their rules with other programs, step by step. */
#include "gpureplay/env.h"
#include "test.h"

#include <pthread.h>

enum { GAMES = 7, PENDULUM = 6, STATE_OFFSET = 64 /* of a saved state behind its settings */ };
enum { MAX_OBS = 1000 /* bytes of the longest observation */ };
static const char *const names[GAMES] = {"CartPole-v1",     "MinAtar/Asterix",  "MinAtar/Breakout",
                                         "MinAtar/Freeway", "MinAtar/Seaquest", "MinAtar/SpaceInvaders",
                                         "Pendulum"};

typedef struct game {
    const gpur_env_type *type;
    void *env;
    gpur_env_info info;
    unsigned char obs[MAX_OBS];
    size_t obs_bytes;
    gpur_env_result result;
    int has_episode; /* 1: an episode is open */
    int failures;    /* of calls that should not fail */
    uint64_t digest; /* of all that was observed: FNV-1a */
} game;

static int open_game(game *g, const char *name, const char *options, uint64_t seed)
{
    memset(g, 0, sizeof *g);
    g->info.size = sizeof g->info;
    g->digest = 0xcbf29ce484222325u;
    if (gpur_env_find(name, &g->type) != GPUR_OK || g->type->init(options, seed, &g->info, &g->env))
        return 0;
    g->obs_bytes = g->info.obs.dtype == GPUR_FLOAT32 ? sizeof(float) : 1;
    for (int i = 0; g->info.obs.shape[i]; i++)
        g->obs_bytes *= (size_t)g->info.obs.shape[i];
    return g->obs_bytes <= sizeof g->obs;
}

static void close_game(game *g)
{
    if (g->env)
        g->type->close(g->env);
}

static void add_to_digest(game *g, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        g->digest = (g->digest ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
}

/* A step by an action of a number; Pendulum takes it as a torque. */
static const char *act(game *g, int32_t action)
{
    const float torque = (float)action - 2.0f;
    const int is_discrete = g->info.action.num_actions > 0;
    return g->type->step(g->env, is_discrete ? (const void *)&action : (const void *)&torque, g->obs, &g->result);
}

/* One step, after a reset where the episode has ended. */
static void play_step(game *g, int32_t action)
{
    if (!g->has_episode) {
        g->failures += g->type->reset(g->env, g->obs) != NULL;
        add_to_digest(g, g->obs, g->obs_bytes);
    }
    g->failures += act(g, action) != NULL;
    g->has_episode = !g->result.terminated && !g->result.truncated;
    add_to_digest(g, g->obs, g->obs_bytes);
    add_to_digest(g, &g->result, sizeof g->result);
}

static int32_t random_action(const game *g, uint64_t *random)
{
    const int32_t actions = g->info.action.num_actions;
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((*random >> 33) % (actions > 0 ? (uint64_t)actions : 5));
}

static void play(game *g, uint64_t *random, int steps)
{
    for (int i = 0; i < steps; i++)
        play_step(g, random_action(g, random));
}

/* The digest of so many steps; 0 if a call failed. */
static uint64_t digest_of(const char *name, const char *options, uint64_t seed, uint64_t actions, int steps)
{
    game g;
    if (!open_game(&g, name, options, seed))
        return 0;
    play(&g, &actions, steps);
    close_game(&g);
    return g.failures ? 0 : g.digest;
}

TEST(a_seed_gives_the_same_episodes_and_another_seed_others)
{
    for (int i = 0; i < GAMES; i++) {
        const uint64_t digest = digest_of(names[i], "", 1, 1, 1000);
        CHECK(digest != 0);
        CHECK(digest_of(names[i], "", 1, 1, 1000) == digest);
        CHECK(digest_of(names[i], "", 2, 1, 1000) != digest);
        CHECK(digest_of(names[i], "", 1, 2, 1000) != digest);
    }
}

/* Digests of what the authors' package gives for the same random numbers and actions, so that most rules are tested
 * where it is not installed, too. */
TEST(minatar_plays_as_the_authors_package)
{
    static const uint64_t digests[PENDULUM] = {
        0, 0x139e9bc1dc841173u, 0x7d11d93d8e18d2b2u, 0x3948cf5cf5a9bc41u, 0x88656823619194a3u, 0xb909359886204b25u};
    for (int i = 1; i < PENDULUM; i++) {
        const uint64_t digest = digest_of(names[i], "", 42, 7, 5000);
        TEST_REQUIRE(digest == digests[i], "%s has digest 0x%llx; wanted 0x%llx", names[i], (unsigned long long)digest,
                     (unsigned long long)digests[i]);
    }
}

typedef struct player {
    pthread_t thread;
    const char *name;
    uint64_t seed, digest;
} player;

static void *run_player(void *argument)
{
    player *const p = argument;
    p->digest = digest_of(p->name, "", p->seed, 3, 2000);
    return NULL;
}

/* Two environments of each game, all at once, do as each does alone. */
TEST(environments_on_threads_of_their_own_do_not_disturb_each_other)
{
    player players[2 * GAMES];
    for (int i = 0; i < 2 * GAMES; i++) {
        players[i] = (player){.name = names[i / 2], .seed = (uint64_t)i % 2};
        CHECK(pthread_create(&players[i].thread, NULL, run_player, &players[i]) == 0);
    }
    for (int i = 0; i < 2 * GAMES; i++)
        pthread_join(players[i].thread, NULL);
    for (int i = 0; i < 2 * GAMES; i++) {
        CHECK(players[i].digest != 0);
        CHECK(players[i].digest == digest_of(players[i].name, "", players[i].seed, 3, 2000));
    }
}

/* From the middle of an episode, from its end, and from before the first one, in an environment of another seed that
 * has played something else. */
static void check_saving(const char *name, int steps_before)
{
    game first, second;
    uint64_t actions = 5, others = 6;
    CHECK(open_game(&first, name, "", 10) && open_game(&second, name, "", 11));
    unsigned char *const state = calloc(2, (size_t)first.info.save_bytes);
    unsigned char *const again = state + first.info.save_bytes;
    play(&first, &actions, steps_before);
    play(&second, &others, 33);
    CHECK(!first.type->save(first.env, state) && !second.type->load(second.env, state));
    CHECK(!second.type->save(second.env, again));
    CHECK(memcmp(state, again, (size_t)first.info.save_bytes) == 0);
    others = actions;
    second.digest = first.digest;
    second.has_episode = first.has_episode;
    play(&first, &actions, 500);
    play(&second, &others, 500);
    CHECK(first.digest == second.digest && first.failures == 0 && second.failures == 0);
    CHECK(!first.type->save(first.env, state) && !second.type->save(second.env, again));
    CHECK(memcmp(state, again, (size_t)first.info.save_bytes) == 0);
    free(state);
    close_game(&first);
    close_game(&second);
}

TEST(a_saved_state_goes_on_bit_for_bit_in_another_environment)
{
    for (int i = 0; i < GAMES; i++)
        for (int steps = 0; steps < 60; steps += steps < 5 ? 1 : 11)
            check_saving(names[i], steps);
}

/* The refused call changes nothing: the saved state is the same before and after. */
static void check_refused(game *g, const void *action, const char *words)
{
    unsigned char *const state = calloc(2, (size_t)g->info.save_bytes);
    unsigned char *const after = state + g->info.save_bytes;
    CHECK(!g->type->save(g->env, state));
    const char *const sentence = g->type->step(g->env, action, g->obs, &g->result);
    TEST_REQUIRE(sentence && strstr(sentence, words), "\"%s\"; wanted \"%s\"", sentence ? sentence : "", words);
    CHECK(!g->type->save(g->env, after));
    CHECK(memcmp(state, after, (size_t)g->info.save_bytes) == 0);
    free(state);
}

/* What is no action of a discrete game: -1, and the number of its actions; of Pendulum NaN. */
static void check_bad_actions(game *g, const char *name)
{
    char words[64];
    const int32_t below = -1, above = g->info.action.num_actions;
    const float no_number = NAN;
    if (above == 0) {
        check_refused(g, &no_number, "the action of Pendulum is NaN; it must be a torque of -2 to 2");
        return;
    }
    snprintf(words, sizeof words, "the action of %s is %d; it must be 0 ", name, -1);
    check_refused(g, &below, words);
    snprintf(words, sizeof words, "is %d; it must be 0 ", (int)above);
    check_refused(g, &above, words);
}

TEST(steps_without_an_episode_and_actions_that_are_none_are_refused)
{
    static const int32_t zero = 0; /* or 0.0f */
    for (int i = 0; i < GAMES; i++) {
        game g;
        uint64_t actions = 1;
        CHECK(open_game(&g, names[i], "", 1));
        check_refused(&g, &zero, "has no open episode: it must be reset before its next step");
        play(&g, &actions, 1);
        check_bad_actions(&g, names[i]);
        while (g.has_episode)
            play(&g, &actions, 1);
        check_refused(&g, &zero, "has no open episode");
        play(&g, &actions, 10);
        CHECK_EQUAL(g.failures, 0);
        close_game(&g);
    }
}

/* 2 pi - 0.1 is as far from upright as -0.1, and 100 N m do no more than 2 do. */
TEST(pendulum_counts_angles_within_a_turn_and_torques_within_their_bounds)
{
    const double angles[] = {-0.1, 2.0 * 3.141592653589793 - 0.1};
    const float torques[] = {2.0f, 100.0f};
    float rewards[2], speeds[2];
    for (int i = 0; i < 2; i++) {
        game g;
        CHECK(open_game(&g, "Pendulum", "", 1));
        unsigned char *const state = calloc(1, (size_t)g.info.save_bytes);
        CHECK(!g.type->reset(g.env, g.obs) && !g.type->save(g.env, state));
        memcpy(state + STATE_OFFSET, &angles[i], sizeof angles[i]);
        memset(state + STATE_OFFSET + 8, 0, 8);
        CHECK(!g.type->load(g.env, state) && !g.type->step(g.env, &torques[i], g.obs, &g.result));
        rewards[i] = g.result.reward;
        memcpy(&speeds[i], g.obs + 8, sizeof speeds[i]);
        free(state);
        close_game(&g);
    }
    CHECK_NEAR(rewards[0], -(0.01 + 0.004), 1e-6);
    CHECK_NEAR(rewards[1], rewards[0], 1e-6);
    CHECK_NEAR(speeds[0], (15.0 * -0.09983341664682815 + 6.0) * 0.05, 1e-6);
    CHECK_NEAR(speeds[1], speeds[0], 1e-6);
}

TEST(an_episode_is_truncated_after_max_steps)
{
    for (int i = 0; i < GAMES; i++)
        for (int episode = 0; episode < 3; episode++) {
            game g;
            CHECK(open_game(&g, names[i], "max_steps=3", (uint64_t)episode));
            for (int step = 1; step <= 3; step++) {
                play_step(&g, 0);
                CHECK_EQUAL(g.result.truncated, step == 3);
                CHECK(!g.result.terminated && !g.result.continues && !g.result.reserved);
            }
            check_refused(&g, &(float){0.0f}, "has no open episode");
            close_game(&g);
        }
}

TEST(states_of_other_games_and_options_are_refused)
{
    for (int i = 0; i < GAMES; i++) {
        game g, other;
        CHECK(open_game(&g, names[i], "", 1));
        CHECK(open_game(&other, names[i], "max_steps=77", 1));
        void *const state = calloc(1, (size_t)g.info.save_bytes);
        CHECK(!g.type->save(g.env, state));
        const char *sentence = other.type->load(other.env, state);
        CHECK(sentence && strstr(sentence, "the state was saved with max_steps=") &&
              strstr(sentence, "has max_steps=77"));
        memcpy(state, "Pong", 5);
        sentence = g.type->load(g.env, state);
        CHECK(sentence && strstr(sentence, "the state is of \"Pong\"; it must be of") && strstr(sentence, names[i]));
        free(state);
        close_game(&g);
        close_game(&other);
    }
}

/* Each word of a state in turn is overwritten. What is loaded all the same must be harmless: AddressSanitizer and
 * UndefinedBehaviorSanitizer watch. What is refused leaves the environment as it was. */
TEST(a_damaged_state_is_refused_or_can_be_played)
{
    static const uint32_t values[] = {0x7fffffffu, 0x80000000u, 0xffffffffu, 11};
    for (int i = 0; i < GAMES; i++) {
        game g;
        uint64_t actions = 1;
        int refused = 0;
        CHECK(open_game(&g, names[i], "", 1));
        const size_t bytes = (size_t)g.info.save_bytes;
        unsigned char *const state = calloc(3, bytes), *const damaged = state + bytes, *const after = damaged + bytes;
        play(&g, &actions, 25);
        CHECK(!g.type->save(g.env, state));
        for (size_t at = 0; at + 4 <= bytes; at += 4)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                memcpy(damaged, state, bytes);
                memcpy(damaged + at, &values[v], 4);
                const char *const sentence = g.type->load(g.env, damaged);
                refused += sentence != NULL;
                CHECK(!g.type->save(g.env, after));
                CHECK(memcmp(after, sentence ? state : damaged, bytes) == 0);
                for (int step = 0; !sentence && step < 3; step++) {
                    if (act(&g, random_action(&g, &actions)) || g.result.terminated || g.result.truncated)
                        g.type->reset(g.env, g.obs);
                }
                CHECK(!g.type->load(g.env, state));
            }
        CHECK(refused > 20);
        free(state);
        close_game(&g);
    }
}

/* The minimal actions are those of the six that their names say. */
TEST(minimal_actions_do_what_the_same_ones_of_all_six_do)
{
    static const struct {
        const char *name;
        int32_t count, same[6];
    } minimal[] = {{"MinAtar/Asterix", 5, {0, 1, 2, 3, 4}},
                   {"MinAtar/Breakout", 3, {0, 1, 3}},
                   {"MinAtar/Freeway", 3, {0, 2, 4}},
                   {"MinAtar/Seaquest", 6, {0, 1, 2, 3, 4, 5}},
                   {"MinAtar/SpaceInvaders", 4, {0, 1, 3, 5}}};
    for (size_t i = 0; i < sizeof minimal / sizeof *minimal; i++) {
        game few, all;
        uint64_t actions = 9;
        CHECK(open_game(&few, minimal[i].name, "minimal_actions=1", 1) && open_game(&all, minimal[i].name, "", 1));
        CHECK_EQUAL(few.info.action.num_actions, minimal[i].count);
        for (int step = 0; step < 300; step++) {
            const int32_t action = random_action(&few, &actions);
            play_step(&few, action);
            play_step(&all, minimal[i].same[action]);
        }
        CHECK(few.digest == all.digest && few.failures == 0 && all.failures == 0);
        close_game(&few);
        close_game(&all);
    }
}

TEST(a_sticky_action_is_that_of_the_step_before)
{
    for (int i = 1; i < PENDULUM; i++) { /* with probability 1 it is always the first one, which stays */
        game sticky, plain;
        uint64_t actions = 4;
        CHECK(open_game(&sticky, names[i], "sticky_action_prob=1", 1));
        CHECK(open_game(&plain, names[i], "sticky_action_prob=0", 1));
        for (int step = 0; step < 300; step++) {
            play_step(&sticky, random_action(&sticky, &actions));
            play_step(&plain, 0);
        }
        CHECK(sticky.digest == plain.digest);
        close_game(&sticky);
        close_game(&plain);
        CHECK(digest_of(names[i], "sticky_action_prob=0", 1, 1, 500) != digest_of(names[i], "", 1, 1, 500));
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(a_seed_gives_the_same_episodes_and_another_seed_others);
    RUN(minatar_plays_as_the_authors_package);
    RUN(environments_on_threads_of_their_own_do_not_disturb_each_other);
    RUN(a_saved_state_goes_on_bit_for_bit_in_another_environment);
    RUN(steps_without_an_episode_and_actions_that_are_none_are_refused);
    RUN(pendulum_counts_angles_within_a_turn_and_torques_within_their_bounds);
    RUN(an_episode_is_truncated_after_max_steps);
    RUN(states_of_other_games_and_options_are_refused);
    RUN(a_damaged_state_is_refused_or_can_be_played);
    RUN(minimal_actions_do_what_the_same_ones_of_all_six_do);
    RUN(a_sticky_action_is_that_of_the_step_before);
    return test_main_end();
}
