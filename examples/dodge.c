/* SPDX-License-Identifier: MIT */
#include "dodge_rules.h"
#include "env_random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const int32_t phase_frames[DODGE_PHASES] = {
    [DODGE_AIM] = DODGE_AIM_FRAMES, [DODGE_DASH] = DODGE_DASH_FRAMES, [DODGE_REST] = DODGE_REST_FRAMES};

static const char *dodge_init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    *env = NULL;
    if (*options)
        return "dodge has no options; they must be \"\"";
    info->obs = (gpur_space){.dtype = GPUR_FLOAT32, .shape = {DODGE_OBS}, .low = -1.0f, .high = 1.0f};
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = DODGE_ACTIONS, .high = DODGE_ACTIONS - 1};
    info->max_steps = DODGE_FRAMES / DODGE_HOLD;
    info->save_bytes = 0;
    dodge *const game = malloc(sizeof *game);
    if (!game)
        return "there is no memory for a dodge game";
    *game = (dodge){.random = seed};
    *env = game;
    return NULL;
}

static dodge_vector random_place(dodge *game)
{
    const double x = env_random_uniform(&game->random, -0.8, 0.8);
    return (dodge_vector){x, env_random_uniform(&game->random, -0.8, 0.8)};
}

static void set_throw(dodge *game)
{
    const double frames = env_random_uniform(&game->random, dodge_throw_first, dodge_throw_last);
    game->throw_after = (int32_t)frames;
}

static void begin(dodge *game, dodge_phase phase)
{
    game->phase = phase;
    game->phase_left = phase_frames[phase];
}

static const char *dodge_reset(void *env, void *obs)
{
    dodge *const game = env;
    *game = (dodge){.random = game->random};
    game->player.place = random_place(game);
    do
        game->opponent.place = random_place(game);
    while (dodge_distance(game->player.place, game->opponent.place) < dodge_start_apart);
    set_throw(game);
    dodge_observe(game, obs);
    return NULL;
}

/* Moves a body, clamped to the arena. body->move becomes the distance that it really moved. */
static void move_by(dodge_body *body, dodge_vector move)
{
    const dodge_vector from = body->place;
    body->place.x = fmin(fmax(from.x + move.x, -1.0), 1.0);
    body->place.y = fmin(fmax(from.y + move.y, -1.0), 1.0);
    body->move = dodge_minus(body->place, from);
}

/* Unit vector from the opponent to the player; to the right if both have the same position. */
static dodge_vector towards_player(const dodge *game)
{
    const dodge_vector way = dodge_minus(game->player.place, game->opponent.place);
    const double length = dodge_length(way);
    return length > 0.0 ? dodge_times(way, 1.0 / length) : (dodge_vector){1.0, 0.0};
}

/* Counts one frame of the opponent's phase, and begins the next phase after the last frame. */
static void end_phase_when_due(dodge *game)
{
    static const dodge_phase next[DODGE_PHASES] = {
        [DODGE_AIM] = DODGE_DASH, [DODGE_DASH] = DODGE_REST, [DODGE_REST] = DODGE_PURSUE};
    if (game->phase == DODGE_PURSUE || --game->phase_left > 0)
        return;
    begin(game, next[game->phase]);
    if (game->phase == DODGE_REST)
        game->aim = (dodge_vector){0.0, 0.0};
}

/* Moves the opponent by one frame. If it is then near enough to strike, it aims from the next frame on, at the player's
 * present position. */
static void move_opponent(dodge *game)
{
    dodge_vector move = {0.0, 0.0};
    if (game->phase == DODGE_PURSUE)
        move = dodge_times(towards_player(game), dodge_pursuit_speed);
    else if (game->phase == DODGE_DASH)
        move = dodge_times(game->aim, dodge_dash_speed);
    move_by(&game->opponent, move);
    end_phase_when_due(game);
    if (game->phase != DODGE_PURSUE || dodge_distance(game->player.place, game->opponent.place) > dodge_strike_range)
        return;
    begin(game, DODGE_AIM);
    game->aim = towards_player(game);
}

/* When a throw is due, throws a ball and schedules the next throw. The throw is skipped if the opponent is too near or
 * not pursuing, or if all balls are flying. */
static void throw_when_due(dodge *game)
{
    if (--game->throw_after > 0)
        return;
    set_throw(game);
    const double distance = dodge_distance(game->player.place, game->opponent.place);
    if (game->phase != DODGE_PURSUE || distance < dodge_throw_range)
        return;
    for (int i = 0; i < DODGE_BALLS; i++) {
        if (game->is_flying[i])
            continue;
        game->is_flying[i] = 1;
        game->balls[i] = (dodge_body){game->opponent.place, dodge_times(towards_player(game), dodge_ball_speed)};
        return;
    }
}

static void fly(dodge *game)
{
    for (int i = 0; i < DODGE_BALLS; i++) {
        dodge_body *const ball = &game->balls[i];
        ball->place.x += ball->move.x;
        ball->place.y += ball->move.y;
        if (fabs(ball->place.x) > 1.0 || fabs(ball->place.y) > 1.0)
            game->is_flying[i] = 0;
    }
}

static int is_hit(const dodge *game)
{
    int hit = dodge_distance(game->player.place, game->opponent.place) < dodge_opponent_touch;
    for (int i = 0; i < DODGE_BALLS; i++)
        hit |= game->is_flying[i] && dodge_distance(game->player.place, game->balls[i].place) < dodge_ball_touch;
    return hit;
}

/* Plays one frame. Returns 1 if the player is hit. */
static int play_frame(dodge *game, dodge_vector move)
{
    move_by(&game->player, move);
    move_opponent(game);
    fly(game);
    throw_when_due(game);
    game->frames++;
    return is_hit(game);
}

static const char *dodge_step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    static const dodge_vector directions[DODGE_ACTIONS] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    static _Thread_local char refusal[64];
    dodge *const game = env;
    const int32_t given = *(const int32_t *)action;
    if (given < 0 || given >= DODGE_ACTIONS) {
        snprintf(refusal, sizeof refusal, "the action is %d; it must be 0 to %d", (int)given, DODGE_ACTIONS - 1);
        return refusal;
    }
    const dodge_vector move = dodge_times(directions[given], dodge_player_speed);
    int survived = 0, hit = 0;
    while (!hit && survived < DODGE_HOLD) {
        hit = play_frame(game, move);
        survived += !hit;
    }
    dodge_observe(game, obs);
    *result = (gpur_env_result){.reward = (float)survived / 60.0f,
                                .terminated = hit ? 1 : 0,
                                .truncated = game->frames >= DODGE_FRAMES ? 1 : 0};
    return NULL;
}

const gpur_env_type dodge_type = {
    .size = sizeof(gpur_env_type),
    .name = "dodge",
    .init = dodge_init,
    .reset = dodge_reset,
    .step = dodge_step,
    .close = free,
};
