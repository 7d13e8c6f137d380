/* SPDX-License-Identifier: MIT */
#ifndef GPUR_WIDEN_BF16_H
#define GPUR_WIDEN_BF16_H

#include "args_conv.h"
#include "bf16.h"
#include "bias_activation.h"

GPUR_KERNEL(widen_bf16)
{
    const gpur_span s = gpur_grid_span(at, a->count);
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const float x = gpur_bf16_widen(a->from[i]);
        a->to[i] = a->bias ? gpur_activate(x + a->bias[i % a->features], a->activation) : x;
    }
}

#endif
