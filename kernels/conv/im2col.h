/* SPDX-License-Identifier: MIT */
/* im2col: row (n, y, x) of the result is the K x K x C inputs of one output pixel of a convolution, with zeros in the
 * padding. The convolution then is a matrix product with the filters. Arguments and shapes: gpur_im2col_args. A CPU's
 * thread copies whole runs. */
#pragma once

#include "kernels/args_conv.h"
#include "kernels/target/thread.h"

/* Row `ky` of the filter at one output position: a run of K C numbers that are contiguous in the image. Numbers
 * `first` to last - 1 of it are in the image, the others in the padding. */
typedef struct gpur_im2col_run {
    int64_t from; /* index in the image of the run's first number; may lie before the image */
    int64_t first, last;
} gpur_im2col_run;

GPUR_FN gpur_im2col_run gpur_im2col_run_of(const gpur_conv_geometry *p, int64_t row, int64_t ky)
{
    gpur_im2col_run run;
    const int64_t line = row / p->out_width, n = line / p->out_height;
    const int64_t y = (line - n * p->out_height) * p->stride - p->top + ky;
    const int64_t x = (row - line * p->out_width) * p->stride - p->left;
    const int64_t left = p->width - x;
    run.from = ((n * p->height + y) * p->width + x) * p->channels;
    run.first = (x < 0 ? -x : 0) * p->channels;
    run.last = (left < 0 ? 0 : left < p->kernel ? left : p->kernel) * p->channels;
    if (y < 0 || y >= p->height)
        run.last = run.first;
    return run;
}

/* Copies number j of the run to column i. */
GPUR_FN void gpur_im2col_copy(const gpur_im2col_args *a, const gpur_im2col_run *run, int64_t j, int64_t i)
{
    const int is_in = j >= run->first && j < run->last;
    if (a->bf16)
        ((uint16_t *)a->columns)[i] = is_in ? ((const uint16_t *)a->x)[run->from + j] : (uint16_t)0;
    else
        ((float *)a->columns)[i] = is_in ? ((const float *)a->x)[run->from + j] : 0.0f;
}

/* The serial body: copies whole runs. */
GPUR_FN void gpur_im2col_rows(const gpur_im2col_args *a, gpur_span rows)
{
    const int64_t run_length = a->geometry.kernel * a->geometry.channels;
    int64_t i = rows.first * a->geometry.kernel * run_length;
    for (int64_t row = rows.first; row < rows.last; row++)
        for (int64_t ky = 0; ky < a->geometry.kernel; ky++, i += run_length) {
            const gpur_im2col_run run = gpur_im2col_run_of(&a->geometry, row, ky);
            if (!a->bf16 && run.first == 0 && run.last == run_length)
                memcpy((float *)a->columns + i, (const float *)a->x + run.from, (size_t)run_length * sizeof(float));
            else
                for (int64_t j = 0; j < run_length; j++)
                    gpur_im2col_copy(a, &run, j, i + j);
        }
}

GPUR_KERNEL(im2col)
{
    const int64_t run_length = a->geometry.kernel * a->geometry.channels, width = a->geometry.kernel * run_length;
    const int64_t rows = a->geometry.images * a->geometry.out_height * a->geometry.out_width;
    if (!gpur_is_parallel()) {
        gpur_im2col_rows(a, gpur_block_rows(at, rows));
        return;
    }
    const gpur_span s = gpur_grid_span(at, rows * width);
    for (int64_t i = s.first; i < s.last; i += s.step) {
        const int64_t row = i / width, within = i - row * width, ky = within / run_length;
        const gpur_im2col_run run = gpur_im2col_run_of(&a->geometry, row, ky);
        gpur_im2col_copy(a, &run, within - ky * run_length, i);
    }
}
