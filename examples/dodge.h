/* SPDX-License-Identifier: MIT */
/*
 * Dodge: a game of our own, for benchmarks. The player keeps away from an opponent that pursues, strikes and throws
 * balls. It has the sizes of the task in the paper on in-GPU replay [Parr 2018]: 27 numbers per observation, 5 actions,
 * reward 1/60 per frame without damage. It has nothing else in common with the game that was played there.
 *
 * The arena is the square from -1 to 1. Positions and distances are those of centers. The player moves 0.06 per frame,
 * the opponent 0.03, so the player can run away as long as there is room. Within 0.40 of the player the opponent stops,
 * aims for 8 frames, dashes for 6 frames at 0.09 per frame in the direction it aimed, and rests for 10 frames. Every 24
 * to 47 frames it throws one of three balls at the player's position, provided that it pursues, from a distance of 0.60
 * or more. A ball flies 0.05 per frame until it leaves the arena. A hit is an opponent nearer than 0.12, in any phase,
 * or a ball nearer than 0.10. A hit terminates the episode; 600 frames truncate it.
 *
 * A step repeats its action for 6 frames, or until a hit. Actions: 0 stay, 1 left (-x), 2 right (+x), 3 down (-y),
 * 4 up (+y); any other number is refused. The reward is 1/60 for each frame without a hit, so at most 0.1 per step and
 * 10 per episode. The same seed plays the same episodes on any machine, because the game computes with + - * / and
 * square roots only.
 *
 * Observation, each number in [-1, 1]:
 *    0,  1  the player's position (x, y)
 *    2,  3  the player's last move divided by its speed; 0 if it stayed or a wall stopped it
 *    4,  5  vector from the player to the opponent, halved
 *    6,  7  the opponent's last move divided by its speed in a dash
 *    8 - 11 the opponent's phase, one-hot: pursue, aim, dash, rest
 *   12      the fraction of the phase that is left, 1 to 0; 0 in pursue
 *   13, 14  unit vector of the direction in which the opponent aims or dashes; 0 in other phases
 *   15 - 18 ball 1: vector from the player to it, halved (x, y); its move divided by its speed (x, y). A ball that is
 *           not in the arena: 1, 1, 0, 0
 *   19 - 22 ball 2
 *   23 - 26 ball 3
 */
#pragma once

#include <gpureplay/env.h>

enum { DODGE_OBS = 27, DODGE_ACTIONS = 5, DODGE_BALLS = 3 };
enum { DODGE_HOLD = 6, DODGE_FRAMES = 600 };                                  /* frames of a step, of an episode */
enum { DODGE_AIM_FRAMES = 8, DODGE_DASH_FRAMES = 6, DODGE_REST_FRAMES = 10 }; /* of the opponent's phases */

typedef struct dodge_vector {
    double x, y;
} dodge_vector;

/* The position of a moving object, and its last move. */
typedef struct dodge_body {
    dodge_vector place, move;
} dodge_body;

typedef enum dodge_phase { DODGE_PURSUE, DODGE_AIM, DODGE_DASH, DODGE_REST, DODGE_PHASES } dodge_phase;

typedef struct dodge {
    dodge_body player, opponent;
    dodge_body balls[DODGE_BALLS];
    int32_t is_flying[DODGE_BALLS]; /* 0: the ball is not in the arena */
    dodge_phase phase;
    int32_t phase_left;  /* frames of the phase that are left; 0 in DODGE_PURSUE */
    dodge_vector aim;    /* unit vector while the opponent aims and dashes; else 0 */
    int32_t throw_after; /* frames until the next throw */
    int32_t frames;      /* in this episode */
    uint64_t random;
} dodge;

extern const gpur_env_type dodge_type; /* its environments are of type dodge */
