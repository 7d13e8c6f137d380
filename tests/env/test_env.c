/* SPDX-License-Identifier: MIT */
/* The library's games from outside: their names, spaces and options, and what is refused. */
#include "gpureplay/env.h"
#include "test.h"

#include <stddef.h>

enum { GAMES = 7, MINATAR = 1, PENDULUM = 6 }; /* MinAtar's are those before Pendulum */

/* In the order of gpur_env_name. */
static const struct {
    const char *name;
    int32_t dtype, shape[4], num_actions, minimal;
    int64_t max_steps;
} games[GAMES] = {
    {"CartPole-v1", GPUR_FLOAT32, {4}, 2, 0, 500},
    {"MinAtar/Asterix", GPUR_UINT8, {10, 10, 4}, 6, 5, 0},
    {"MinAtar/Breakout", GPUR_UINT8, {10, 10, 4}, 6, 3, 0},
    {"MinAtar/Freeway", GPUR_UINT8, {10, 10, 7}, 6, 3, 0},
    {"MinAtar/Seaquest", GPUR_UINT8, {10, 10, 10}, 6, 6, 0},
    {"MinAtar/SpaceInvaders", GPUR_UINT8, {10, 10, 6}, 6, 4, 0},
    {"Pendulum", GPUR_FLOAT32, {3}, 0, 0, 200},
};

static int is_minatar(int game)
{
    return game >= MINATAR && game < PENDULUM;
}

static const gpur_env_type *type_of(int game)
{
    const gpur_env_type *type = NULL;
    return gpur_env_find(games[game].name, &type) == GPUR_OK ? type : NULL;
}

/* Makes an environment and closes it. Returns what init returned. */
static const char *tried(int game, const char *options, gpur_env_info *info)
{
    void *env = NULL;
    const gpur_env_type *const type = type_of(game);
    const char *const sentence = type->init(options, 1, info, &env);
    if (env)
        type->close(env);
    return sentence ? sentence : env ? NULL : "no environment and no sentence";
}

TEST(the_games_have_names_by_which_they_are_found)
{
    for (int32_t i = 0; i < GAMES; i++) {
        const gpur_env_type *type = NULL;
        TEST_REQUIRE(strcmp(gpur_env_name(i), games[i].name) == 0, "name %d is %s", (int)i, gpur_env_name(i));
        CHECK_OK(gpur_env_find(games[i].name, &type));
        CHECK(strcmp(type->name, games[i].name) == 0 && type->size == sizeof *type && type->options);
        CHECK(type->init && type->reset && type->step && type->close && type->save && type->load);
    }
    CHECK(!gpur_env_name(GAMES) && !gpur_env_name(-1));
}

TEST(other_names_are_refused)
{
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"", "no game and no file is named \"\""},
        {"CartPole", "the games are CartPole-v1, MinAtar/Asterix, "},
        {"MinAtar/Brekout", "no game and no file is named \"MinAtar/Brekout\""},
        {"./missing.so", "plug-in ./missing.so: it cannot be opened: ./missing.so: cannot open shared object file"},
        {"./missing.so:Corridor", "plug-in ./missing.so: it cannot be opened"},
        {"missing.so", "a file of the current folder begins with ./"},
    };
    const gpur_env_type *type = NULL;
    const gpur_vector_env_type *vector_type = NULL;
    char long_name[5000];
    memset(long_name, 'x', sizeof long_name - 1);
    memcpy(long_name + sizeof long_name - 4, ".so", 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        type = type_of(0), vector_type = (const gpur_vector_env_type *)&games;
        CHECK_FAILS(gpur_env_find(cases[i].name, &type), GPUR_INVALID_ARGUMENT, cases[i].words);
        CHECK_FAILS(gpur_vector_env_find(cases[i].name, &vector_type), GPUR_INVALID_ARGUMENT, cases[i].words);
        CHECK(!type && !vector_type);
    }
    CHECK_FAILS(gpur_env_find(long_name, &type), GPUR_INVALID_ARGUMENT, "no game and no file");
    CHECK_FAILS(gpur_env_find(NULL, &type), GPUR_INVALID_ARGUMENT, "name is NULL");
    CHECK_FAILS(gpur_env_find("CartPole-v1", NULL), GPUR_INVALID_ARGUMENT, "type is NULL");
    CHECK_FAILS(gpur_vector_env_find(NULL, &vector_type), GPUR_INVALID_ARGUMENT, "name is NULL");
    CHECK_FAILS(gpur_vector_env_find("CartPole-v1", NULL), GPUR_INVALID_ARGUMENT, "type is NULL");
    CHECK_FAILS(gpur_vector_env_find("CartPole-v1", &vector_type), GPUR_INVALID_ARGUMENT, "use gpur_env_find");
}

/* Pendulum's only number is a torque of -2 to 2. */
static void check_actions(int game, const gpur_space *action)
{
    const int32_t count = games[game].num_actions;
    const int is_vector = game == PENDULUM;
    CHECK_EQUAL(action->dtype, is_vector ? GPUR_FLOAT32 : GPUR_INT32);
    CHECK(action->shape[0] == is_vector && action->shape[1] == 0 && action->num_actions == count);
    CHECK(is_vector ? action->low == -2.0f && action->high == 2.0f
                    : action->low == 0.0f && action->high == (float)(count - 1));
}

TEST(spaces_are_the_documented_ones)
{
    for (int i = 0; i < GAMES; i++) {
        gpur_env_info info = {.size = sizeof info};
        CHECK(!tried(i, "", &info));
        CHECK_EQUAL(info.size, sizeof info);
        CHECK_EQUAL(info.obs.dtype, games[i].dtype);
        CHECK(memcmp(info.obs.shape, games[i].shape, sizeof games[i].shape) == 0);
        CHECK(info.obs.num_actions == 0 && (!is_minatar(i) || (info.obs.low == 0.0f && info.obs.high == 1.0f)));
        check_actions(i, &info.action);
        CHECK_EQUAL(info.max_steps, games[i].max_steps);
        CHECK(info.save_bytes > 0);
        CHECK(!tried(i, "max_steps=12", &info));
        CHECK_EQUAL(info.max_steps, 12);
        if (!is_minatar(i))
            continue;
        CHECK(!tried(i, "minimal_actions=1,max_steps=0", &info));
        CHECK_EQUAL(info.action.num_actions, games[i].minimal);
    }
}

TEST(good_options_are_read_and_bad_ones_refused_with_what_is_wanted)
{
    static const char *const good[] = {"", "sticky_action_prob=0", "sticky_action_prob=1.0,max_steps=1000000000000",
                                       "difficulty_ramping=0,minimal_actions=1,sticky_action_prob=.25,max_steps=3.0"};
    static const struct {
        const char *options, *words;
    } bad[] = {
        {"sticky=0.5", "MinAtar/Breakout has no option \"sticky\"; it has sticky_action_prob, difficulty_ramping, "
                       "max_steps, minimal_actions"},
        {"sticky_action_prob_=0.5", "no option \"sticky_action_prob_\""},
        {"sticky_action_prob=1.5", "option sticky_action_prob of MinAtar/Breakout is \"1.5\"; it must be a number from "
                                   "0 to 1"},
        {"sticky_action_prob=-0.5", "is \"-0.5\""},
        {"sticky_action_prob=nan", "is \"nan\""},
        {"sticky_action_prob=0,5", "no option \"5\""},
        {"sticky_action_prob=0.1000000000000001", "of at most 15 digits"},
        {"sticky_action_prob=.", "is \".\""},
        {"sticky_action_prob=1.0.0", "is \"1.0.0\""},
        {"sticky_action_prob=", "is \"\""},
        {"sticky_action_prob", "option sticky_action_prob of MinAtar/Breakout has no value"},
        {"max_steps=2.5", "is \"2.5\"; it must be a whole number from 0 to 1000000000000"},
        {"max_steps=1000000000001", "is \"1000000000001\""},
        {"difficulty_ramping=2", "is \"2\"; it must be a whole number from 0 to 1"},
        {"difficulty_ramping=true", "is \"true\""},
        {"minimal_actions=0.5", "is \"0.5\""},
        {"max_steps=1,max_steps=1", "option max_steps of MinAtar/Breakout is given twice"},
        {"max_steps=1,", "end with a comma"},
        {",max_steps=1", "no option \"\""},
        {" max_steps=1", "no option \" max_steps\""},
        {NULL, "are NULL"},
    };
    gpur_env_info info = {.size = sizeof info};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(!tried(2, good[i], &info));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const sentence = tried(2, bad[i].options, &info);
        TEST_REQUIRE(sentence && strstr(sentence, bad[i].words), "\"%s\": \"%s\"; wanted \"%s\"", bad[i].options,
                     sentence ? sentence : "", bad[i].words);
    }
    const char *const sentence = tried(0, "sticky_action_prob=0", &info);
    CHECK(sentence && strstr(sentence, "CartPole-v1 has no option \"sticky_action_prob\"; it has max_steps"));
}

/* A state can be loaded only where all options have equal values, so it tells whether they have. */
TEST(the_help_names_every_option_with_its_default)
{
    for (int i = 0; i < GAMES; i++) {
        const gpur_env_type *const type = type_of(i);
        gpur_env_info info = {.size = sizeof info};
        char options[512] = "";
        void *plain = NULL, *named = NULL;
        for (const char *line = type->options; *line; line += strcspn(line, "\n") + 1) {
            if (*options)
                strcat(options, ",");
            strncat(options, line, strcspn(line, " "));
        }
        CHECK(!type->init("", 1, &info, &plain));
        CHECK(!type->init(options, 2, &info, &named));
        void *const state = calloc(1, (size_t)info.save_bytes);
        CHECK(!type->save(plain, state) && !type->load(named, state));
        free(state);
        type->close(plain);
        type->close(named);
        CHECK(strstr(options, "max_steps=") && (!is_minatar(i) || strstr(options, "minimal_actions=0")));
    }
}

TEST(an_info_is_filled_as_far_as_the_callers_size_goes)
{
    for (int i = 0; i < GAMES; i++) {
        _Alignas(gpur_env_info) unsigned char memory[sizeof(gpur_env_info)];
        gpur_env_info *const info = (gpur_env_info *)(void *)memory;
        memset(memory, 0xAB, sizeof memory);
        info->size = offsetof(gpur_env_info, save_bytes);
        CHECK(!tried(i, "max_steps=3", info));
        CHECK_EQUAL(info->max_steps, 3);
        CHECK_EQUAL(memory[offsetof(gpur_env_info, save_bytes)], 0xAB);
        info->size = 0;
        CHECK(strstr(tried(i, "", info), "gpur_env_info.size is 0; it must be sizeof(gpur_env_info)"));
        CHECK(strstr(tried(i, "", NULL), "gpur_env_info is NULL"));
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_games_have_names_by_which_they_are_found);
    RUN(other_names_are_refused);
    RUN(spaces_are_the_documented_ones);
    RUN(good_options_are_read_and_bad_ones_refused_with_what_is_wanted);
    RUN(the_help_names_every_option_with_its_default);
    RUN(an_info_is_filled_as_far_as_the_callers_size_goes);
    return test_main_end();
}
