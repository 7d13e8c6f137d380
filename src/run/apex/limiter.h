/* SPDX-License-Identifier: MIT */
/* The limiter of samples per insert: transitions learned and transitions inserted go together, within a band on either
 * side. Never do both sides have to wait, since the band is at least a batch, and a block times the ratio. */
#pragma once

#include "base/numbers.h"

typedef struct gpur_limiter {
    double samples_per_insert; /* 0: nobody waits */
    double band;               /* transitions learned */
    int64_t batch;
    int32_t has_begun;         /* 1: the replay has had its min_size. Before that nothing is counted */
    int64_t inserted, learned; /* transitions since then */
} gpur_limiter;

/* Transitions learned that the learner is ahead; below 0: that it is behind. */
static inline double gpur_limiter_ahead(const gpur_limiter *limiter)
{
    return (double)limiter->learned - limiter->samples_per_insert * (double)limiter->inserted;
}

static inline int gpur_limiter_is_on(const gpur_limiter *limiter)
{
    return limiter->samples_per_insert > 0.0 && limiter->has_begun;
}

/* 1 if so many rows may be inserted now. */
static inline int gpur_limiter_may_insert(const gpur_limiter *limiter, int64_t rows)
{
    return !gpur_limiter_is_on(limiter) ||
           limiter->samples_per_insert * (double)rows - gpur_limiter_ahead(limiter) <= limiter->band;
}

/* The train steps that may be done now, at most `most`. */
static inline int64_t gpur_limiter_steps(const gpur_limiter *limiter, int64_t most)
{
    if (!gpur_limiter_is_on(limiter))
        return most;
    const double steps = (limiter->band - gpur_limiter_ahead(limiter)) / (double)limiter->batch;
    return steps < 1.0 ? 0 : steps < (double)most ? (int64_t)steps : most;
}

static inline void gpur_limiter_count(gpur_limiter *limiter, int64_t inserted, int64_t learned)
{
    limiter->inserted += limiter->has_begun ? inserted : 0;
    limiter->learned += limiter->has_begun ? learned : 0;
}
