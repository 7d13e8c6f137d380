/* SPDX-License-Identifier: MIT */
/* bfloat16: the upper half of a float32's bits. */
#ifndef GPUR_BF16_H
#define GPUR_BF16_H

#include "place.h"

/* To the nearest, ties to even. A NaN keeps its sign and stays one. */
GPUR_FN uint16_t gpur_bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

GPUR_FN float gpur_bf16_widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

#endif
