/* SPDX-License-Identifier: MIT */
/* Converts bfloat16 to float32, which is exact; with a bias, computes activation(x + bias). Arguments and shapes:
 * gpur_widen_bf16_args. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/lib/bf16.h"
#include "kernels/learn/bias_activation.h"

/* Converts a number of column f. */
GPUR_FN float gpur_widened(const gpur_widen_bf16_args *a, uint16_t number, int64_t f)
{
    const float x = gpur_bf16_widen(number);
    return a->bias ? gpur_activate(x + a->bias[f], a->activation) : x;
}

/* Converts numbers i to i + 3, which are of columns f to f + 3. */
GPUR_FN void gpur_widen_quad(const gpur_widen_bf16_args *a, int64_t i, int64_t f)
{
    uint16_t numbers[4];
    float x[4];
    memcpy(numbers, __builtin_assume_aligned((const unsigned char *)(a->from + i), sizeof numbers), sizeof numbers);
    for (int k = 0; k < 4; k++)
        x[k] = gpur_widened(a, numbers[k], f + k);
    memcpy(__builtin_assume_aligned((unsigned char *)(a->to + i), sizeof x), x, sizeof x);
}

/* Converts the span's groups of `wide` numbers (4 or 1), counted from number `first` on. The column is advanced by an
 * addition: a remainder for every number would take a GPU longer than the conversion. */
GPUR_FN void gpur_widen_span(const gpur_widen_bf16_args *a, gpur_span s, int64_t first, int64_t wide)
{
    const int64_t step = wide * s.step % a->features;
    int64_t f = (first + wide * s.first) % a->features;
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const int64_t n = first + wide * i;
        if (wide == 4)
            gpur_widen_quad(a, n, f);
        else
            a->to[n] = gpur_widened(a, a->from[n], f);
        f += step;
        f -= f < a->features ? 0 : a->features;
    }
}

/* Four numbers at a time, as in round_bf16.h, if they always are of one row. */
GPUR_KERNEL(widen_bf16)
{
    const int whole = a->features % 4 == 0 && gpur_bf16_in_quads(a->to, a->from);
    const int64_t quads = whole ? a->count / 4 : 0;
    gpur_widen_span(a, gpur_grid_span(at, quads), 0, 4);
    gpur_widen_span(a, gpur_grid_span(at, a->count - 4 * quads), 4 * quads, 1);
}
