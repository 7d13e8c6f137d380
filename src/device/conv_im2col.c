/* SPDX-License-Identifier: MIT */
/*
 * Runs a convolution as im2col and GEMM. With P = N H' W' kernel positions and columns = im2col(x), a (P, K K C)
 * matrix:
 *   forward    y (P, F) = columns w^T
 *   to weight  dw (F, K K C) = dy^T columns
 *   to input   dcolumns (P, K K C) = dy w, and dx = col2im(dcolumns): each pixel is the sum of its copies' gradients
 *
 * Under GPUR_MATH_BF16 the product of the forward pass is float32 first, in the workspace, and is rounded after the
 * epilogue; the gradient of the columns stays float32.
 *
 * The columns take many times the memory of the images, so they are made for a chunk of images at a time. The size of a
 * chunk divides N, because a GEMM on CUDA always computes all the rows it was planned for.
 */
#include "device/backend.h"

#include "base/numbers.h"
#include "gpureplay/math.h"

#include <string.h>

struct gpur_im2col_conv {
    gpur_device *device;
    gpur_conv_shape shape;
    gpur_conv_geometry geometry; /* geometry of one chunk of images */
    gpur_gemm *gemm;             /* for the first chunk; for all chunks if the pass does not sum over images */
    gpur_gemm *accumulating;     /* to weight: adds the gradient of a further chunk */
};

static int64_t positions(const gpur_im2col_conv *c)
{
    return c->geometry.images * c->geometry.out_height * c->geometry.out_width;
}

static int64_t column_width(const gpur_conv_shape *s)
{
    return s->kernel * s->kernel * s->channels;
}

static int is_bf16(const gpur_im2col_conv *c)
{
    return c->shape.math == GPUR_MATH_BF16;
}

static int64_t column_bytes(const gpur_im2col_conv *c)
{
    const int is_narrow = is_bf16(c) && c->shape.pass != GPUR_CONV_TO_INPUT;
    return positions(c) * column_width(&c->shape) * (is_narrow ? 2 : 4);
}

/* The result of the product, before it is rounded. */
static int64_t unrounded_bytes(const gpur_im2col_conv *c)
{
    const int is_rounded = is_bf16(c) && c->shape.pass == GPUR_CONV_FORWARD;
    return is_rounded ? positions(c) * c->shape.filters * (int64_t)sizeof(float) : 0;
}

/* Chooses the largest divisor of N whose columns stay within the limit. */
static void choose_images(gpur_im2col_conv *c)
{
    const int64_t limit = gpur_device_get_traits(c->device)->im2col_bytes;
    c->geometry.images = 1;
    const int64_t one = column_bytes(c);
    for (int64_t n = c->shape.images; n > 1; n--)
        if (c->shape.images % n == 0 && n * one <= limit) {
            c->geometry.images = n;
            return;
        }
}

static void describe(gpur_im2col_conv *c)
{
    const gpur_conv_shape *const s = &c->shape;
    gpur_conv_geometry *const p = &c->geometry;
    p->height = s->height, p->width = s->width, p->channels = s->channels;
    p->kernel = s->kernel, p->stride = s->stride, p->top = s->top, p->left = s->left;
    p->out_height = gpur_conv_out_height(s);
    p->out_width = gpur_conv_out_width(s);
    choose_images(c);
}

static gpur_gemm_shape product_shape(const gpur_im2col_conv *c)
{
    const gpur_conv_shape *const s = &c->shape;
    const int64_t width = column_width(s), rows = positions(c);
    gpur_gemm_shape g;
    memset(&g, 0, sizeof g);
    g.math = s->math;
    g.bf16 = is_bf16(c);
    g.epilogue = g.bf16 ? GPUR_EPILOGUE_NONE : s->epilogue;
    g.m = s->pass == GPUR_CONV_TO_WEIGHT ? s->filters : rows;
    g.n = s->pass == GPUR_CONV_FORWARD ? s->filters : width;
    g.k = s->pass == GPUR_CONV_FORWARD ? width : s->pass == GPUR_CONV_TO_INPUT ? s->filters : rows;
    g.lda = s->pass == GPUR_CONV_FORWARD ? width : s->filters;
    g.ldb = width;
    g.ldc = g.n;
    g.transpose_a = s->pass == GPUR_CONV_TO_WEIGHT;
    g.transpose_b = s->pass == GPUR_CONV_FORWARD;
    return g;
}

static gpur_status open_products(gpur_im2col_conv *c)
{
    gpur_gemm_shape g = product_shape(c);
    GPUR_TRY(gpur_gemm_create(c->device, &g, &c->gemm));
    g.accumulate = 1;
    if (c->shape.pass == GPUR_CONV_TO_WEIGHT && c->geometry.images < c->shape.images)
        GPUR_TRY(gpur_gemm_create(c->device, &g, &c->accumulating));
    return GPUR_OK;
}

gpur_status gpur_im2col_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_im2col_conv **out)
{
    *out = NULL;
    gpur_im2col_conv *const c = (gpur_im2col_conv *)gpur_host_alloc(device, sizeof *c);
    if (!c)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a convolution's plan of %zu bytes", sizeof *c);
    c->device = device;
    c->shape = *shape;
    describe(c);
    const gpur_status status = open_products(c);
    if (status != GPUR_OK) {
        gpur_im2col_conv_destroy(c);
        return status;
    }
    *out = c;
    return GPUR_OK;
}

void gpur_im2col_conv_destroy(gpur_im2col_conv *c)
{
    if (!c)
        return;
    gpur_gemm_destroy(c->gemm);
    gpur_gemm_destroy(c->accumulating);
    gpur_host_free(c->device, c, sizeof *c);
}

int64_t gpur_im2col_conv_workspace_bytes(const gpur_im2col_conv *c)
{
    const int64_t first = gpur_gemm_workspace_bytes(c->gemm);
    const int64_t more = c->accumulating ? gpur_gemm_workspace_bytes(c->accumulating) : 0;
    return gpur_round_up(column_bytes(c), 256) + gpur_round_up(unrounded_bytes(c), 256) + (first > more ? first : more);
}

/* One chunk of `images` images, from `first` on. */
typedef struct image_chunk {
    gpur_stream *stream;
    const gpur_conv_arrays *arrays;
    void *workspace; /* the columns, the product before it is rounded, the GEMMs' workspace */
    int64_t first, images;
} image_chunk;

static char *image_at(const gpur_im2col_conv *c, const image_chunk *t)
{
    const int64_t first = t->first * c->shape.height * c->shape.width * c->shape.channels;
    return (char *)t->arrays->x + first * (is_bf16(c) ? 2 : 4);
}

static void *result_at(const gpur_im2col_conv *c, const image_chunk *t)
{
    const int64_t first = t->first * c->geometry.out_height * c->geometry.out_width * c->shape.filters;
    return (char *)t->arrays->y + first * (is_bf16(c) ? 2 : 4);
}

static gpur_status im2col(const gpur_im2col_conv *c, const image_chunk *t)
{
    gpur_im2col_args args;
    args.geometry = c->geometry;
    args.geometry.images = t->images;
    args.x = image_at(c, t);
    args.columns = t->workspace;
    args.bf16 = is_bf16(c);
    const int64_t count = t->images * c->geometry.out_height * c->geometry.out_width * column_width(&c->shape);
    return gpur_launch_im2col(t->stream, gpur_grid_elements(c->device, count), &args);
}

static gpur_status col2im(const gpur_im2col_conv *c, const image_chunk *t)
{
    gpur_col2im_args args;
    args.geometry = c->geometry;
    args.columns = (const float *)t->workspace;
    args.x = image_at(c, t);
    args.bf16 = is_bf16(c);
    const int64_t count = c->geometry.images * c->shape.height * c->shape.width * c->shape.channels;
    return gpur_launch_col2im(t->stream, gpur_grid_elements(c->device, count), &args);
}

/* Rounds the product of a chunk, with the epilogue if there is one. */
static gpur_status round_result(const gpur_im2col_conv *c, const image_chunk *t, const float *product)
{
    gpur_round_bf16_args args;
    args.from = product;
    args.to = (uint16_t *)result_at(c, t);
    args.bias = c->shape.epilogue == GPUR_EPILOGUE_NONE ? NULL : (const uint16_t *)t->arrays->bias;
    args.count = t->images * c->geometry.out_height * c->geometry.out_width * c->shape.filters;
    args.features = c->shape.filters;
    args.activation = c->shape.epilogue == GPUR_EPILOGUE_BIAS_RELU ? GPUR_RELU : GPUR_LINEAR;
    return gpur_launch_round_bf16(t->stream, gpur_grid_elements(c->device, args.count), &args);
}

static gpur_status run_forward(const gpur_im2col_conv *c, const image_chunk *t)
{
    char *const product = (char *)t->workspace + gpur_round_up(column_bytes(c), 256);
    void *const rest = product + gpur_round_up(unrounded_bytes(c), 256);
    float *const y = is_bf16(c) ? (float *)(void *)product : (float *)result_at(c, t);
    const int64_t rows = t->images * c->geometry.out_height * c->geometry.out_width;
    GPUR_TRY(im2col(c, t));
    GPUR_TRY(
        gpur_gemm_run(c->gemm, t->stream, rows, t->workspace, t->arrays->w, y, (const float *)t->arrays->bias, rest));
    return is_bf16(c) ? round_result(c, t, y) : GPUR_OK;
}

static gpur_status run_chunk(const gpur_im2col_conv *c, const image_chunk *t)
{
    void *const columns = t->workspace, *const y = result_at(c, t);
    void *const rest = (char *)t->workspace + gpur_round_up(column_bytes(c), 256);
    const gpur_conv_arrays *const a = t->arrays;
    const int64_t rows = t->images * c->geometry.out_height * c->geometry.out_width;
    if (c->shape.pass == GPUR_CONV_FORWARD)
        return run_forward(c, t);
    if (c->shape.pass == GPUR_CONV_TO_INPUT) {
        GPUR_TRY(gpur_gemm_run(c->gemm, t->stream, rows, y, a->w, (float *)columns, NULL, rest));
        return col2im(c, t);
    }
    GPUR_TRY(im2col(c, t));
    return gpur_gemm_run(t->first ? c->accumulating : c->gemm, t->stream, c->shape.filters, y, columns, (float *)a->w,
                         NULL, rest);
}

gpur_status gpur_im2col_conv_run(gpur_im2col_conv *c, gpur_stream *stream, int64_t images,
                                 const gpur_conv_arrays *arrays, void *workspace)
{
    image_chunk t = {stream, arrays, workspace, 0, 0};
    for (; t.first < images; t.first += c->geometry.images) {
        t.images = images - t.first < c->geometry.images ? images - t.first : c->geometry.images;
        GPUR_TRY(run_chunk(c, &t));
    }
    return GPUR_OK;
}
