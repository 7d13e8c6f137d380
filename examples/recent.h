/* SPDX-License-Identifier: MIT */
/* The mean of the last 100 numbers. */
#ifndef EXAMPLES_RECENT_H
#define EXAMPLES_RECENT_H

#include <math.h>
#include <stdint.h>

enum { RECENT_ROOM = 100 };

typedef struct recent_returns {
    float values[RECENT_ROOM];
    int64_t count; /* ever added */
} recent_returns;

static inline void recent_add(recent_returns *recent, float value)
{
    recent->values[recent->count++ % RECENT_ROOM] = value;
}

/* NaN before the first. */
static inline float recent_mean(const recent_returns *recent)
{
    const int64_t held = recent->count < RECENT_ROOM ? recent->count : RECENT_ROOM;
    double sum = 0.0;
    for (int64_t i = 0; i < held; i++)
        sum += (double)recent->values[i];
    return held > 0 ? (float)(sum / (double)held) : NAN;
}

#endif
