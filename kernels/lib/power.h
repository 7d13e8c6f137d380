/* SPDX-License-Identifier: MIT */
/* x^a for finite x > 0 with a relative error of about 1e-12, in plain arithmetic. Loops over it vectorize, which
 * loops that call powf do not, and it is the same function on every device up to the rounding of fused multiply-adds.
 */
#pragma once

#include "kernels/target/thread.h"

GPUR_FN double gpur_double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

GPUR_FN uint64_t gpur_bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x = 2^k z with z in [sqrt(1/2), sqrt(2)), and log2 z = 2 / ln 2 artanh((z - 1) / (z + 1)), computed by its series.
 * Integers become doubles, and doubles integers, as the last bits of a large power of two. */
GPUR_FN double gpur_log2(double x)
{
    const uint64_t bits = gpur_bits_of(x), above = bits - 0x3FE6A09E667F3BCDu + ((uint64_t)1024 << 52);
    const double k = gpur_double_of(0x4330000000000000u + (above >> 52)) - 4503599627371520.0;
    const double z = gpur_double_of(bits - ((above & 0xFFF0000000000000u) - ((uint64_t)1024 << 52)));
    const double s = (z - 1.0) / (z + 1.0), t = s * s;
    double sum = 1.0 / 17.0;
    sum = sum * t + 1.0 / 15.0;
    sum = sum * t + 1.0 / 13.0;
    sum = sum * t + 1.0 / 11.0;
    sum = sum * t + 1.0 / 9.0;
    sum = sum * t + 1.0 / 7.0;
    sum = sum * t + 1.0 / 5.0;
    sum = sum * t + 1.0 / 3.0;
    sum = sum * t + 1.0;
    return k + 2.8853900817779268 * s * sum;
}

/* 2^y = 2^n e^(f ln 2) with f in [-1/2, 1/2], by the series of e^x. A y outside [-150, 150] counts as the nearer end.
 */
GPUR_FN double gpur_exp2(double y)
{
    const double within = y < -150.0 ? -150.0 : y > 150.0 ? 150.0 : y;
    const double shifted = within + 6755399441055744.0,
                 f = (within - (shifted - 6755399441055744.0)) * 0.69314718055994531;
    double sum = 1.0 / 39916800.0;
    sum = sum * f + 1.0 / 3628800.0;
    sum = sum * f + 1.0 / 362880.0;
    sum = sum * f + 1.0 / 40320.0;
    sum = sum * f + 1.0 / 5040.0;
    sum = sum * f + 1.0 / 720.0;
    sum = sum * f + 1.0 / 120.0;
    sum = sum * f + 1.0 / 24.0;
    sum = sum * f + 1.0 / 6.0;
    sum = sum * f + 1.0 / 2.0;
    sum = sum * f + 1.0;
    sum = sum * f + 1.0;
    return gpur_double_of(gpur_bits_of(sum) + (gpur_bits_of(shifted) << 52));
}

GPUR_FN double gpur_power(double x, double a)
{
    return gpur_exp2(a * gpur_log2(x));
}
