/* SPDX-License-Identifier: MIT */
/*
 * cuDNN of a device: one handle, opened when the first plan is made and used by one thread at a time, and a cache of
 * plans. math_mutex protects all of it.
 */
#include "device/cuda/cuda.h"

static const gpur_cudadnn *table_of(const gpur_device *device)
{
    return (const gpur_cudadnn *)gpur_cuda_of(device)->dnn.table;
}

static gpur_status refuse(void)
{
    return gpur_fail(GPUR_UNAVAILABLE, "cuDNN cannot be used; convolutions go by patches and matrix products");
}

/* Requires math_mutex and the current device. After a failed attempt, which is logged, cuDNN is not searched for
 * again. */
static gpur_status open_once(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    if (cuda->cudnn_unavailable)
        return refuse();
    const gpur_status status = gpur_dnn_library_open(&cuda->dnn);
    if (status == GPUR_OK)
        return GPUR_OK;
    if (status == GPUR_OUT_OF_MEMORY)
        return status; /* the next caller may find memory */
    cuda->cudnn_unavailable = 1;
    gpur_log(device, "convolutions go by patches and matrix products: %s", gpur_last_error());
    return refuse();
}

/*
 * A cached plan and its shape. Choosing an engine may mean compiling one, which takes seconds, and the online network,
 * the target network and every new learner need the same plans; so the device caches them. A plan holds no state of a
 * run: any number of users may share it, on any streams.
 */
struct gpur_cuda_dnn_entry {
    gpur_cuda_dnn_entry *next;
    gpur_cudadnn_plan *plan;
    int64_t users;
    gpur_conv_shape shape;
};

/* At most this many plans without users stay in the cache for the next learner. */
enum { MAX_UNUSED = 64 };

/* Compares member by member, because the structs have padding. */
static int is_same(const gpur_conv_shape *a, const gpur_conv_shape *b)
{
    return a->pass == b->pass && a->images == b->images && a->height == b->height && a->width == b->width &&
           a->channels == b->channels && a->filters == b->filters && a->kernel == b->kernel && a->stride == b->stride &&
           a->top == b->top && a->left == b->left && a->bottom == b->bottom && a->right == b->right &&
           a->epilogue == b->epilogue && a->math == b->math && a->deterministic == b->deterministic &&
           a->by_im2col == b->by_im2col;
}

/* Returns the link to the entry; if there is none, the link at the end of the list, which is NULL. */
static gpur_cuda_dnn_entry **find_shape(gpur_cuda *cuda, const gpur_conv_shape *shape)
{
    gpur_cuda_dnn_entry **link = &cuda->dnn_plans;
    while (*link && !is_same(&(*link)->shape, shape))
        link = &(*link)->next;
    return link;
}

static void move_to_front(gpur_cuda *cuda, gpur_cuda_dnn_entry **link)
{
    gpur_cuda_dnn_entry *const entry = *link;
    *link = entry->next;
    entry->next = cuda->dnn_plans;
    cuda->dnn_plans = entry;
}

static void destroy_entry(gpur_device *device, gpur_cuda_dnn_entry **link)
{
    gpur_cuda_dnn_entry *const entry = *link;
    *link = entry->next;
    const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* unloads an engine that was compiled for it */
    table_of(device)->plan_destroy(entry->plan);
    gpur_cuda_unrelax(mode);
    gpur_host_free(device, entry, sizeof *entry);
}

/* If there are more than MAX_UNUSED plans without users, destroys the least recently used of them. */
static void destroy_longest_unused(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    gpur_cuda_dnn_entry **last = NULL;
    int unused = 0;
    for (gpur_cuda_dnn_entry **link = &cuda->dnn_plans; *link; link = &(*link)->next)
        if ((*link)->users == 0) {
            unused++;
            last = link;
        }
    if (unused > MAX_UNUSED)
        destroy_entry(device, last);
}

static gpur_status plan_with(gpur_device *device, const gpur_conv_shape *shape, gpur_cudadnn_plan **out)
{
    const gpur_cudadnn *const table = table_of(device);
    GPUR_TRY(table->plan_conv(shape, gpur_fail, out));
    const gpur_status status = table->plan_choose(gpur_cuda_of(device)->dnn.handle, *out, gpur_fail);
    if (status == GPUR_OK)
        return GPUR_OK;
    table->plan_destroy(*out);
    *out = NULL;
    return status;
}

/* Adds an entry at the front of the list; a failure adds none. */
static gpur_status make_entry(gpur_device *device, const gpur_conv_shape *shape)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    gpur_cuda_dnn_entry *const entry = (gpur_cuda_dnn_entry *)gpur_host_alloc(device, sizeof *entry);
    if (!entry)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan of %zu bytes", sizeof *entry);
    const gpur_status status = plan_with(device, shape, &entry->plan);
    if (status != GPUR_OK) {
        gpur_host_free(device, entry, sizeof *entry);
        return status;
    }
    entry->shape = *shape;
    entry->next = cuda->dnn_plans;
    cuda->dnn_plans = entry;
    return GPUR_OK;
}

/* The caller chooses what to do instead. The log line tells the user why a step is slow. */
static void log_refusal(const gpur_device *device, const gpur_conv_shape *shape)
{
    if (shape->epilogue != GPUR_EPILOGUE_NONE)
        gpur_cuda_log_once(device,
                           "bias and activation of a convolution go by a kernel of their own, or by patches: %s",
                           gpur_last_error());
    else
        gpur_cuda_log_once(device, "a convolution goes by patches: %s", gpur_last_error());
}

static gpur_status use_plan(gpur_device *device, const gpur_conv_shape *shape, gpur_cudadnn_plan **out)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    GPUR_TRY(open_once(device));
    gpur_cuda_dnn_entry **const found = find_shape(cuda, shape);
    if (*found) {
        move_to_front(cuda, found);
    } else {
        const gpur_status status = make_entry(device, shape);
        if (status == GPUR_UNAVAILABLE)
            log_refusal(device, shape);
        GPUR_TRY(status);
    }
    cuda->dnn_plans->users++;
    *out = cuda->dnn_plans->plan;
    return GPUR_OK;
}

gpur_status gpur_cuda_dnn_plan(gpur_device *device, const gpur_conv_shape *shape, gpur_cudadnn_plan **out)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    *out = NULL;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    gpur_status status = gpur_cuda_status(error, "cudaSetDevice");
    if (status == GPUR_OK) {
        const enum cudaStreamCaptureMode mode = gpur_cuda_relax(); /* a plan loads cuDNN's code */
        pthread_mutex_lock(&cuda->math_mutex);
        status = use_plan(device, shape, out);
        pthread_mutex_unlock(&cuda->math_mutex);
        gpur_cuda_unrelax(mode);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}

void gpur_cuda_dnn_plan_release(gpur_device *device, gpur_cudadnn_plan *plan)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    int before;
    if (!plan)
        return;
    const cudaError_t error = gpur_cuda_enter(device, &before);
    pthread_mutex_lock(&cuda->math_mutex);
    gpur_cuda_dnn_entry **link = &cuda->dnn_plans;
    while ((*link)->plan != plan)
        link = &(*link)->next;
    (*link)->users--;
    destroy_longest_unused(device);
    pthread_mutex_unlock(&cuda->math_mutex);
    gpur_cuda_leave_quietly(before, error);
}

void gpur_cuda_dnn_close(gpur_device *device)
{
    gpur_cuda *const cuda = gpur_cuda_of(device);
    while (cuda->dnn_plans)
        destroy_entry(device, &cuda->dnn_plans);
    gpur_cuda_library_close(&cuda->dnn);
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
        pthread_mutex_lock(&cuda->math_mutex); /* the handle has one stream, which every run sets */
        status =
            table_of(device)->plan_run(cuda->dnn.handle, plan, arrays, (void *)gpur_cuda_native(stream), gpur_fail);
        pthread_mutex_unlock(&cuda->math_mutex);
    }
    gpur_cuda_leave_quietly(before, error);
    return status;
}
