/* SPDX-License-Identifier: MIT */
/*
 * Convolutions on CUDA, by cuDNN. Without cuDNN, or if it has no engine for the shape, creating a plan returns
 * GPUR_UNAVAILABLE, and the caller uses im2col.
 *
 * Under GPUR_MATH_BF16 the caller's arrays stay float32 (x may be bfloat16 already), and their copies rounded to
 * bfloat16 lie in the workspace: after cuDNN's own workspace come those of x, w and y.
 */
#include "device/cuda/cuda.h"

#include "base/numbers.h"
#include "gpureplay/math.h"

#include <inttypes.h>

enum { X, W, Y, ARRAYS };

typedef struct cuda_conv {
    gpur_conv base;
    gpur_cudadnn_plan *cudnn_plan;
    int64_t counts[ARRAYS];  /* elements of each array */
    int64_t offsets[ARRAYS]; /* offset of its bfloat16 copy in the workspace; -1: the caller's array is used */
    int64_t bytes;           /* size of the workspace */
} cuda_conv;

static void count_numbers(cuda_conv *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    c->counts[X] = s->images * s->height * s->width * s->channels;
    c->counts[W] = s->filters * s->kernel * s->kernel * s->channels;
    c->counts[Y] = s->images * gpur_conv_out(s->height, s->kernel, s->stride, s->padding) *
                   gpur_conv_out(s->width, s->kernel, s->stride, s->padding) * s->filters;
}

static void assign_workspace(cuda_conv *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    count_numbers(c);
    c->bytes = gpur_round_up(gpur_cuda_dnn_workspace_bytes(c->base.device, c->cudnn_plan), 256);
    for (int i = 0; i < ARRAYS; i++) {
        const int copied = s->math == GPUR_MATH_BF16 && !(i == X && s->x_bf16);
        c->offsets[i] = copied ? c->bytes : -1;
        c->bytes += copied ? gpur_round_up(c->counts[i] * 2, 256) : 0;
    }
}

static gpur_status plan(cuda_conv *c)
{
    gpur_conv_shape shape = c->base.shape;
    if (shape.math == GPUR_MATH_BF16)
        shape.epilogue = GPUR_EPILOGUE_NONE; /* widen_array applies it */
    GPUR_TRY(gpur_cuda_dnn_plan(c->base.device, &shape, &c->cudnn_plan));
    assign_workspace(c);
    return GPUR_OK;
}

gpur_status gpur_cuda_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **out)
{
    *out = NULL;
    if (shape->x_bf16 && shape->math != GPUR_MATH_BF16) {
        gpur_cuda_log_once(device, "a convolution of a bfloat16 input in another arithmetic goes by patches");
        return gpur_fail(GPUR_UNAVAILABLE, "the input of this convolution is bfloat16, and its arithmetic is not");
    }
    cuda_conv *const c = (cuda_conv *)gpur_host_alloc(device, sizeof *c);
    if (!c)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *c);
    c->base.device = device;
    c->base.shape = *shape;
    const gpur_status status = plan(c);
    if (status != GPUR_OK) {
        gpur_cuda_conv_destroy(&c->base);
        return status;
    }
    *out = &c->base;
    return GPUR_OK;
}

void gpur_cuda_conv_destroy(gpur_conv *base)
{
    cuda_conv *const c = (cuda_conv *)base;
    gpur_device *const device = base->device;
    gpur_cuda_dnn_plan_release(device, c->cudnn_plan);
    gpur_host_free(device, c, sizeof *c);
}

int64_t gpur_cuda_conv_workspace_bytes(const gpur_conv *base)
{
    return ((const cuda_conv *)base)->bytes;
}

/* Returns the address of array `i` for cuDNN: the caller's, `given`, or its copy in the workspace. */
static void *address_of(const cuda_conv *c, int i, void *given, void *workspace)
{
    return c->offsets[i] < 0 ? given : (char *)workspace + c->offsets[i];
}

static gpur_status round_array(const cuda_conv *c, gpur_stream *stream, int i, const void *from, void *workspace)
{
    gpur_round_bf16_args args;
    args.from = (const float *)from;
    args.to = (uint16_t *)address_of(c, i, NULL, workspace);
    args.count = c->counts[i];
    return c->offsets[i] < 0 ? GPUR_OK
                             : gpur_launch_round_bf16(stream, gpur_grid_elements(c->base.device, args.count), &args);
}

/* Converts the result to float32, and applies the epilogue if there is one. */
static gpur_status widen_array(const cuda_conv *c, gpur_stream *stream, int i, const gpur_conv_arrays *arrays,
                               void *workspace)
{
    void *const given[ARRAYS] = {arrays->x, arrays->w, arrays->y};
    gpur_widen_bf16_args args;
    args.from = (const uint16_t *)address_of(c, i, NULL, workspace);
    args.to = (float *)given[i];
    args.bias = c->base.shape.epilogue == GPUR_EPILOGUE_NONE ? NULL : arrays->bias;
    args.count = c->counts[i];
    args.features = c->base.shape.filters;
    args.activation = c->base.shape.epilogue == GPUR_EPILOGUE_BIAS_RELU ? GPUR_ACTIVATION_RELU : GPUR_ACTIVATION_LINEAR;
    return c->offsets[i] < 0 ? GPUR_OK
                             : gpur_launch_widen_bf16(stream, gpur_grid_elements(c->base.device, args.count), &args);
}

/* Computes all planned images whatever `images` is: a plan has one engine, and the arrays hold all images. */
gpur_status gpur_cuda_conv_run(gpur_conv *base, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                               void *workspace)
{
    const cuda_conv *const c = (const cuda_conv *)base;
    void *const given[ARRAYS] = {arrays->x, arrays->w, arrays->y};
    const int made = base->shape.pass == GPUR_CONV_FORWARD ? Y : base->shape.pass == GPUR_CONV_TO_INPUT ? X : W;
    const gpur_cudadnn_arrays used = {address_of(c, X, arrays->x, workspace), address_of(c, W, arrays->w, workspace),
                                      address_of(c, Y, arrays->y, workspace), (void *)(uintptr_t)arrays->bias,
                                      workspace};
    (void)images;
    GPUR_REQUIRE((workspace && (uintptr_t)workspace % 256 == 0) || c->bytes == 0,
                 "the workspace of a convolution is %p; wanted %" PRId64 " bytes, aligned to 256", workspace, c->bytes);
    for (int i = 0; i < ARRAYS; i++)
        if (i != made)
            GPUR_TRY(round_array(c, stream, i, given[i], workspace));
    GPUR_TRY(gpur_cuda_dnn_run(base->device, stream, c->cudnn_plan, &used));
    return widen_array(c, stream, made, arrays, workspace);
}

const char *gpur_cuda_conv_library(gpur_device *device)
{
    return gpur_cuda_of(device)->dnn.name;
}
