/* SPDX-License-Identifier: MIT */
/*
 * The time that appends take beside waiting, which the intake counts. Asking the clock takes as long as copying a small
 * row, so of small calls one in GPUR_CLOCK_EVERY is timed and stands for as many; a prime, so that it meets calls that
 * fill a block as often as others.
 */
#ifndef GPUR_REPLAY_APPEND_CLOCK_H
#define GPUR_REPLAY_APPEND_CLOCK_H

#include "base/clock.h"
#include "replay/intake.h"

enum { GPUR_CLOCK_EVERY = 13, GPUR_CLOCK_SMALL = 16384 };

typedef struct gpur_append_clock {
    double begin, waited; /* the moment, and what all appends had waited until then */
    int weight;           /* calls that this one stands for; 0: it is not timed */
} gpur_append_clock;

/* With the intake's lock held. */
static inline gpur_append_clock gpur_append_clock_begin(gpur_intake *intake, int64_t rows)
{
    gpur_append_clock clock = {0, intake->wait_seconds, 1};
    if (rows * intake->staging.pitch <= GPUR_CLOCK_SMALL)
        clock.weight = ++intake->small_calls % GPUR_CLOCK_EVERY == 0 ? GPUR_CLOCK_EVERY : 0;
    clock.begin = clock.weight ? gpur_clock_seconds() : 0;
    return clock;
}

/* With the lock held, too. */
static inline void gpur_append_clock_end(const gpur_append_clock *clock, gpur_intake *intake)
{
    if (clock->weight == 0)
        return;
    const double busy = gpur_clock_seconds() - clock->begin - (intake->wait_seconds - clock->waited);
    intake->busy_seconds += busy > 0 ? clock->weight * busy : 0; /* other threads may have waited meanwhile */
}

#endif
