/* SPDX-License-Identifier: MIT */
#ifndef GPUR_CHANNEL_BACKWARD_H
#define GPUR_CHANNEL_BACKWARD_H

#include "args_conv.h"
#include "layer_backward.h"

/* A run of rows is a batch of its own for the columns of layer_backward.h, all of which one block takes. */
GPUR_KERNEL(channel_backward)
{
    const gpur_span runs = gpur_block_rows(at, (a->rows + GPUR_CHANNEL_ROWS - 1) / GPUR_CHANNEL_ROWS);
    for (int64_t run = runs.first; run < runs.last; run += runs.step) {
        gpur_layer_backward_args part;
        const int64_t first = run * GPUR_CHANNEL_ROWS, left = a->rows - first;
        part.dy = a->dy + first * a->features;
        part.y = a->y + first * a->features;
        part.bias_gradient = a->partial + run * a->features;
        part.batch = left < GPUR_CHANNEL_ROWS ? left : GPUR_CHANNEL_ROWS;
        part.features = part.dy_pitch = part.y_pitch = a->features;
        part.activation = a->activation;
        gpur_columns_backward(at, &part, gpur_part_of(gpur_column_tiles(at, a->features), 0, 1));
    }
}

#endif
