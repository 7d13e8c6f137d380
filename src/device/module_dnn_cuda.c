/* SPDX-License-Identifier: MIT */
/*
 * The module libgpureplay_cudadnn: convolutions and dense layers by cuDNN's backend graphs, and library calls only.
 * module_conv_cuda.h and module_dense_cuda.h describe a plan's graph, module_engine_cuda.h chooses its engine.
 */
#include "device/module_conv_cuda.h"
#include "device/module_dense_cuda.h"

#include <stdlib.h>

static int64_t library_version(void)
{
    return (int64_t)cudnnGetVersion();
}

static void close_library(void *handle)
{
    device_source *const device = (device_source *)handle;
    if (!device)
        return;
    if (device->properties)
        (void)cudnnBackendDestroyDescriptor(device->properties);
    if (device->handle)
        (void)cudnnDestroy(device->handle);
    free(device);
}

/* The properties of the handle's device; NULL where this cuDNN has no such descriptor. */
static descriptor read_properties(cudnnHandle_t handle)
{
    descriptor made = NULL;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made) != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(made) == CUDNN_STATUS_SUCCESS)
        return made;
    (void)cudnnBackendDestroyDescriptor(made);
    return NULL;
}

static gpur_status open_library(void **handle, gpur_fail_fn fail)
{
    *handle = NULL;
    device_source *const device = (device_source *)calloc(1, sizeof *device);
    if (!device)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a handle of cuDNN's: %zu bytes", sizeof *device);
    const gpur_status status = check(cudnnCreate(&device->handle), fail, "cudnnCreate");
    if (status != GPUR_OK) {
        close_library(device);
        return status;
    }
    device->properties = read_properties(device->handle);
    *handle = device;
    return GPUR_OK;
}

static void plan_destroy(gpur_cudadnn_plan *plan)
{
    if (!plan)
        return;
    if (plan->chosen)
        (void)cudnnBackendDestroyDescriptor(plan->chosen);
    if (plan->config)
        (void)cudnnBackendDestroyDescriptor(plan->config);
    while (plan->count > 0)
        (void)cudnnBackendDestroyDescriptor(plan->made[--plan->count]);
    free(plan);
}

/* A failure leaves no plan. */
static gpur_status make_plan(const void *shape, gpur_status (*describe)(gpur_cudadnn_plan *plan, const void *shape),
                             gpur_fail_fn fail, gpur_cudadnn_plan **out)
{
    *out = NULL;
    gpur_cudadnn_plan *const plan = (gpur_cudadnn_plan *)calloc(1, sizeof *plan);
    if (!plan)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *plan);
    plan->fail = fail;
    const gpur_status status = describe(plan, shape);
    if (status != GPUR_OK) {
        plan_destroy(plan);
        return status;
    }
    *out = plan;
    return GPUR_OK;
}

static gpur_status plan_conv(const gpur_conv_shape *shape, gpur_fail_fn fail, gpur_cudadnn_plan **out)
{
    return make_plan(shape, describe_conv, fail, out);
}

static gpur_status plan_product(const gpur_gemm_shape *shape, gpur_fail_fn fail, gpur_cudadnn_plan **out)
{
    return make_plan(shape, describe_product, fail, out);
}

static gpur_status plan_choose(void *handle, gpur_cudadnn_plan *plan, gpur_fail_fn fail)
{
    plan->fail = fail;
    return choose(plan, (const device_source *)handle);
}

static int64_t plan_workspace_bytes(const gpur_cudadnn_plan *plan)
{
    return plan->workspace_bytes;
}

static gpur_status execute(cudnnHandle_t handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *a, descriptor pack)
{
    int64_t ids[4] = {ID_X, ID_W, ID_Y, ID_BIAS};
    void *pointers[4] = {a->x, a->w, a->y, a->bias};
    const int64_t count = plan->has_bias ? 4 : 3;
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids));
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers));
    GPUR_TRY(set(plan, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &a->workspace));
    GPUR_TRY(finalize(plan, pack));
    return check(cudnnBackendExecute(handle, plan->chosen, pack), plan->fail, "cudnnBackendExecute");
}

static gpur_status plan_run(void *handle, gpur_cudadnn_plan *plan, const gpur_cudadnn_arrays *arrays, void *stream,
                            gpur_fail_fn fail)
{
    const cudnnHandle_t native = ((const device_source *)handle)->handle;
    descriptor pack = NULL;
    plan->fail = fail;
    GPUR_TRY(check(cudnnSetStream(native, (cudaStream_t)stream), fail, "cudnnSetStream"));
    GPUR_TRY(check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), fail,
                   "cudnnBackendCreateDescriptor"));
    const gpur_status status = execute(native, plan, arrays, pack);
    (void)cudnnBackendDestroyDescriptor(pack);
    return status;
}

GPUR_API const gpur_cudadnn *gpur_cudadnn_table(void);
const gpur_cudadnn *gpur_cudadnn_table(void)
{
    static const gpur_cudadnn table = {
        .module = {GPUR_CUDADNN_VERSION, library_version, open_library, close_library},
        .plan_conv = plan_conv,
        .plan_product = plan_product,
        .plan_choose = plan_choose,
        .plan_destroy = plan_destroy,
        .plan_workspace_bytes = plan_workspace_bytes,
        .plan_run = plan_run,
    };
    return &table;
}
