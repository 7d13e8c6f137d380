/* SPDX-License-Identifier: MIT */
/* A hand-written policy for dodge: predicts ten frames for each of the five actions, and takes the one that keeps the
 * opponent and the balls farthest away. */
#include "dodge_rules.h"

enum { AHEAD = 10 };

static dodge_vector read_vector(const float *at, double unit)
{
    return (dodge_vector){(double)at[0] * unit, (double)at[1] * unit};
}

static double inside(double x)
{
    return fmin(fmax(x, -1.0), 1.0);
}

/* Predicts the player's position after `frames` frames in direction `way`. */
static dodge_vector player_at(const float *obs, dodge_vector way, int frames)
{
    const dodge_vector place = read_vector(obs, 1.0);
    const double run = dodge_player_speed * frames;
    return (dodge_vector){inside(place.x + run * way.x), inside(place.y + run * way.y)};
}

/* Predicts the opponent's position after `frames` frames: on its dash, or on its way to where the player is now. */
static dodge_vector opponent_at(const float *obs, int frames)
{
    const dodge_vector gap = read_vector(obs + 4, 2.0), place = dodge_plus(read_vector(obs, 1.0), gap);
    const double aiming = obs[9] > 0.0f ? (double)obs[12] * DODGE_AIM_FRAMES : 0.0;
    const double resting = obs[11] > 0.0f ? (double)obs[12] * DODGE_REST_FRAMES : 0.0;
    const double last = obs[10] > 0.0f ? (double)obs[12] * DODGE_DASH_FRAMES : DODGE_DASH_FRAMES;
    if (obs[9] > 0.0f || obs[10] > 0.0f) {
        const double dashing = fmin(fmax(frames - aiming, 0.0), last);
        return dodge_plus(place, dodge_times(read_vector(obs + 13, 1.0), dodge_dash_speed * dashing));
    }
    const double walk = dodge_pursuit_speed * fmax(frames - resting, 0.0), distance = dodge_length(gap);
    return dodge_minus(place, dodge_times(gap, fmin(walk / fmax(distance, 1e-9), 1.0)));
}

/* The smallest margin to a hit by any ball after `frames` frames; at most 1. */
static double ball_room(const float *obs, dodge_vector player, int frames)
{
    double room = 1.0;
    for (const float *ball = obs + 15; ball < obs + DODGE_OBS; ball += 4) {
        const dodge_vector from = dodge_plus(read_vector(obs, 1.0), read_vector(ball, 2.0));
        const dodge_vector way = dodge_times(read_vector(ball + 2, dodge_ball_speed), frames);
        if (ball[2] != 0.0f || ball[3] != 0.0f)
            room = fmin(room, dodge_distance(player, dodge_plus(from, way)) - dodge_ball_touch);
    }
    return room;
}

/* The value of an action: mainly the smallest margin to a hit in the next AHEAD frames, of which more than 0.2 is not
 * better; then the final distance from the opponent, and from the walls. */
static double worth(const float *obs, int32_t action)
{
    const dodge_vector way = dodge_direction(action);
    double room = 0.2;
    for (int frames = 1; frames <= AHEAD; frames++) {
        const dodge_vector player = player_at(obs, way, frames);
        room = fmin(room, dodge_distance(player, opponent_at(obs, frames)) - dodge_opponent_touch);
        room = fmin(room, ball_room(obs, player, frames));
    }
    const dodge_vector end = player_at(obs, way, AHEAD);
    const double far = dodge_distance(end, opponent_at(obs, AHEAD)), wall = fmax(fabs(end.x), fabs(end.y));
    return 10.0 * room + far - wall;
}

int32_t dodge_by_hand(const float *obs)
{
    int32_t best = 0;
    for (int32_t action = 1; action < DODGE_ACTIONS; action++)
        if (worth(obs, action) > worth(obs, best))
            best = action;
    return best;
}
