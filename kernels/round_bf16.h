/* SPDX-License-Identifier: MIT */
#ifndef GPUR_ROUND_BF16_H
#define GPUR_ROUND_BF16_H

#include "args_conv.h"
#include "bf16.h"

GPUR_KERNEL(round_bf16)
{
    const gpur_span s = gpur_grid_span(at, a->count);
    for (int64_t i = s.first; i < s.last; i += s.step)
        a->to[i] = gpur_bf16_round(a->from[i]);
}

#endif
