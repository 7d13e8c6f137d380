/* SPDX-License-Identifier: MIT */
/* Exports an array of a batch as a managed DLPack tensor, which holds a reference to the batch. */
#include "replay/sampler/dlpack.h"

#include "replay/sampler/batch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tensor, in either ABI form, and the arrays that it points to. Allocated with malloc, because it may outlive the
 * device and its allocator. */
typedef struct exported {
    union {
        gpur_dl_managed managed;
        gpur_dl_versioned versioned;
    } as;
    gpur_batch *batch; /* retained */
    pid_t owner_pid;   /* the process that retained it */
    int64_t shape[GPUR_MAX_DIMS + 2], strides[GPUR_MAX_DIMS + 2];
} exported;

/* In a forked child the batch is not released: a thread that does not exist there may hold the pool's lock. */
static void delete_exported(exported *e)
{
    if (e->owner_pid != getpid())
        return;
    gpur_batch_release(e->batch);
    free(e);
}

static void delete_managed(gpur_dl_managed *self)
{
    delete_exported(self->context);
}

static void delete_versioned(gpur_dl_versioned *self)
{
    delete_exported(self->context);
}

static void set_type(gpur_dl_tensor *tensor, int32_t dtype)
{
    static const uint8_t codes[] = {
        [GPUR_FLOAT32] = GPUR_DL_FLOAT, [GPUR_FLOAT16] = GPUR_DL_FLOAT, [GPUR_UINT8] = GPUR_DL_UINT,
        [GPUR_INT32] = GPUR_DL_INT,     [GPUR_INT64] = GPUR_DL_INT,     [GPUR_BOOL] = GPUR_DL_BOOL,
    };
    tensor->code = codes[dtype];
    tensor->bits = (uint8_t)(8 * gpur_dtype_bytes(dtype));
    tensor->lanes = 1;
}

/* "cuda:3" is device 3; the CPU is device 0. */
static void set_device(gpur_dl_tensor *tensor, const gpur_device *device)
{
    const char *const colon = strchr(gpur_device_name(device), ':');
    tensor->device_type = gpur_device_get_traits(device)->dlpack_type;
    tensor->device_id = colon ? (int32_t)strtol(colon + 1, NULL, 10) : 0;
}

/* (count, ...), or of sequences (count / length, length, ...). */
static void set_shape(exported *e, gpur_dl_tensor *tensor, const gpur_field_info *array)
{
    const int64_t length = e->batch->length;
    const int32_t leading = length > 0 ? 2 : 1;
    tensor->ndim = array->dims + leading;
    tensor->shape = e->shape, tensor->strides = e->strides;
    e->shape[0] = length > 0 ? e->batch->count / length : e->batch->count;
    if (length > 0)
        e->shape[1] = length;
    for (int32_t axis = 0; axis < array->dims; axis++)
        e->shape[axis + leading] = array->shape[axis];
    int64_t stride = 1;
    for (int32_t axis = tensor->ndim - 1; axis >= 0; axis--) {
        e->strides[axis] = stride;
        stride *= e->shape[axis];
    }
}

static gpur_dl_tensor *set_form(exported *e, int32_t versioned)
{
    if (!versioned) {
        e->as.managed.context = e;
        e->as.managed.deleter = delete_managed;
        return &e->as.managed.tensor;
    }
    e->as.versioned.major = GPUR_DL_MAJOR;
    e->as.versioned.minor = GPUR_DL_MINOR;
    e->as.versioned.context = e;
    e->as.versioned.deleter = delete_versioned;
    return &e->as.versioned.tensor;
}

gpur_status gpur_batch_to_dlpack(gpur_batch *batch, const char *name, int32_t versioned, void **managed)
{
    gpur_field_info array = {.size = sizeof array};
    void *data = NULL;
    GPUR_REQUIRE(managed, "managed is NULL; it must be where the tensor goes");
    GPUR_TRY(gpur_batch_get_array(batch, name, &data, &array));
    exported *const e = calloc(1, sizeof *e);
    if (!e)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a DLPack tensor of %zu bytes", sizeof *e);
    e->batch = batch;
    e->owner_pid = getpid();
    gpur_batch_retain(batch);
    gpur_dl_tensor *const tensor = set_form(e, versioned);
    tensor->data = data;
    set_type(tensor, array.dtype);
    set_device(tensor, batch->pool->device);
    set_shape(e, tensor, &array);
    *managed = &e->as;
    return GPUR_OK;
}
