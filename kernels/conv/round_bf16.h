/* SPDX-License-Identifier: MIT */
/* Rounds float32 to bfloat16, to the nearest, ties to even; with a bias, rounds activation(x + bias). Arguments and
 * shapes: gpur_round_bf16_args. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/lib/bf16.h"
#include "kernels/learn/bias_activation.h"

GPUR_FN void gpur_round_quad(const float *from, uint16_t *to)
{
    float x[4];
    uint16_t rounded[4];
    memcpy(x, __builtin_assume_aligned((const unsigned char *)from, sizeof x), sizeof x);
    for (int k = 0; k < 4; k++)
        rounded[k] = gpur_bf16_round(x[k]);
    memcpy(__builtin_assume_aligned((unsigned char *)to, sizeof rounded), rounded, sizeof rounded);
}

/* On a GPU a thread loads and stores four numbers at a time. The rest is converted one by one; so is everything if
 * the arrays are not aligned, if there is a bias, and on a CPU, whose compiler vectorizes that loop. */
GPUR_KERNEL(round_bf16)
{
    const int64_t quads = gpur_bf16_in_quads(a->from, a->to) && !a->bias ? a->count / 4 : 0;
    const gpur_span s = gpur_grid_span(at, quads), rest = gpur_grid_span(at, a->count - 4 * quads);
    for (int64_t i = s.first; i < s.last; i += s.step)
        gpur_round_quad(a->from + 4 * i, a->to + 4 * i);
    if (a->bias) {
        for (int64_t i = rest.first; i < rest.last; i += rest.step) {
            const float bias = gpur_bf16_widen(a->bias[i % a->features]);
            a->to[i] = gpur_bf16_round(gpur_activate(a->from[i] + bias, a->activation));
        }
        return;
    }
    for (int64_t i = 4 * quads + rest.first; i < 4 * quads + rest.last; i += rest.step)
        a->to[i] = gpur_bf16_round(a->from[i]);
}
