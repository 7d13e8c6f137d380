/* SPDX-License-Identifier: MIT */
/* The constants of dodge, and the geometry that its files share. Half the side of the arena is 1; speeds are per
 * frame. */
#pragma once

#include "dodge.h"

#include <math.h>

static const double dodge_player_speed = 0.06;
static const double dodge_pursuit_speed = 0.03;
static const double dodge_dash_speed = 0.09;
static const double dodge_ball_speed = 0.05;
static const double dodge_opponent_touch = 0.12; /* smaller distances between the centers are hits */
static const double dodge_ball_touch = 0.10;
static const double dodge_strike_range = 0.40; /* the opponent aims at this distance or less */
static const double dodge_throw_range = 0.60;  /* the opponent throws at this distance or more */
static const double dodge_start_apart = 0.80;  /* minimum distance at the start of an episode */
static const double dodge_throw_first = 24.0;  /* frames from one throw to the next: at least this, */
static const double dodge_throw_last = 48.0;   /* and fewer than this */

static inline dodge_vector dodge_plus(dodge_vector a, dodge_vector b)
{
    return (dodge_vector){a.x + b.x, a.y + b.y};
}

static inline dodge_vector dodge_minus(dodge_vector a, dodge_vector b)
{
    return (dodge_vector){a.x - b.x, a.y - b.y};
}

static inline dodge_vector dodge_times(dodge_vector a, double factor)
{
    return (dodge_vector){a.x * factor, a.y * factor};
}

static inline double dodge_length(dodge_vector a)
{
    return sqrt(a.x * a.x + a.y * a.y);
}

static inline double dodge_distance(dodge_vector a, dodge_vector b)
{
    return dodge_length(dodge_minus(a, b));
}

/* Fills in the 27 numbers of dodge.h. */
void dodge_observe(const dodge *game, float *obs);
