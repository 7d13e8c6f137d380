/* SPDX-License-Identifier: MIT */
/* Divides a total T into B strata without gaps: stratum i is [floor(T i / B), floor(T (i + 1) / B)). With T =
 * quotient B + rest, no intermediate result exceeds 64 bits. */
#pragma once

#include "kernels/target/thread.h"

typedef struct gpur_strata {
    uint64_t total, count, quotient, rest;
} gpur_strata;

/* `count`: 1 to 2^31 */
GPUR_FN gpur_strata gpur_strata_of(uint64_t total, int64_t count)
{
    gpur_strata s;
    s.total = total;
    s.count = (uint64_t)count;
    s.quotient = total / s.count;
    s.rest = total - s.quotient * s.count;
    return s;
}

/* Where stratum i begins; i is 0 to `count`. */
GPUR_FN uint64_t gpur_stratum(const gpur_strata *s, int64_t i)
{
    return s->quotient * (uint64_t)i + s->rest * (uint64_t)i / s->count;
}

/* Maps 64 random bits to a mass in stratum i. All masses of a stratum have the same probability, up to 2^-64. An
 * empty stratum (the total is below `count`) gives the mass at which it begins. */
GPUR_FN uint64_t gpur_stratum_mass(const gpur_strata *s, int64_t i, uint64_t bits)
{
    const uint64_t parts = s->rest * (uint64_t)i, whole = parts / s->count, carry = parts - whole * s->count + s->rest;
    const uint64_t first = s->quotient * (uint64_t)i + whole, width = s->quotient + (carry >= s->count);
    return first + gpur_mulhi_u64(bits, width);
}

/* The same for one stratum after the other, without a division for each. */
typedef struct gpur_strata_walk {
    uint64_t first; /* where the next stratum begins */
    uint64_t carry;
} gpur_strata_walk;

GPUR_FN gpur_strata_walk gpur_strata_walk_from(const gpur_strata *s, int64_t i)
{
    gpur_strata_walk walk;
    walk.first = gpur_stratum(s, i);
    walk.carry = s->rest * (uint64_t)i % s->count;
    return walk;
}

GPUR_FN uint64_t gpur_strata_walk_mass(const gpur_strata *s, gpur_strata_walk *walk, uint64_t bits)
{
    const uint64_t first = walk->first, carry = walk->carry + s->rest, more = carry >= s->count;
    const uint64_t width = s->quotient + more;
    walk->carry = carry - (more ? s->count : 0);
    walk->first = first + width;
    return first + gpur_mulhi_u64(bits, width);
}
