/* SPDX-License-Identifier: MIT */
/*
 * Convolutions on CUDA, by cuDNN. Without cuDNN, or if it has no engine for the shape, creating a plan returns
 * GPUR_UNAVAILABLE, and the caller uses im2col.
 *
 * Under GPUR_MATH_BF16 cuDNN writes the gradient of the weights in bfloat16, behind its own workspace, and a kernel
 * converts it to float32.
 */
#include "device/cuda/cuda.h"

#include "base/numbers.h"
#include "gpureplay/math.h"

#include <inttypes.h>

typedef struct cuda_conv {
    gpur_conv base;
    gpur_cudadnn_plan *cudnn_plan;
    int64_t weights; /* numbers of dw that are converted; 0: none, it is the caller's array */
    int64_t offset;  /* of those in the workspace */
} cuda_conv;

static gpur_status plan(cuda_conv *c)
{
    const gpur_conv_shape *const s = &c->base.shape;
    GPUR_TRY(gpur_cuda_dnn_plan(c->base.device, s, &c->cudnn_plan));
    c->offset = gpur_round_up(gpur_cuda_dnn_workspace_bytes(c->base.device, c->cudnn_plan), 256);
    if (s->math == GPUR_MATH_BF16 && s->pass == GPUR_CONV_TO_WEIGHT)
        c->weights = s->filters * s->kernel * s->kernel * s->channels;
    return GPUR_OK;
}

/* On an H200, cuDNN 9.19 computed wrong gradients of the weights of 8 x 8 kernels that are 3 pixels apart, with 2 rows
 * of zeros before the image and 3 behind it. */
static gpur_status refuse_uneven_padding(const gpur_device *device, const gpur_conv_shape *s)
{
    if (s->pass == GPUR_CONV_FORWARD || (s->top == s->bottom && s->left == s->right))
        return GPUR_OK;
    gpur_cuda_log_once(device, "gradients of convolutions with uneven padding go by patches and matrix products");
    return gpur_fail(GPUR_UNAVAILABLE,
                     "cuDNN is not asked for gradients with uneven padding: there are %" PRId64 " rows of zeros before"
                     " the image and %" PRId64 " behind it, and %" PRId64 " and %" PRId64 " columns",
                     s->top, s->bottom, s->left, s->right);
}

gpur_status gpur_cuda_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **out)
{
    *out = NULL;
    GPUR_TRY(refuse_uneven_padding(device, shape));
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
    const cuda_conv *const c = (const cuda_conv *)base;
    return c->offset + c->weights * 2;
}

/* Computes all planned images whatever `images` is: a plan has one engine, and the arrays hold all images. */
gpur_status gpur_cuda_conv_run(gpur_conv *base, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                               void *workspace)
{
    const cuda_conv *const c = (const cuda_conv *)base;
    const int64_t bytes = gpur_cuda_conv_workspace_bytes(base);
    uint16_t *const narrow = (uint16_t *)(void *)((char *)workspace + c->offset);
    const gpur_cudadnn_arrays used = {arrays->x, c->weights ? narrow : arrays->w, arrays->y,
                                      (void *)(uintptr_t)arrays->bias, workspace};
    const gpur_widen_bf16_args widen = {.from = narrow, .to = (float *)arrays->w, .count = c->weights};
    (void)images;
    GPUR_REQUIRE((workspace && (uintptr_t)workspace % 256 == 0) || bytes == 0,
                 "the workspace of a convolution is %p; wanted %" PRId64 " bytes, aligned to 256", workspace, bytes);
    GPUR_TRY(gpur_cuda_dnn_run(base->device, stream, c->cudnn_plan, &used));
    return c->weights ? gpur_launch_widen_bf16(stream, gpur_grid_elements(base->device, c->weights), &widen) : GPUR_OK;
}

const char *gpur_cuda_conv_library(gpur_device *device)
{
    return gpur_cuda_of(device)->dnn.name;
}
