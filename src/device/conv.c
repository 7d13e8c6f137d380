/* SPDX-License-Identifier: MIT */
/* Convolutions: checks arguments, and chooses between the device's library and im2col. */
#include "device/conv.h"

#include "device/backend.h"
#include "gpureplay/math.h"

#include <inttypes.h>

static gpur_status check_choices(const gpur_conv_shape *s)
{
    GPUR_REQUIRE(s->pass >= GPUR_CONV_FORWARD && s->pass <= GPUR_CONV_TO_WEIGHT,
                 "the pass of a convolution is %d; it must be 0 to %d", (int)s->pass, GPUR_CONV_TO_WEIGHT);
    GPUR_REQUIRE(s->epilogue >= GPUR_EPILOGUE_NONE &&
                     s->epilogue <= (s->pass == GPUR_CONV_FORWARD ? GPUR_EPILOGUE_BIAS_RELU : GPUR_EPILOGUE_NONE),
                 "the epilogue of a convolution is %d; forward it must be 0 to %d, backward 0", (int)s->epilogue,
                 GPUR_EPILOGUE_BIAS_RELU);
    GPUR_REQUIRE(s->math >= GPUR_MATH_FP32 && s->math <= GPUR_MATH_BF16,
                 "math of a convolution is %d; it must be 0 to %d", (int)s->math, GPUR_MATH_BF16);
    GPUR_REQUIRE(s->math != GPUR_MATH_BF16 || (s->channels % 8 == 0 && s->filters % 8 == 0),
                 "a convolution in bfloat16 of %" PRId64 " channels by %" PRId64
                 " filters; both must be multiples of 8",
                 s->channels, s->filters);
    return GPUR_OK;
}

static gpur_status check_shape(const gpur_conv_shape *s)
{
    const int64_t padding[4] = {s->top, s->left, s->bottom, s->right};
    GPUR_TRY(check_choices(s));
    GPUR_REQUIRE(s->images >= 1 && s->height >= 1 && s->width >= 1 && s->channels >= 1 && s->filters >= 1,
                 "a convolution of %" PRId64 " images of (%" PRId64 ", %" PRId64 ", %" PRId64 ") by %" PRId64
                 " filters; each must be 1 or more",
                 s->images, s->height, s->width, s->channels, s->filters);
    for (int i = 0; i < 4; i++)
        GPUR_REQUIRE(s->kernel >= 1 && s->stride >= 1 && padding[i] >= 0 && padding[i] < s->kernel,
                     "a convolution of kernel %" PRId64 ", stride %" PRId64 ", padding %" PRId64
                     "; kernel and stride must be 1 or more, padding 0 to kernel - 1",
                     s->kernel, s->stride, padding[i]);
    const int64_t height = s->height + s->top + s->bottom, width = s->width + s->left + s->right;
    GPUR_REQUIRE(height >= s->kernel && width >= s->kernel,
                 "a kernel of %" PRId64 " on an image that with its padding has %" PRId64 " x %" PRId64
                 " pixels; it must not be larger",
                 s->kernel, height, width);
    return GPUR_OK;
}

/* Plans of the backend also begin with a gpur_conv; their `im2col` is NULL. */
static gpur_status create_by_im2col(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **out)
{
    gpur_conv *const conv = (gpur_conv *)gpur_host_alloc(device, sizeof *conv);
    if (!conv)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a convolution's plan of %zu bytes", sizeof *conv);
    conv->device = device;
    conv->shape = *shape;
    const gpur_status status = gpur_im2col_conv_create(device, shape, &conv->im2col);
    if (status != GPUR_OK) {
        gpur_host_free(device, conv, sizeof *conv);
        return status;
    }
    *out = conv;
    return GPUR_OK;
}

/* The library's convolution followed by an epilogue kernel is faster than im2col with a fused epilogue. So this asks
 * whether the library has the convolution without its epilogue. GPUR_UNAVAILABLE: it has not, or the epilogue kernel
 * would round the result of bfloat16 a second time. */
static gpur_status find_plan_without_epilogue(gpur_device *device, const gpur_conv_shape *shape)
{
    gpur_conv_shape bare = *shape;
    gpur_conv *conv = NULL;
    bare.epilogue = GPUR_EPILOGUE_NONE;
    if (shape->epilogue == GPUR_EPILOGUE_NONE || shape->math == GPUR_MATH_BF16)
        return GPUR_UNAVAILABLE;
    GPUR_TRY(device->backend->conv_create(device, &bare, &conv));
    device->backend->conv_destroy(conv);
    return GPUR_OK;
}

gpur_status gpur_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **conv)
{
    *conv = NULL;
    GPUR_TRY(check_shape(shape));
    if (shape->by_im2col)
        return create_by_im2col(device, shape, conv);
    if (!device->backend->conv_create) /* a CPU without oneDNN */
        return create_by_im2col(device, shape, conv);
    const gpur_status status = device->backend->conv_create(device, shape, conv);
    if (status != GPUR_UNAVAILABLE)
        return status;
    const gpur_status bare = find_plan_without_epilogue(device, shape);
    if (bare == GPUR_UNAVAILABLE)
        return create_by_im2col(device, shape, conv);
    return bare == GPUR_OK ? status : bare;
}

void gpur_conv_destroy(gpur_conv *conv)
{
    if (!conv)
        return;
    if (!conv->im2col) {
        conv->device->backend->conv_destroy(conv);
        return;
    }
    gpur_im2col_conv_destroy(conv->im2col);
    gpur_host_free(conv->device, conv, sizeof *conv);
}

int64_t gpur_conv_workspace_bytes(const gpur_conv *conv)
{
    return conv->im2col ? gpur_im2col_conv_workspace_bytes(conv->im2col)
                        : conv->device->backend->conv_workspace_bytes(conv);
}

gpur_status gpur_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                          void *workspace)
{
    const gpur_conv_shape *const s = &conv->shape;
    GPUR_REQUIRE(images >= 1 && images <= s->images,
                 "%" PRId64 " images of a convolution planned for %" PRId64 "; it must be 1 to that", images,
                 s->images);
    GPUR_REQUIRE(images == s->images || s->pass == GPUR_CONV_FORWARD,
                 "%" PRId64 " of %" PRId64 " images of a convolution's gradient; it must be all of them", images,
                 s->images);
    GPUR_REQUIRE(arrays->x && arrays->w && arrays->y, "array %s of a convolution is NULL",
                 !arrays->x   ? "x"
                 : !arrays->w ? "w"
                              : "y");
    GPUR_REQUIRE(arrays->bias || s->epilogue == GPUR_EPILOGUE_NONE, "the bias of a convolution with one is NULL");
    if (conv->im2col)
        return gpur_im2col_conv_run(conv->im2col, stream, images, arrays, workspace);
    return conv->device->backend->conv_run(conv, stream, images, arrays, workspace);
}

const char *gpur_conv_method(const gpur_conv *conv)
{
    return conv->im2col ? "patches" : conv->device->backend->conv_library(conv->device);
}
