/* SPDX-License-Identifier: MIT */
#include "dodge_rules.h"

/* Writes a vector divided by `unit`. Returns the address of the next number. */
static float *put(float *at, dodge_vector vector, double unit)
{
    at[0] = (float)(vector.x / unit);
    at[1] = (float)(vector.y / unit);
    return at + 2;
}

static float *put_phase(float *at, const dodge *game)
{
    static const float frames[DODGE_PHASES] = {1, DODGE_AIM_FRAMES, DODGE_DASH_FRAMES, DODGE_REST_FRAMES};
    for (int i = 0; i < DODGE_PHASES; i++)
        at[i] = game->phase == (dodge_phase)i ? 1.0f : 0.0f;
    at[DODGE_PHASES] = (float)game->phase_left / frames[game->phase];
    return at + DODGE_PHASES + 1;
}

/* A ball that is not in the arena is (1, 1) away and at rest. */
static float *put_ball(float *at, const dodge *game, int ball)
{
    static const dodge_vector far = {1.0, 1.0}, rest = {0.0, 0.0};
    if (!game->is_flying[ball])
        return put(put(at, far, 1.0), rest, 1.0);
    at = put(at, dodge_minus(game->balls[ball].place, game->player.place), 2.0);
    return put(at, game->balls[ball].move, dodge_ball_speed);
}

void dodge_observe(const dodge *game, float *obs)
{
    float *at = put(obs, game->player.place, 1.0);
    at = put(at, game->player.move, dodge_player_speed);
    at = put(at, dodge_minus(game->opponent.place, game->player.place), 2.0);
    at = put(at, game->opponent.move, dodge_dash_speed);
    at = put_phase(at, game);
    at = put(at, game->aim, 1.0);
    for (int i = 0; i < DODGE_BALLS; i++)
        at = put_ball(at, game, i);
}
