/* SPDX-License-Identifier: MIT */
/* The CPU's convolutions by oneDNN, enqueued. Threads are those the device was opened with, for the length of the call;
 * the host program's count, which under OpenMP is the calling thread's, stays as found. */
#include "device/conv_dnnl_cpu.h"

#include <omp.h>

typedef struct conv_op {
    gpur_dnnl_conv *conv;
    int64_t images;
    gpur_conv_arrays arrays;
    void *workspace;
} conv_op;
_Static_assert(sizeof(conv_op) <= GPUR_CPU_PAYLOAD, "a convolution must fit the payload of an operation");

static void let_go(gpur_dnnl_conv *c)
{
    if (atomic_fetch_sub(&c->holders, 1) > 1)
        return;
    gpur_dnnl_unmake(c);
    gpur_host_free(c->base.device, c, sizeof *c);
}

/* Its code is made for as many threads as OpenMP would then use, so the count must be ours there, too. */
static gpur_status make_with_our_threads(gpur_dnnl_conv *c)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(c->base.device->threads);
    const gpur_status status = gpur_dnnl_make(c);
    omp_set_num_threads(before);
    return status;
}

gpur_status gpur_cpu_conv_create(gpur_device *device, const gpur_conv_shape *shape, gpur_conv **out)
{
    if (shape->x_bf16)
        return gpur_fail(GPUR_UNAVAILABLE, "the CPU's library convolves float32; the input is bfloat16");
    gpur_dnnl_conv *const c = (gpur_dnnl_conv *)gpur_host_alloc(device, sizeof *c);
    if (!c)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a convolution's plan of %zu bytes", sizeof *c);
    c->base.device = device;
    c->base.shape = *shape;
    atomic_store(&c->holders, 1);
    const gpur_status status = make_with_our_threads(c);
    if (status != GPUR_OK) {
        let_go(c);
        return status;
    }
    *out = &c->base;
    return GPUR_OK;
}

void gpur_cpu_conv_destroy(gpur_conv *conv)
{
    let_go((gpur_dnnl_conv *)conv);
}

int64_t gpur_cpu_conv_workspace_bytes(const gpur_conv *conv)
{
    const gpur_dnnl_conv *const c = (const gpur_dnnl_conv *)conv;
    int64_t most = 0;
    for (int i = 0; i < c->count; i++) {
        const int64_t bytes = c->sizes[i].w_bytes + c->sizes[i].scratch_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static dnnl_status_t place(const gpur_dnnl_conv *c, const gpur_dnnl_size *size, const conv_op *op)
{
    const struct {
        dnnl_memory_t memory;
        void *at;
    } places[] = {{size->x, op->arrays.x},
                  {size->y, op->arrays.y},
                  {size->w, op->arrays.w},
                  {size->w_inside, size->reorder ? op->workspace : (void *)op->arrays.w},
                  {size->scratch, (char *)op->workspace + size->w_bytes},
                  {c->bias, (void *)(uintptr_t)op->arrays.bias}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const dnnl_status_t status = dnnl_memory_set_data_handle(places[i].memory, places[i].at);
        if (status != dnnl_success)
            return status;
    }
    return dnnl_success;
}

static dnnl_status_t convolve(const gpur_dnnl_conv *c, const gpur_dnnl_size *size)
{
    const int32_t pass = c->base.shape.pass;
    const dnnl_exec_arg_t arguments[] = {
        {pass == GPUR_CONV_TO_INPUT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, size->x},
        {pass == GPUR_CONV_TO_WEIGHT ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, size->w_inside},
        {pass == GPUR_CONV_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, size->y},
        {DNNL_ARG_SCRATCHPAD, size->scratch},
        {DNNL_ARG_BIAS, c->bias}, /* the last: not there without an epilogue */
    };
    return dnnl_primitive_execute(size->conv, c->stream, c->base.shape.epilogue == GPUR_EPILOGUE_NONE ? 4 : 5,
                                  arguments);
}

static dnnl_status_t reorder(const gpur_dnnl_conv *c, const gpur_dnnl_size *size, int is_before)
{
    const int to_weight = c->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, to_weight ? size->w_inside : size->w},
                                         {DNNL_ARG_TO, to_weight ? size->w : size->w_inside}};
    if (!size->reorder || is_before == to_weight)
        return dnnl_success;
    return dnnl_primitive_execute(size->reorder, c->stream, 2, arguments);
}

static dnnl_status_t run_all(const gpur_dnnl_conv *c, const conv_op *op)
{
    const gpur_dnnl_size *size = c->sizes;
    while (size->images < op->images)
        size++;
    dnnl_status_t status = place(c, size, op);
    if (status == dnnl_success)
        status = reorder(c, size, 1);
    if (status == dnnl_success)
        status = convolve(c, size);
    return status == dnnl_success ? reorder(c, size, 0) : status;
}

/* Work that was enqueued cannot be refused any more: whatever happens now is the device's failure. */
static gpur_status run(const gpur_dnnl_conv *c, const conv_op *op)
{
    const dnnl_status_t status = run_all(c, op);
    if (status == dnnl_success)
        return GPUR_OK;
    return gpur_fail(GPUR_DEVICE_ERROR, "oneDNN could not run a convolution%s: status %d",
                     status == dnnl_out_of_memory ? " for want of memory" : "", (int)status);
}

static gpur_status run_with_our_threads(gpur_stream *stream, void *payload)
{
    const conv_op *const op = (const conv_op *)payload;
    const int before = omp_get_max_threads();
    (void)stream;
    omp_set_num_threads(op->conv->base.device->threads);
    const gpur_status status = run(op->conv, op);
    omp_set_num_threads(before);
    let_go(op->conv);
    return status;
}

gpur_status gpur_cpu_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                              void *workspace)
{
    conv_op *const op = (conv_op *)gpur_cpu_begin(stream);
    op->conv = (gpur_dnnl_conv *)conv, op->images = images, op->arrays = *arrays, op->workspace = workspace;
    atomic_fetch_add(&op->conv->holders, 1);
    return gpur_cpu_end(stream, run_with_our_threads);
}

const char *gpur_cpu_conv_library(gpur_device *device)
{
    (void)device;
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}
