/* SPDX-License-Identifier: MIT */
#include "support/conv_problem.h"

#include "support/learner_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gpur_conv_shape conv_shape_of(int pass, int64_t images, int64_t height, int64_t width, const int numbers[5])
{
    gpur_conv_shape s;
    memset(&s, 0, sizeof s);
    s.pass = pass;
    s.images = images, s.height = height, s.width = width;
    s.channels = numbers[0], s.filters = numbers[1], s.kernel = numbers[2], s.stride = numbers[3];
    s.padding = numbers[4];
    return s;
}

/* Cut to 8 bits of mantissa, which bfloat16 holds exactly. */
static void round_x(conv_problem *p)
{
    for (int64_t i = 0; i < p->x_count; i++) {
        uint32_t bits;
        memcpy(&bits, &p->x[i], sizeof bits);
        bits &= 0xffff0000u;
        memcpy(&p->x[i], &bits, sizeof bits);
        p->x_half[i] = (uint16_t)(bits >> 16);
    }
}

void conv_problem_open(conv_problem *p, const gpur_conv_shape *shape)
{
    const gpur_conv_shape s = *shape;
    const ref_conv one = {(int)s.height,
                          (int)s.width,
                          (int)s.channels,
                          (int)s.filters,
                          (int)s.kernel,
                          (int)s.stride,
                          (int)s.padding,
                          0,
                          0};
    memset(p, 0, sizeof *p);
    p->shape = s;
    p->one = one;
    ref_conv_size(&p->one);
    p->x_count = s.images * s.height * s.width * s.channels;
    p->w_count = s.filters * s.kernel * s.kernel * s.channels;
    p->y_count = s.images * p->one.rows * p->one.columns * s.filters;
    p->x = malloc((size_t)p->x_count * sizeof *p->x);
    p->w = malloc((size_t)p->w_count * sizeof *p->w);
    p->y = malloc((size_t)p->y_count * sizeof *p->y);
    p->bias = malloc((size_t)s.filters * sizeof *p->bias);
    p->x_half = malloc((size_t)p->x_count * sizeof *p->x_half);
    rig_random(1, p->x, p->x_count);
    rig_random(2, p->w, p->w_count);
    rig_random(3, p->y, p->y_count);
    rig_random(4, p->bias, s.filters);
    if (s.x_bf16)
        round_x(p);
}

void conv_problem_close(conv_problem *p)
{
    free(p->x), free(p->w), free(p->y), free(p->bias), free(p->x_half);
}

/* On the device, in one piece of memory. */
typedef struct placed {
    void *memory;
    gpur_conv_arrays arrays;
    float *bias;
    void *workspace;
} placed;

static void place(placed *d, const conv_problem *p, int64_t workspace, gpur_arena *arena)
{
    d->arrays.x = gpur_arena_floats(arena, p->x_count);
    d->arrays.w = gpur_arena_floats(arena, p->w_count);
    d->arrays.y = gpur_arena_floats(arena, p->y_count);
    d->bias = gpur_arena_floats(arena, p->shape.filters);
    d->arrays.bias = p->shape.epilogue ? d->bias : NULL;
    d->workspace = gpur_arena_take(arena, workspace);
}

static gpur_status bring(const conv_problem *p, gpur_device *device, const placed *d)
{
    const void *const x = p->shape.x_bf16 ? (const void *)p->x_half : p->x;
    GPUR_TRY(gpur_device_copy(device, d->arrays.x, x, p->x_count * (p->shape.x_bf16 ? 2 : 4)));
    GPUR_TRY(gpur_device_copy(device, d->arrays.w, p->w, p->w_count * 4));
    GPUR_TRY(gpur_device_copy(device, d->arrays.y, p->y, p->y_count * 4));
    return gpur_device_copy(device, d->bias, p->bias, p->shape.filters * 4);
}

static gpur_status fetch(conv_problem *p, gpur_device *device, const placed *d)
{
    if (p->shape.pass == GPUR_CONV_FORWARD)
        return gpur_device_copy(device, p->y, d->arrays.y, p->y_count * 4);
    if (p->shape.pass == GPUR_CONV_TO_INPUT)
        return gpur_device_copy(device, p->x, d->arrays.x, p->x_count * 4);
    return gpur_device_copy(device, p->w, d->arrays.w, p->w_count * 4);
}

/* The plan goes before the work is waited for, as a plan may. */
static gpur_status run(conv_problem *p, gpur_device *device, gpur_conv *conv, int64_t images)
{
    gpur_arena arena = {NULL, 0};
    gpur_stream *stream = NULL;
    placed d;
    place(&d, p, gpur_conv_workspace_bytes(conv), &arena);
    gpur_status status = gpur_device_alloc(device, arena.used, &d.memory);
    arena.base = d.memory, arena.used = 0;
    place(&d, p, gpur_conv_workspace_bytes(conv), &arena);
    if (status == GPUR_OK)
        status = bring(p, device, &d);
    if (status == GPUR_OK)
        status = gpur_stream_create(device, &stream);
    if (status == GPUR_OK)
        status = gpur_conv_run(conv, stream, images, &d.arrays, d.workspace);
    gpur_conv_destroy(conv);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = fetch(p, device, &d);
    gpur_stream_destroy(stream);
    gpur_device_free(device, d.memory);
    return status;
}

gpur_status conv_problem_run(conv_problem *p, gpur_device *device, int64_t images, const char **way)
{
    gpur_conv *conv = NULL;
    GPUR_TRY(gpur_conv_create(device, &p->shape, &conv));
    *way = gpur_conv_way(conv);
    return run(p, device, conv, images);
}

int64_t conv_problem_count(const conv_problem *p)
{
    return p->shape.pass == GPUR_CONV_FORWARD    ? p->y_count
           : p->shape.pass == GPUR_CONV_TO_INPUT ? p->x_count
                                                 : p->w_count;
}

const float *conv_problem_result(const conv_problem *p)
{
    return p->shape.pass == GPUR_CONV_FORWARD ? p->y : p->shape.pass == GPUR_CONV_TO_INPUT ? p->x : p->w;
}

static double *widen(const float *x, int64_t count, int magnitudes)
{
    double *const wide = malloc((size_t)count * sizeof *wide);
    for (int64_t i = 0; i < count; i++)
        wide[i] = magnitudes ? fabs((double)x[i]) : x[i];
    return wide;
}

/* All images with these x, w and dy: their sums if they are of magnitudes. */
static double *expected(const conv_problem *p, int magnitudes)
{
    double *const x = widen(p->x, p->x_count, magnitudes), *const w = widen(p->w, p->w_count, magnitudes);
    double *const dy = widen(p->y, p->y_count, magnitudes);
    double *const made = calloc((size_t)conv_problem_count(p), sizeof *made);
    const int64_t x_step = p->x_count / p->shape.images, y_step = p->y_count / p->shape.images;
    for (int64_t n = 0; n < p->shape.images; n++) {
        double *const xn = x + n * x_step, *const dyn = dy + n * y_step;
        if (p->shape.pass == GPUR_CONV_FORWARD)
            ref_conv_forward(&p->one, xn, w, made + n * y_step, NULL);
        else if (p->shape.pass == GPUR_CONV_TO_INPUT)
            ref_conv_backward(&p->one, xn, w, dyn, made + n * x_step, NULL);
        else
            ref_conv_backward(&p->one, xn, w, dyn, NULL, made);
    }
    free(x), free(w), free(dy);
    return made;
}

static void apply_epilogue(const conv_problem *p, double *y)
{
    for (int64_t i = 0; i < p->y_count; i++) {
        y[i] += p->bias[i % p->shape.filters];
        if (p->shape.epilogue == GPUR_EPILOGUE_BIAS_RELU && y[i] < 0)
            y[i] = 0;
    }
}

double *conv_problem_expected(const conv_problem *p, double **size)
{
    double *const made = expected(p, 0);
    *size = expected(p, 1);
    if (p->shape.epilogue != GPUR_EPILOGUE_NONE)
        apply_epilogue(p, made);
    return made;
}
