/* SPDX-License-Identifier: MIT */
/*
 * Runs a convolution as im2col and GEMM. With P = N H' W' kernel positions and columns = im2col(x), a (P, K K C)
 * matrix:
 *   forward    y (P, F) = columns w^T
 *   to weight  dw (F, K K C) = dy^T columns
 *   to input   dcolumns (P, K K C) = dy w, and dx = col2im(dcolumns): each pixel is the sum of its copies' gradients
 *
 * The columns take many times the memory of the images, so they are made for a chunk of images at a time. The size of a
 * chunk divides N, because a GEMM on CUDA always computes all the rows it was planned for.
 */
#include "device/conv_im2col.h"

#include "device/backend.h"

#include <string.h>

struct gpur_patch_conv {
    gpur_device *device;
    gpur_conv_shape shape;
    gpur_patches patches; /* geometry of one chunk of images */
    gpur_gemm *product;   /* for the first chunk; for all chunks if the pass does not sum over images */
    gpur_gemm *more;      /* to weight: adds the gradient of a further chunk */
};

static int64_t places(const gpur_patch_conv *c)
{
    return c->patches.images * c->patches.out_height * c->patches.out_width;
}

static int64_t patch_width(const gpur_conv_shape *s)
{
    return s->kernel * s->kernel * s->channels;
}

static int64_t patch_bytes(const gpur_patch_conv *c)
{
    return places(c) * patch_width(&c->shape) * (int64_t)sizeof(float);
}

/* Chooses the largest divisor of N whose columns stay within the limit. */
static void choose_images(gpur_patch_conv *c)
{
    const int64_t limit = gpur_device_get_traits(c->device)->im2col_bytes;
    c->patches.images = 1;
    const int64_t one = patch_bytes(c);
    for (int64_t n = c->shape.images; n > 1; n--)
        if (c->shape.images % n == 0 && n * one <= limit) {
            c->patches.images = n;
            return;
        }
}

static void describe(gpur_patch_conv *c)
{
    const gpur_conv_shape *const s = &c->shape;
    gpur_patches *const p = &c->patches;
    p->height = s->height, p->width = s->width, p->channels = s->channels;
    p->kernel = s->kernel, p->stride = s->stride, p->padding = s->padding;
    p->out_height = gpur_conv_out(s->height, s->kernel, s->stride, s->padding);
    p->out_width = gpur_conv_out(s->width, s->kernel, s->stride, s->padding);
    choose_images(c);
}

static gpur_gemm_shape product_shape(const gpur_patch_conv *c)
{
    const gpur_conv_shape *const s = &c->shape;
    const int64_t width = patch_width(s), rows = places(c);
    gpur_gemm_shape g;
    memset(&g, 0, sizeof g);
    g.math = s->math;
    g.epilogue = s->epilogue;
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

static gpur_status open_products(gpur_patch_conv *c)
{
    gpur_gemm_shape g = product_shape(c);
    GPUR_TRY(gpur_gemm_create(c->device, &g, &c->product));
    g.accumulate = 1;
    if (c->shape.pass == GPUR_CONV_TO_WEIGHT && c->patches.images < c->shape.images)
        GPUR_TRY(gpur_gemm_create(c->device, &g, &c->more));
    return GPUR_OK;
}

gpur_status gpur_patch_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_patch_conv **out)
{
    *out = NULL;
    gpur_patch_conv *const c = (gpur_patch_conv *)gpur_host_alloc(device, sizeof *c);
    if (!c)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a convolution's plan of %zu bytes", sizeof *c);
    c->device = device;
    c->shape = *shape;
    describe(c);
    const gpur_status status = open_products(c);
    if (status != GPUR_OK) {
        gpur_patch_conv_destroy(c);
        return status;
    }
    *out = c;
    return GPUR_OK;
}

void gpur_patch_conv_destroy(gpur_patch_conv *c)
{
    if (!c)
        return;
    gpur_gemm_destroy(c->product);
    gpur_gemm_destroy(c->more);
    gpur_host_free(c->device, c, sizeof *c);
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

int64_t gpur_patch_conv_workspace_bytes(const gpur_patch_conv *c)
{
    const int64_t first = gpur_gemm_workspace_bytes(c->product);
    const int64_t more = c->more ? gpur_gemm_workspace_bytes(c->more) : 0;
    return aligned(patch_bytes(c)) + (first > more ? first : more);
}

/* One chunk of `images` images, from `first` on. */
typedef struct turn {
    gpur_stream *stream;
    const gpur_conv_arrays *arrays;
    void *workspace; /* the columns, then the GEMMs' workspace */
    int64_t first, images;
} turn;

static char *image_at(const gpur_patch_conv *c, const turn *t)
{
    const int64_t bytes = c->shape.x_bf16 ? 2 : 4;
    return (char *)t->arrays->x + t->first * c->shape.height * c->shape.width * c->shape.channels * bytes;
}

static float *result_at(const gpur_patch_conv *c, const turn *t)
{
    return t->arrays->y + t->first * c->patches.out_height * c->patches.out_width * c->shape.filters;
}

static gpur_status unfold(const gpur_patch_conv *c, const turn *t)
{
    gpur_unfold_args args;
    args.at = c->patches;
    args.at.images = t->images;
    args.x = image_at(c, t);
    args.patch = (float *)t->workspace;
    args.bf16 = c->shape.x_bf16;
    const int64_t count = t->images * c->patches.out_height * c->patches.out_width * patch_width(&c->shape);
    return gpur_launch_unfold(t->stream, gpur_grid_elements(c->device, count), &args);
}

static gpur_status fold_back(const gpur_patch_conv *c, const turn *t)
{
    gpur_fold_back_args args;
    args.at = c->patches;
    args.patch = (const float *)t->workspace;
    args.x = (float *)(void *)image_at(c, t);
    const int64_t count = c->patches.images * c->shape.height * c->shape.width * c->shape.channels;
    return gpur_launch_fold_back(t->stream, gpur_grid_elements(c->device, count), &args);
}

static gpur_status run_turn(const gpur_patch_conv *c, const turn *t)
{
    float *const patches = (float *)t->workspace, *const y = result_at(c, t);
    void *const rest = (char *)t->workspace + aligned(patch_bytes(c));
    const gpur_conv_arrays *const a = t->arrays;
    const int64_t rows = t->images * c->patches.out_height * c->patches.out_width;
    if (c->shape.pass == GPUR_CONV_TO_INPUT) {
        GPUR_TRY(gpur_gemm_run(c->product, t->stream, rows, y, a->w, patches, NULL, rest));
        return fold_back(c, t);
    }
    GPUR_TRY(unfold(c, t));
    if (c->shape.pass == GPUR_CONV_FORWARD)
        return gpur_gemm_run(c->product, t->stream, rows, patches, a->w, y, a->bias, rest);
    return gpur_gemm_run(t->first ? c->more : c->product, t->stream, c->shape.filters, y, patches, a->w, NULL, rest);
}

gpur_status gpur_patch_conv_run(gpur_patch_conv *c, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                                void *workspace)
{
    turn t = {stream, arrays, workspace, 0, 0};
    for (; t.first < images; t.first += c->patches.images) {
        t.images = images - t.first < c->patches.images ? images - t.first : c->patches.images;
        GPUR_TRY(run_turn(c, &t));
    }
    return GPUR_OK;
}
