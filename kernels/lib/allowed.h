/* SPDX-License-Identifier: MIT */
/* Action masks: of each row ceil(A / 8) bytes, and bit k % 8 of byte k / 8, counted from the least significant, is 1 if
 * action k is allowed. Bits from A on are not read. */
#pragma once

#include "kernels/target/thread.h"

GPUR_FN int64_t gpur_mask_bytes(int32_t actions)
{
    return ((int64_t)actions + 7) / 8;
}

GPUR_FN int gpur_is_allowed(const unsigned char *mask, int32_t action)
{
    return mask[action / 8] >> (action % 8) & 1;
}

GPUR_FN int32_t gpur_count_allowed(int32_t actions, const unsigned char *mask)
{
    int32_t count = 0;
    for (int32_t k = 0; k < actions; k++)
        count += gpur_is_allowed(mask, k);
    return count;
}

/* Allowed action number n, counted from 0; -1: there are fewer. */
GPUR_FN int32_t gpur_find_allowed(int32_t actions, const unsigned char *mask, int32_t n)
{
    for (int32_t k = 0; k < actions; k++)
        if (gpur_is_allowed(mask, k) && n-- == 0)
            return k;
    return -1;
}
