/* SPDX-License-Identifier: MIT */
/* Divides a total T into B strata without gaps: stratum i is [floor(T i / B), floor(T (i + 1) / B)). With T =
 * quotient B + rest, no intermediate result exceeds 64 bits. Of a division by B only the reciprocal takes long, and it
 * can be computed before T is known. */
#pragma once

#include "kernels/target/thread.h"

/* B, and floor((2^64 - 1) / B). */
typedef struct gpur_divisor {
    uint64_t count, reciprocal;
} gpur_divisor;

/* `count`: 1 to 2^31 */
GPUR_FN gpur_divisor gpur_divisor_of(int64_t count)
{
    gpur_divisor d;
    d.count = (uint64_t)count;
    d.reciprocal = UINT64_MAX / d.count;
    return d;
}

/* floor(x / B). The product is x / B less a number below 1, so rounded down it is at most 1 too small. */
GPUR_FN uint64_t gpur_divide(gpur_divisor d, uint64_t x)
{
    const uint64_t quotient = gpur_mulhi_u64(x, d.reciprocal);
    return quotient + (x - quotient * d.count >= d.count);
}

typedef struct gpur_strata {
    uint64_t total, quotient, rest;
    gpur_divisor count;
} gpur_strata;

GPUR_FN gpur_strata gpur_strata_of(uint64_t total, gpur_divisor count)
{
    gpur_strata s;
    s.total = total;
    s.count = count;
    s.quotient = gpur_divide(count, total);
    s.rest = total - s.quotient * count.count;
    return s;
}

/* Where stratum i begins; i is 0 to `count`. */
GPUR_FN uint64_t gpur_stratum(const gpur_strata *s, int64_t i)
{
    return s->quotient * (uint64_t)i + gpur_divide(s->count, s->rest * (uint64_t)i);
}

/* Maps 64 random bits to a mass in stratum i. All masses of a stratum have the same probability, up to 2^-64. An
 * empty stratum (the total is below `count`) gives the mass at which it begins. */
GPUR_FN uint64_t gpur_stratum_mass(const gpur_strata *s, int64_t i, uint64_t bits)
{
    const uint64_t count = s->count.count, parts = s->rest * (uint64_t)i, whole = gpur_divide(s->count, parts);
    const uint64_t carry = parts - whole * count + s->rest;
    const uint64_t first = s->quotient * (uint64_t)i + whole, width = s->quotient + (carry >= count);
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
    walk.carry = s->rest * (uint64_t)i % s->count.count;
    return walk;
}

GPUR_FN uint64_t gpur_strata_walk_mass(const gpur_strata *s, gpur_strata_walk *walk, uint64_t bits)
{
    const uint64_t first = walk->first, carry = walk->carry + s->rest, more = carry >= s->count.count;
    const uint64_t width = s->quotient + more;
    walk->carry = carry - (more ? s->count.count : 0);
    walk->first = first + width;
    return first + gpur_mulhi_u64(bits, width);
}
