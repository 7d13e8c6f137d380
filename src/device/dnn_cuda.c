/* SPDX-License-Identifier: MIT */
/* cuDNN of a device: one handle, loaded when the first plan is made, and for one thread at a time. */
#include "device/device_cuda.h"

static const gpur_cudadnn *table_of(const gpur_device *device)
{
    return (const gpur_cudadnn *)gpur_cuda_of(device)->dnn.table;
}

/* To whoever asks for a convolution, or else for a product: how it goes instead. */
static gpur_status refuse(const gpur_conv_shape *conv)
{
    return gpur_fail(GPUR_UNAVAILABLE, "cuDNN cannot be used; %s",
                     conv ? "convolutions go by patches and matrix products" : "matrix products go by cuBLASLt alone");
}

/* With the mutex held and the device current. Not found once is not found for good, and said once, so that this word is
 * for both that may be asked for. */
static gpur_status open_once(gpur_device *device, const gpur_conv_shape *conv)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    if (cuda->dnn_missing)
        return refuse(conv);
    const gpur_status status = gpur_dnn_library_open(&cuda->dnn);
    if (status == GPUR_OK)
        return GPUR_OK;
    cuda->dnn_missing = 1;
    gpur_log(device, "convolutions go by patches, and all matrix products by cuBLASLt: %s", gpur_last_error());
    return status == GPUR_OUT_OF_MEMORY ? status : refuse(conv);
}

static gpur_status make_plan(gpur_device *device, const gpur_conv_shape *conv, const gpur_gemm_shape *product,
                             gpur_cudadnn_plan **out)
{
    GPUR_TRY(open_once(device, conv));
    const gpur_cudadnn *const table = table_of(device);
    GPUR_TRY(conv ? table->plan_conv(conv, gpur_fail, out) : table->plan_product(product, gpur_fail, out));
    const gpur_status status = table->plan_choose(gpur_cuda_of(device)->dnn.handle, *out, gpur_fail);
    if (status == GPUR_OK)
        return GPUR_OK;
    table->plan_destroy(*out);
    *out = NULL;
    return status;
}

gpur_status gpur_cuda_dnn_plan(gpur_device *device, const gpur_conv_shape *conv, const gpur_gemm_shape *product,
                               gpur_cudadnn_plan **out)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    *out = NULL;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK) {
        pthread_mutex_lock(&cuda->math_mutex);
        status = make_plan(device, conv, product, out);
        pthread_mutex_unlock(&cuda->math_mutex);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}

void gpur_cuda_dnn_plan_destroy(gpur_device *device, gpur_cudadnn_plan *plan)
{
    if (plan)
        table_of(device)->plan_destroy(plan);
}

int64_t gpur_cuda_dnn_workspace_bytes(const gpur_device *device, const gpur_cudadnn_plan *plan)
{
    return table_of(device)->plan_workspace_bytes(plan);
}

gpur_status gpur_cuda_dnn_run(gpur_device *device, gpur_stream *stream, gpur_cudadnn_plan *plan,
                              const gpur_cudadnn_arrays *arrays)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK) {
        pthread_mutex_lock(&cuda->math_mutex); /* the handle has one stream, which each run sets */
        status =
            table_of(device)->plan_run(cuda->dnn.handle, plan, arrays, (void *)gpur_cuda_native(stream), gpur_fail);
        pthread_mutex_unlock(&cuda->math_mutex);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}
