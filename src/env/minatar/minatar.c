/* SPDX-License-Identifier: MIT */
#include "env/minatar/minatar.h"

#include "base/sized.h"

#include <stdlib.h>
#include <string.h>

enum { STICKY_ACTION_PROB, DIFFICULTY_RAMPING, MAX_STEPS, MINIMAL_ACTIONS, OPTIONS }; /* indices of the options */

enum { MAX_RAMP = 1000000000 }; /* no game comes near it */

static const gpur_env_option_table option_table = {OPTIONS,
                                                   {{"sticky_action_prob", 0.1, 0.0, 1.0, 0},
                                                    {"difficulty_ramping", 1.0, 0.0, 1.0, 1},
                                                    {"max_steps", 0.0, 0.0, GPUR_ENV_MAX_STEPS, 1},
                                                    {"minimal_actions", 0.0, 0.0, 1.0, 1}}};

static double option(const gpur_minatar *env, int index)
{
    return env->episode.settings.values[index];
}

int gpur_minatar_ramps(const gpur_minatar *env)
{
    return option(env, DIFFICULTY_RAMPING) != 0.0;
}

static int32_t num_actions(const gpur_minatar *env)
{
    return option(env, MINIMAL_ACTIONS) != 0.0 ? env->game->minimal_count : GPUR_MINATAR_ACTIONS;
}

static void describe(const gpur_minatar *env, gpur_env_info *info)
{
    const int32_t actions = num_actions(env);
    *info = (gpur_env_info){
        .size = sizeof *info,
        .obs = {.dtype = GPUR_UINT8, .shape = {GPUR_MINATAR_SIDE, GPUR_MINATAR_SIDE, env->game->channels}, .high = 1},
        .action = {.dtype = GPUR_INT32, .num_actions = actions, .high = (float)(actions - 1)},
        .max_steps = (int64_t)option(env, MAX_STEPS),
        .save_bytes = (int64_t)sizeof env->episode + env->game->board_bytes};
}

const char *gpur_minatar_init(const gpur_minatar_game *game, const char *options, uint64_t seed, gpur_env_info *info,
                              void **env)
{
    gpur_minatar made = {.game = game, .episode.random = seed};
    gpur_env_info all;
    *env = NULL;
    GPUR_ENV_TRY(gpur_env_settings_read(&made.episode.settings, game->name, &option_table, options));
    describe(&made, &all);
    if (gpur_sized_write(info, &all, sizeof all, "gpur_env_info") != GPUR_OK)
        return gpur_env_refuse("%s", gpur_last_error());
    const size_t bytes = sizeof made + (size_t)game->board_bytes;
    gpur_minatar *const memory = calloc(1, bytes);
    GPUR_ENV_REQUIRE(memory, "there is no memory for %zu bytes of %s", bytes, game->name);
    *memory = made;
    memory->board = memory + 1;
    *env = memory;
    return NULL;
}

void gpur_minatar_close(void *env)
{
    free(env);
}

static void show(const gpur_minatar *env, void *obs)
{
    const gpur_minatar_view view = {obs, env->game->channels};
    memset(obs, 0, (size_t)(GPUR_MINATAR_SIDE * GPUR_MINATAR_SIDE * view.channels));
    env->game->show(env, &view);
}

const char *gpur_minatar_reset(void *env, void *obs)
{
    gpur_minatar *const e = env;
    memset(e->board, 0, (size_t)e->game->board_bytes);
    e->episode.steps = 0;
    e->episode.is_open = 1;
    e->episode.ramp = 0;
    e->episode.is_over = 0;
    e->game->begin(e);
    show(e, obs);
    return NULL;
}

const char *gpur_minatar_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    gpur_minatar *const e = env;
    gpur_minatar_episode *const episode = &e->episode;
    const int64_t max_steps = (int64_t)option(e, MAX_STEPS);
    int32_t given;
    memcpy(&given, action, sizeof given);
    GPUR_ENV_REQUIRE(episode->is_open, "%s has no open episode: it must be reset before its next step", e->game->name);
    GPUR_ENV_REQUIRE(given >= 0 && given < num_actions(e), "the action of %s is %d; it must be 0 to %d", e->game->name,
                     (int)given, (int)num_actions(e) - 1);
    if (!gpur_minatar_chance(e, option(e, STICKY_ACTION_PROB)))
        episode->last_action = option(e, MINIMAL_ACTIONS) != 0.0 ? e->game->minimal_actions[given] : given;
    *result = (gpur_env_result){.reward = e->game->step(e, (gpur_minatar_action)episode->last_action)};
    episode->steps++;
    result->terminated = episode->is_over != 0;
    result->truncated = max_steps > 0 && episode->steps >= max_steps;
    episode->is_open = !result->terminated && !result->truncated;
    show(e, obs);
    return NULL;
}

const char *gpur_minatar_save(void *env, void *state)
{
    const gpur_minatar *const e = env;
    memcpy(state, &e->episode, sizeof e->episode);
    memcpy((unsigned char *)state + sizeof e->episode, e->board, (size_t)e->game->board_bytes);
    return NULL;
}

static const char *check_range(const char *game, const void *part, const gpur_minatar_range *range)
{
    for (int32_t i = 0; i < range->count; i++) {
        int32_t value;
        memcpy(&value, (const unsigned char *)part + range->offset + (size_t)i * range->stride, sizeof value);
        GPUR_ENV_REQUIRE(value >= range->low && value <= range->high,
                         "the state of %s has %d in %s; it must be %d to %d", game, (int)value, range->member,
                         (int)range->low, (int)range->high);
    }
    return NULL;
}

const char *gpur_minatar_load(void *env, const void *state)
{
    static const gpur_minatar_range ranges[] = {
        GPUR_MINATAR_RANGE(gpur_minatar_episode, is_open, 0, 1),
        GPUR_MINATAR_RANGE(gpur_minatar_episode, is_over, 0, 1),
        GPUR_MINATAR_RANGE(gpur_minatar_episode, last_action, 0, GPUR_MINATAR_ACTIONS - 1),
        GPUR_MINATAR_RANGE(gpur_minatar_episode, ramp, 0, MAX_RAMP),
    };
    gpur_minatar *const e = env;
    const unsigned char *const board = (const unsigned char *)state + sizeof e->episode;
    gpur_minatar_episode saved;
    memcpy(&saved, state, sizeof saved);
    GPUR_ENV_TRY(gpur_env_settings_check(&e->episode.settings, &option_table, &saved.settings));
    GPUR_ENV_TRY(gpur_env_steps_check(&e->episode.settings, saved.steps));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        GPUR_ENV_TRY(check_range(e->game->name, &saved, &ranges[i]));
    for (int32_t i = 0; saved.is_open && i < e->game->range_count; i++) /* else reset comes next, on a board of zeros */
        GPUR_ENV_TRY(check_range(e->game->name, board, &e->game->ranges[i]));
    e->episode = saved;
    memcpy(e->board, board, (size_t)e->game->board_bytes);
    return NULL;
}
