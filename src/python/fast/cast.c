/* SPDX-License-Identifier: MIT */
#include "cast.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { AT_ONCE = 64 };             /* numbers that are widened, looked at and narrowed in one go */
enum { EXACT_IN_FLOAT = 1 << 24 }; /* integers up to here are float32 without loss */

int fast_is_taken(fast_number to, fast_number from)
{
    const char *const kinds = to.kind == 'f' ? "fiub" : to.kind == 'i' ? "iu" : "iub";
    return to.kind != 'f' || to.bytes == 4 ? strchr(kinds, from.kind) != NULL : 0;
}

void fast_limits(fast_number to, int64_t *least, int64_t *most)
{
    const int64_t half = to.bytes == 8 ? INT64_MAX : INT32_MAX;
    *least = to.kind == 'f' ? -EXACT_IN_FLOAT : to.kind == 'i' ? -half - 1 : 0;
    *most = to.kind == 'f' ? EXACT_IN_FLOAT : to.kind == 'i' ? half : to.kind == 'u' ? UINT8_MAX : 1;
}

/* What is finite stays finite. */
static int narrow_doubles(float *out, const double *in, int64_t count)
{
    int lost = 0;
    for (int64_t at = 0; at < count; at++) {
        out[at] = (float)in[at];
        lost |= (fabsf(out[at]) > FLT_MAX) & (fabs(in[at]) <= DBL_MAX); /* NaN is neither */
    }
    return !lost;
}

#define WIDEN(type)                                                                                                    \
    for (int64_t at = 0; at < count; at++)                                                                             \
    out[at] = (int64_t)((const type *)in)[at]

static void widen_signed(int64_t *out, int bytes, const void *in, int64_t count)
{
    if (bytes == 8)
        WIDEN(int64_t);
    else if (bytes == 4)
        WIDEN(int32_t);
    else if (bytes == 2)
        WIDEN(int16_t);
    else
        WIDEN(int8_t);
}

/* A bool that is not 0 is 1: a view of other memory may have any byte. */
static void widen_bools(int64_t *out, const void *in, int64_t count)
{
    for (int64_t at = 0; at < count; at++)
        out[at] = ((const uint8_t *)in)[at] != 0;
}

static void widen_unsigned(int64_t *out, int bytes, const void *in, int64_t count)
{
    if (bytes == 8)
        WIDEN(uint64_t);
    else if (bytes == 4)
        WIDEN(uint32_t);
    else if (bytes == 2)
        WIDEN(uint16_t);
    else
        WIDEN(uint8_t);
}

/* An unsigned number that is beyond int64 has come out negative, which no unsigned one is. */
static int all_fit(fast_number to, fast_number from, const int64_t *wide, int64_t count)
{
    int64_t least, most;
    int fit = 1;
    fast_limits(to, &least, &most);
    least = from.kind != 'i' && least < 0 ? 0 : least;
    for (int64_t at = 0; at < count; at++)
        fit &= (wide[at] >= least) & (wide[at] <= most);
    return fit;
}

#define NARROW(type)                                                                                                   \
    for (int64_t at = 0; at < count; at++)                                                                             \
    ((type *)out)[at] = (type)wide[at]

static void narrow(fast_number to, void *out, const int64_t *wide, int64_t count)
{
    if (to.kind == 'f')
        NARROW(float);
    else if (to.bytes == 8)
        NARROW(int64_t);
    else if (to.bytes == 4)
        NARROW(int32_t);
    else
        NARROW(uint8_t);
}

static int cast_integers(fast_number to, unsigned char *out, fast_number from, const unsigned char *in, int64_t count)
{
    int64_t wide[AT_ONCE];
    for (int64_t n; count > 0; count -= n, out += n * to.bytes, in += n * from.bytes) {
        n = count < AT_ONCE ? count : AT_ONCE;
        if (from.kind == 'b')
            widen_bools(wide, in, n);
        else
            (from.kind == 'i' ? widen_signed : widen_unsigned)(wide, from.bytes, in, n);
        if (!all_fit(to, from, wide, n))
            return 0;
        narrow(to, out, wide, n);
    }
    return 1;
}

int fast_cast(fast_number to, void *out, fast_number from, const void *in, int64_t count)
{
    if (!fast_is_taken(to, from))
        return 0;
    if (from.kind != 'f')
        return cast_integers(to, out, from, in, count);
    return from.bytes == 8 && narrow_doubles(out, in, count);
}
