/* SPDX-License-Identifier: MIT */
#include "reference/reference_conv.h"

#include <math.h>
#include <string.h>

/* Returns the size of y along one axis. SAME padding is kernel - stride in all, or kernel - size % stride if the stride
 * does not divide the size. */
static int size_of(const ref_conv *c, int size, int *before, int *after)
{
    const int rest = size % c->stride, total = c->kernel - (rest ? rest : c->stride);
    int count = 0;
    *before = c->padding >= 0 ? c->padding : total > 0 ? total / 2 : 0;
    *after = c->padding >= 0 ? c->padding : total > 0 ? total - *before : 0;
    for (int first = -*before; first + c->kernel <= size + *after; first += c->stride)
        count++;
    return count;
}

void ref_conv_size(ref_conv *c)
{
    c->rows = size_of(c, c->height, &c->top, &c->bottom);
    c->columns = size_of(c, c->width, &c->left, &c->right);
}

/* The arrays of a convolution. Those that are NULL are neither read nor written. */
typedef struct ref_sums {
    const double *x, *w, *dy;
    double *y, *size, *dx, *dw;
} ref_sums;

/* Adds every product of filter f at output pixel (i, j), at index `at` of y, to each sum that it belongs to. */
static void add_products(const ref_conv *c, int i, int j, int f, int at, const ref_sums *s)
{
    for (int u = 0; u < c->kernel; u++)
        for (int v = 0; v < c->kernel; v++) {
            const int row = i * c->stride - c->top + u, column = j * c->stride - c->left + v;
            if (row < 0 || row >= c->height || column < 0 || column >= c->width)
                continue;
            for (int k = 0; k < c->channels; k++) {
                const int w = ((f * c->kernel + u) * c->kernel + v) * c->channels + k;
                const int x = (row * c->width + column) * c->channels + k;
                if (s->y)
                    s->y[at] += s->x[x] * s->w[w];
                if (s->size)
                    s->size[at] += fabs(s->x[x] * s->w[w]);
                if (s->dx)
                    s->dx[x] += s->dy[at] * s->w[w];
                if (s->dw)
                    s->dw[w] += s->dy[at] * s->x[x];
            }
        }
}

static void add_all(const ref_conv *c, const ref_sums *s)
{
    int at = 0;
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->columns; j++)
            for (int f = 0; f < c->filters; f++)
                add_products(c, i, j, f, at++, s);
}

void ref_conv_forward(const ref_conv *c, const double *x, const double *w, double *y, double *size)
{
    const size_t bytes = (size_t)(c->rows * c->columns * c->filters) * sizeof *y;
    memset(y, 0, bytes);
    if (size)
        memset(size, 0, bytes);
    add_all(c, &(ref_sums){.x = x, .w = w, .y = y, .size = size});
}

void ref_conv_backward(const ref_conv *c, const double *x, const double *w, const double *dy, double *dx, double *dw)
{
    add_all(c, &(ref_sums){.x = x, .w = w, .dy = dy, .dx = dx, .dw = dw});
}

void ref_conv_pixels(int height, int width, int channels, int planes, const float *from, double *to)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                to[(y * width + x) * channels + c] =
                    from[planes ? (c * height + y) * width + x : (y * width + x) * channels + c];
}
