/* SPDX-License-Identifier: MIT */
/* y = activation(y + bias), in place. Arguments and shapes: gpur_bias_activation_args. */
#pragma once

#include "kernels/args_learn.h"
#include "kernels/target/thread.h"

GPUR_FN float gpur_activate(float x, int32_t activation)
{
    if (activation == GPUR_RELU)
        return x <= 0.0f ? 0.0f : x; /* NaN stays NaN: a network that has diverged must be seen */
    return activation == GPUR_TANH ? tanhf(x) : x;
}

GPUR_KERNEL(bias_activation)
{
    const gpur_span rows = gpur_block_rows(at, a->batch);
    const gpur_span columns = gpur_block_span(at, a->features);
    for (int64_t b = rows.first; b < rows.last; b += rows.step) {
        float *const y = a->y + b * a->pitch;
        for (int64_t f = columns.first; f < columns.last; f += columns.step)
            y[f] = gpur_activate(y[f] + a->bias[f], a->activation);
    }
}
