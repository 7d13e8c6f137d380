/* SPDX-License-Identifier: MIT */
/*
 * What the games of MinAtar share [Young & Tian 2019, "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible
 * Reinforcement Learning Experiments"]: a board of 10 x 10 cells, six actions, sticky actions, episodes, options,
 * saving. A game itself is its rules: a struct of int32_t, and functions that begin, step and show it.
 *
 * Rules and constants are those of the authors' package `minatar` 1.0.15, also where it differs from the paper.
 * tests/env/test_minatar.py plays both side by side, with the same random numbers, which are drawn in the same order.
 *
 * An observation is GPUR_UINT8, 0 or 1, (10, 10, channels), since networks take uint8 or float32 as their input: the
 * package's is bool. Element (y, x, c) tells whether something of kind c is in row y from above and column x.
 */
#pragma once

#include "env/games.h"
#include "env/options.h"
#include "env/random.h"

#include <stddef.h>

enum { GPUR_MINATAR_SIDE = 10, GPUR_MINATAR_LAST = GPUR_MINATAR_SIDE - 1 };

/* A row as bits: bit x is column x. */
enum { GPUR_MINATAR_FULL_ROW = (1 << GPUR_MINATAR_SIDE) - 1 };

typedef enum gpur_minatar_action {
    GPUR_MINATAR_STAY,
    GPUR_MINATAR_LEFT,
    GPUR_MINATAR_UP,
    GPUR_MINATAR_RIGHT,
    GPUR_MINATAR_DOWN,
    GPUR_MINATAR_FIRE,
    GPUR_MINATAR_ACTIONS
} gpur_minatar_action;

/* The part of a saved state that all games have. */
typedef struct gpur_minatar_episode {
    gpur_env_settings settings;
    uint64_t random;
    int64_t steps;       /* in this episode */
    int32_t is_open;     /* 1: an episode is; 0: reset comes next */
    int32_t last_action; /* of the step before, also if that was in another episode: what a sticky action repeats */
    int32_t ramp;        /* how many times the game has become harder in this episode */
    int32_t is_over;     /* 1: the rules have ended the episode */
} gpur_minatar_episode;

typedef struct gpur_minatar {
    const struct gpur_minatar_game *game;
    void *board; /* the game's own struct, in the same allocation */
    gpur_minatar_episode episode;
} gpur_minatar;

/* An observation that is being filled in. */
typedef struct gpur_minatar_view {
    uint8_t *obs; /* (10, 10, channels) */
    int32_t channels;
} gpur_minatar_view;

/* Members of a board, and their range: a state out of these is not loaded, since it could lead out of the board. */
typedef struct gpur_minatar_range {
    const char *member;
    size_t offset, stride; /* in bytes, of the first one and from one to the next */
    int32_t count, low, high;
} gpur_minatar_range;

/* clang-format off */
#define GPUR_MINATAR_RANGE(board, member, low, high)                                                                   \
    {#member, offsetof(board, member), 0, 1, low, high}
#define GPUR_MINATAR_ARRAY_RANGE(board, array, count, low, high)                                                       \
    {#array, offsetof(board, array), sizeof(int32_t), count, low, high}
#define GPUR_MINATAR_STRUCTS_RANGE(board, array, count, member, low, high)                                             \
    {#array "." #member, offsetof(board, array[0].member), sizeof(((board *)0)->array[0]), count, low, high}
/* clang-format on */

/* A game: constant. */
typedef struct gpur_minatar_game {
    const char *name;
    int32_t channels;
    int32_t minimal_count;                         /* actions that have an effect in this game, */
    int32_t minimal_actions[GPUR_MINATAR_ACTIONS]; /* and those, for the option minimal_actions */
    int64_t board_bytes;
    const gpur_minatar_range *ranges;
    int32_t range_count;

    void (*begin)(gpur_minatar *env);                                     /* on a board of zeros */
    float (*step)(gpur_minatar *env, gpur_minatar_action action);         /* returns the reward; may set is_over */
    void (*show)(const gpur_minatar *env, const gpur_minatar_view *view); /* on an observation of zeros */
} gpur_minatar_game;

/* The functions of a gpur_env_type; `init` gets the game from the type's own init. */
const char *gpur_minatar_init(const gpur_minatar_game *game, const char *options, uint64_t seed, gpur_env_info *info,
                              void **env);
const char *gpur_minatar_reset(void *env, void *obs);
const char *gpur_minatar_step(void *env, const void *action, void *obs, gpur_env_result *result);
void gpur_minatar_close(void *env);
const char *gpur_minatar_save(void *env, void *state);
const char *gpur_minatar_load(void *env, const void *state);

#define GPUR_MINATAR_OPTIONS                                                                                           \
    "sticky_action_prob=0.1  probability that a step repeats the action of the step before\n"                          \
    "difficulty_ramping=1    1: Asterix, Seaquest and SpaceInvaders become harder in the course of an episode\n"       \
    "max_steps=0             an episode is truncated after so many steps; 0: never\n"                                  \
    "minimal_actions=0       1: only the actions that have an effect in this game\n"

/* Defines the type of environment `symbol`, which plays the constant `game`. */
/* clang-format off */
#define GPUR_MINATAR_TYPE(symbol, type_name, game)                                                                     \
    static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)                       \
    {                                                                                                                  \
        return gpur_minatar_init(&(game), options, seed, info, env);                                                   \
    }                                                                                                                  \
    const gpur_env_type symbol = {                                                                                     \
        .size = sizeof(gpur_env_type), .name = type_name, .options = GPUR_MINATAR_OPTIONS, .init = init,               \
        .reset = gpur_minatar_reset, .step = gpur_minatar_step, .close = gpur_minatar_close,                           \
        .save = gpur_minatar_save, .load = gpur_minatar_load}
/* clang-format on */

/* Whether the game becomes harder: option difficulty_ramping. */
int gpur_minatar_ramps(const gpur_minatar *env);

/* A whole number from 0 to count - 1. */
static inline int32_t gpur_minatar_draw(gpur_minatar *env, int32_t count)
{
    return gpur_env_random_below(&env->episode.random, count);
}

/* 1 with this probability. */
static inline int gpur_minatar_chance(gpur_minatar *env, double probability)
{
    return gpur_env_random_uniform(&env->episode.random) < probability;
}

static inline int32_t gpur_minatar_clamp(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline int gpur_minatar_is_column(int32_t x)
{
    return x >= 0 && x <= GPUR_MINATAR_LAST;
}

static inline void gpur_minatar_mark(const gpur_minatar_view *view, int32_t x, int32_t y, int32_t channel)
{
    view->obs[(y * GPUR_MINATAR_SIDE + x) * view->channels + channel] = 1;
}

/* What moves sideways marks the cell from which it comes, if that is on the board. */
static inline void gpur_minatar_mark_trail(const gpur_minatar_view *view, int32_t x, int32_t y, int32_t direction,
                                           int32_t channel)
{
    if (gpur_minatar_is_column(x - direction))
        gpur_minatar_mark(view, x - direction, y, channel);
}

/* Marks the columns whose bits are set in a row. */
static inline void gpur_minatar_mark_row(const gpur_minatar_view *view, int32_t row, int32_t y, int32_t channel)
{
    for (int32_t x = 0; x < GPUR_MINATAR_SIDE; x++)
        if (row >> x & 1)
            gpur_minatar_mark(view, x, y, channel);
}
