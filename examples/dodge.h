/* SPDX-License-Identifier: MIT */
/*
 * Dodge: keep away from an opponent who pursues, strikes and throws, with the numbers of the agent of in-GPU replay
 * [Parr 2018]: 27 observed, 5 actions, 1/60 a frame without damage. Ours, for benchmarks; nothing of the game which
 * that agent played is in it.
 *
 * The arena is the square from -1 to 1; places are those of centres. The player moves 0.06 a frame, the opponent 0.03,
 * so that running helps as long as there is room. Within 0.40 of the player the opponent stops, aims for 8 frames,
 * dashes for 6 at 0.09 where it aimed, and rests for 10. Every 24 to 47 frames, when it pursues from 0.60 or farther,
 * it throws one of three balls at where the player is; a ball flies 0.05 a frame until it leaves the arena. The
 * opponent nearer than 0.12, whatever it does, or a ball nearer than 0.10 is a hit, which ends the episode; 600 frames
 * without one truncate it.
 *
 * A step holds its action for 6 frames, or until the hit. Actions: 0 stay, 1 left (-x), 2 right (+x), 3 down (-y),
 * 4 up (+y); any other stays. The reward is 1/60 for each frame without a hit, so 0.1 a step and 10 an episode at most.
 * The same seed plays the same episodes on any machine: beside + - * / only square roots are taken.
 *
 * Observation, each number in [-1, 1]:
 *    0,  1  the player's place: x, y
 *    2,  3  its last move, by its speed; 0 when it stayed or a wall stopped it
 *    4,  5  from the player to the opponent, halved
 *    6,  7  the opponent's last move, by its speed in a dash
 *    8 - 11 1 for what the opponent does: pursue, aim, dash, rest; 0 for the others
 *   12      how much of that is still to come, 1 to 0; pursuing: 0
 *   13, 14  the direction it aims and dashes in, of length 1; else 0
 *   15 - 18 ball 1: from the player to it, halved (x, y); its move, by its speed (x, y). No ball: 1, 1, 0, 0
 *   19 - 22 ball 2
 *   23 - 26 ball 3
 */
#ifndef EXAMPLES_DODGE_H
#define EXAMPLES_DODGE_H

#include "env.h"

enum { DODGE_OBS = 27, DODGE_ACTIONS = 5, DODGE_BALLS = 3 };
enum { DODGE_HOLD = 6, DODGE_FRAMES = 600 };                                  /* of a step, of an episode */
enum { DODGE_AIM_FRAMES = 8, DODGE_DASH_FRAMES = 6, DODGE_REST_FRAMES = 10 }; /* of what the opponent does */

typedef struct dodge_vector {
    double x, y;
} dodge_vector;

/* Something that moves: where it is, and its last move. */
typedef struct dodge_body {
    dodge_vector place, move;
} dodge_body;

typedef enum dodge_phase { DODGE_PURSUE, DODGE_AIM, DODGE_DASH, DODGE_REST, DODGE_PHASES } dodge_phase;

typedef struct dodge {
    dodge_body player, opponent;
    dodge_body balls[DODGE_BALLS];
    int32_t is_flying[DODGE_BALLS]; /* 0: the ball is not in the arena */
    dodge_phase phase;
    int32_t phase_left;  /* frames of it to come; pursuing: 0 */
    dodge_vector aim;    /* of length 1 while it aims and dashes, else 0 */
    int32_t throw_after; /* frames until the next throw */
    int32_t frames;      /* in this episode */
    uint64_t random;
} dodge;

extern const env_kind dodge_kind;

/* A dodger made by hand, which sees `obs` (27) and nothing else. The action. */
int32_t dodge_by_hand(const float *obs);

#endif
