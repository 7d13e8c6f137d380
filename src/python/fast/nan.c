/* SPDX-License-Identifier: MIT */
/* Finding NaN: loops without a branch inside, which compilers make vector instructions of; the wider ones where the
 * processor has them. */
#include "fast.h"

enum { AT_ONCE = 4096, FEW = 16 }; /* values between two looks at what was found; those that are looked at singly */

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
#define HAS_WIDE __builtin_cpu_supports("avx2")
#else
#define WIDE
#define HAS_WIDE 0
#endif
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS int nan_in_some_floats(const float *values, int64_t count)
{
    const int64_t half = count / 2;
    int found = count && values[count - 1] != values[count - 1];
    for (int64_t at = 0; at < half; at++)
        found |= __builtin_isunordered(values[at], values[half + at]); /* one comparison looks at two */
    return found;
}

ALWAYS int nan_in_some_halves(const uint16_t *values, int64_t count)
{
    int found = 0;
    for (int64_t at = 0; at < count; at++)
        found |= (values[at] & 0x7fff) > 0x7c00; /* beyond infinity, whatever the sign */
    return found;
}

ALWAYS int nan_in_floats(const float *values, int64_t count)
{
    for (; count > AT_ONCE; values += AT_ONCE, count -= AT_ONCE)
        if (nan_in_some_floats(values, AT_ONCE))
            return 1;
    return nan_in_some_floats(values, count);
}

ALWAYS int nan_in_halves(const uint16_t *values, int64_t count)
{
    for (; count > AT_ONCE; values += AT_ONCE, count -= AT_ONCE)
        if (nan_in_some_halves(values, AT_ONCE))
            return 1;
    return nan_in_some_halves(values, count);
}

WIDE static int nan_in_floats_wide(const float *values, int64_t count)
{
    return nan_in_floats(values, count);
}

WIDE static int nan_in_halves_wide(const uint16_t *values, int64_t count)
{
    return nan_in_halves(values, count);
}

static int nan_in_few_floats(const float *values, int64_t count)
{
    for (int64_t at = 0; at < count; at++)
        if (values[at] != values[at])
            return 1;
    return 0;
}

int fast_nan_in_floats(const float *values, int64_t count)
{
    if (count <= FEW)
        return nan_in_few_floats(values, count);
    return HAS_WIDE ? nan_in_floats_wide(values, count) : nan_in_floats(values, count);
}

int fast_nan_in_halves(const uint16_t *values, int64_t count)
{
    return HAS_WIDE ? nan_in_halves_wide(values, count) : nan_in_halves(values, count);
}
