/* SPDX-License-Identifier: MIT */
/* Finding NaN: loops without a branch inside, which compilers make vector instructions of. */
#include "fast.h"

enum { AT_ONCE = 4096 }; /* values between two looks at what was found */

static int nan_in_some_floats(const float *values, int64_t count)
{
    const int64_t half = count / 2;
    int found = count && values[count - 1] != values[count - 1];
    for (int64_t at = 0; at < half; at++)
        found |= __builtin_isunordered(values[at], values[half + at]); /* one comparison looks at two */
    return found;
}

static int nan_in_some_halves(const uint16_t *values, int64_t count)
{
    int found = 0;
    for (int64_t at = 0; at < count; at++)
        found |= (values[at] & 0x7fff) > 0x7c00; /* beyond infinity, whatever the sign */
    return found;
}

int fast_nan_in_floats(const float *values, int64_t count)
{
    for (; count > AT_ONCE; values += AT_ONCE, count -= AT_ONCE)
        if (nan_in_some_floats(values, AT_ONCE))
            return 1;
    return nan_in_some_floats(values, count);
}

int fast_nan_in_halves(const uint16_t *values, int64_t count)
{
    for (; count > AT_ONCE; values += AT_ONCE, count -= AT_ONCE)
        if (nan_in_some_halves(values, AT_ONCE))
            return 1;
    return nan_in_some_halves(values, count);
}
