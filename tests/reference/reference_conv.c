/* SPDX-License-Identifier: MIT */
#include "reference/reference_conv.h"

#include <math.h>
#include <stddef.h>

void ref_conv_size(ref_conv *c)
{
    c->rows = c->columns = 0;
    for (int top = -c->padding; top + c->kernel <= c->height + c->padding; top += c->stride)
        c->rows++;
    for (int left = -c->padding; left + c->kernel <= c->width + c->padding; left += c->stride)
        c->columns++;
}

/* Calls `visit` for every product of which the convolution is made: indices of y, w and x. */
typedef void (*ref_visit)(void *context, int y, int w, int x);

static void visit_patch(const ref_conv *c, int i, int j, int f, ref_visit visit, void *context)
{
    const int y = (i * c->columns + j) * c->filters + f;
    for (int u = 0; u < c->kernel; u++)
        for (int v = 0; v < c->kernel; v++) {
            const int row = i * c->stride - c->padding + u, column = j * c->stride - c->padding + v;
            if (row < 0 || row >= c->height || column < 0 || column >= c->width)
                continue;
            for (int k = 0; k < c->channels; k++)
                visit(context, y, ((f * c->kernel + u) * c->kernel + v) * c->channels + k,
                      (row * c->width + column) * c->channels + k);
        }
}

static void visit_all(const ref_conv *c, ref_visit visit, void *context)
{
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->columns; j++)
            for (int f = 0; f < c->filters; f++)
                visit_patch(c, i, j, f, visit, context);
}

typedef struct ref_sums {
    const double *x, *w, *dy;
    double *y, *size, *dx, *dw;
} ref_sums;

static void add_forward(void *context, int y, int w, int x)
{
    const ref_sums *const s = context;
    s->y[y] += s->x[x] * s->w[w];
    if (s->size)
        s->size[y] += fabs(s->x[x] * s->w[w]);
}

void ref_conv_forward(const ref_conv *c, const double *x, const double *w, double *y, double *size)
{
    ref_sums s = {x, w, NULL, y, size, NULL, NULL};
    for (int i = 0; i < c->rows * c->columns * c->filters; i++) {
        y[i] = 0;
        if (size)
            size[i] = 0;
    }
    visit_all(c, add_forward, &s);
}

static void add_backward(void *context, int y, int w, int x)
{
    const ref_sums *const s = context;
    if (s->dx)
        s->dx[x] += s->dy[y] * s->w[w];
    if (s->dw)
        s->dw[w] += s->dy[y] * s->x[x];
}

void ref_conv_backward(const ref_conv *c, const double *x, const double *w, const double *dy, double *dx, double *dw)
{
    ref_sums s = {x, w, dy, NULL, NULL, dx, dw};
    visit_all(c, add_backward, &s);
}

void ref_conv_pixels(int height, int width, int channels, int planes, const float *from, double *to)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                to[(y * width + x) * channels + c] =
                    from[planes ? (c * height + y) * width + x : (y * width + x) * channels + c];
}
