/* SPDX-License-Identifier: MIT */
/* Converts bfloat16 to float32, which is exact. Arguments and shapes: gpur_widen_bf16_args. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/lib/bf16.h"

GPUR_FN void gpur_widen_quad(const uint16_t *from, float *to)
{
    uint16_t numbers[4];
    float x[4];
    memcpy(numbers, __builtin_assume_aligned((const unsigned char *)from, sizeof numbers), sizeof numbers);
    for (int k = 0; k < 4; k++)
        x[k] = gpur_bf16_widen(numbers[k]);
    memcpy(__builtin_assume_aligned((unsigned char *)to, sizeof x), x, sizeof x);
}

/* Four numbers at a time, as in round_bf16.h. */
GPUR_KERNEL(widen_bf16)
{
    const int64_t quads = gpur_bf16_in_quads(a->to, a->from) ? a->count / 4 : 0;
    const gpur_span s = gpur_grid_span(at, quads), rest = gpur_grid_span(at, a->count - 4 * quads);
    for (int64_t i = s.first; i < s.last; i += s.step)
        gpur_widen_quad(a->from + 4 * i, a->to + 4 * i);
    for (int64_t i = 4 * quads + rest.first; i < 4 * quads + rest.last; i += rest.step)
        a->to[i] = gpur_bf16_widen(a->from[i]);
}
