/* SPDX-License-Identifier: MIT */
/*
 * What XLA calls for gpureplay.jax: adding to a replay of lanes, resetting lanes, drawing and updating priorities
 * (gpureplay/lanes.h), as handlers of XLA's foreign function interface, for the CPU and for CUDA. It is a library of
 * its own, loaded by ctypes, and is linked with nothing: Python passes the functions of libgpureplay in, and XLA its
 * own with each call.
 *
 * A compiled function names its replay by a number, since it may outlive the replay. The first argument and the first
 * result of each handler are one small array, the token. XLA orders the calls by it; its numbers are never read.
 */
#include <gpureplay/lanes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xla/ffi/api/c_api.h>

/* Functions of the library that ctypes has loaded. */
static struct {
    gpur_status (*add)(gpur_replay *, const void *const *, void *);
    gpur_status (*reset)(gpur_replay *, const uint8_t *, void *);
    gpur_status (*draw)(gpur_replay *, const gpur_lane_draw *, void *);
    gpur_status (*draw_init)(gpur_lane_draw *, uint64_t);
    gpur_status (*update)(gpur_replay *, int64_t, const int64_t *, const float *, void *);
    const char *(*last_error)(void);
} library;

/* A replay and its number. It stays in the table when the replay is closed, so that functions which outlive the replay
 * are told. */
typedef struct open_replay {
    struct open_replay *next;
    int64_t number;
    pthread_mutex_t calling; /* held during a call: the replay goes after it */
    gpur_replay *replay;     /* NULL: closed */
    int64_t lanes;
    int32_t is_cuda, field_count;
    int64_t row_bytes[GPUR_MAX_FIELDS]; /* by field, of one lane */
} open_replay;

static struct {
    pthread_mutex_t lock;
    open_replay *first;
} table = {PTHREAD_MUTEX_INITIALIZER, NULL};

/* Of the header that this was compiled with. A jaxlib whose own is lower refuses the handlers. */
GPUR_API int32_t gpureplay_jax_api_minor(void);
/* Called once, before anything else: the addresses of the functions, in the order of `library`. */
GPUR_API void gpureplay_jax_use(const void *functions);
/* Enters a replay into the table under the first number that is free, from 0 on. `*out` is for gpureplay_jax_close.
 * Returns the number, or -1: there is no memory. */
GPUR_API int64_t gpureplay_jax_open(gpur_replay *replay, int32_t is_cuda, int64_t lanes, int32_t field_count,
                                    const int64_t *row_bytes, open_replay **out);
/* Waits for the call that runs; later ones are refused. NULL does nothing. */
GPUR_API void gpureplay_jax_close(open_replay *one);

GPUR_API XLA_FFI_Error *gpureplay_jax_add_cpu(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_add_cuda(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_reset_cpu(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_reset_cuda(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_draw_cpu(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_draw_cuda(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_update_cpu(XLA_FFI_CallFrame *frame);
GPUR_API XLA_FFI_Error *gpureplay_jax_update_cuda(XLA_FFI_CallFrame *frame);

int32_t gpureplay_jax_api_minor(void)
{
    return XLA_FFI_API_MINOR;
}

void gpureplay_jax_use(const void *functions)
{
    memcpy(&library, functions, sizeof library);
}

int64_t gpureplay_jax_open(gpur_replay *replay, int32_t is_cuda, int64_t lanes, int32_t field_count,
                           const int64_t *row_bytes, open_replay **out)
{
    open_replay *const one = calloc(1, sizeof *one);
    if (!one)
        return -1;
    pthread_mutex_init(&one->calling, NULL);
    one->replay = replay;
    one->is_cuda = is_cuda;
    one->lanes = lanes;
    one->field_count = field_count;
    for (int32_t i = 0; i < field_count; i++)
        one->row_bytes[i] = row_bytes[i];
    pthread_mutex_lock(&table.lock);
    one->next = table.first;
    one->number = table.first ? table.first->number + 1 : 0;
    table.first = one;
    pthread_mutex_unlock(&table.lock);
    *out = one;
    return one->number;
}

void gpureplay_jax_close(open_replay *one)
{
    if (!one)
        return;
    pthread_mutex_lock(&one->calling);
    one->replay = NULL;
    pthread_mutex_unlock(&one->calling);
}

static open_replay *find(int64_t number)
{
    pthread_mutex_lock(&table.lock);
    open_replay *one = table.first;
    while (one && one->number != number)
        one = one->next;
    pthread_mutex_unlock(&table.lock);
    return one;
}

/* What XLA asks of a handler when it is registered, in place of a call. */
static int tells_version(const XLA_FFI_CallFrame *frame)
{
    const XLA_FFI_Extension_Base *const extension = frame->extension_start;
    if (!extension || extension->type != XLA_FFI_Extension_Metadata)
        return 0;
    XLA_FFI_Metadata *const metadata = ((const XLA_FFI_Metadata_Extension *)(const void *)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    /* XLA must not put the calls into graphs of its own, which it would launch after the replay was closed. */
    metadata->traits = 0;
    return 1;
}

static XLA_FFI_Error *refuse(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *text)
{
    XLA_FFI_Error_Create_Args args = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = text, .errc = code};
    return frame->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Error *refuse_status(const XLA_FFI_CallFrame *frame, gpur_status status)
{
    if (status == GPUR_OK)
        return NULL;
    return refuse(frame,
                  status == GPUR_INVALID_ARGUMENT ? XLA_FFI_Error_Code_INVALID_ARGUMENT : XLA_FFI_Error_Code_INTERNAL,
                  library.last_error());
}

/* The bytes of an element. 0: of a type that no field has. */
static int64_t element_bytes(XLA_FFI_DataType type)
{
    switch (type) {
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_U8:
        return 1;
    case XLA_FFI_DataType_F16:
        return 2;
    case XLA_FFI_DataType_F32:
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
        return 4;
    case XLA_FFI_DataType_S64:
        return 8;
    default:
        return 0;
    }
}

static int64_t bytes_of(const XLA_FFI_Buffer *array)
{
    int64_t bytes = element_bytes(array->dtype);
    for (int64_t i = 0; i < array->rank; i++)
        bytes *= array->dims[i];
    return bytes;
}

/* The arrays of a call, without the token, in order. After a wrong one `is_right` is 0, and that one and all later ones
 * are taken as NULL. */
typedef struct array_list {
    void **arrays; /* XLA_FFI_Buffer each */
    int64_t count, at;
    int is_right;
} array_list;

static array_list arguments_of(const XLA_FFI_CallFrame *frame)
{
    return (array_list){frame->args.args, frame->args.size, 1, frame->args.size > 0};
}

static array_list results_of(const XLA_FFI_CallFrame *frame)
{
    return (array_list){frame->rets.rets, frame->rets.size, 1, frame->rets.size > 0};
}

/* The next array, which must have so many bytes. */
static void *take(array_list *list, int64_t bytes)
{
    const XLA_FFI_Buffer *const array = list->at < list->count ? list->arrays[list->at++] : NULL;
    list->is_right = list->is_right && array && bytes_of(array) == bytes;
    return list->is_right ? array->data : NULL;
}

static int was_all(const array_list *list)
{
    return list->is_right && list->at == list->count;
}

/* A number of this type that Python gave as an attribute. 0: there is none of that name and type. */
static int attribute(const XLA_FFI_CallFrame *frame, const char *name, XLA_FFI_DataType type, void *value)
{
    const XLA_FFI_Attrs *const attrs = &frame->attrs;
    for (int64_t i = 0; i < attrs->size; i++) {
        const XLA_FFI_ByteSpan *const span = attrs->names[i];
        if (span->len != strlen(name) || memcmp(span->ptr, name, span->len) != 0)
            continue;
        const XLA_FFI_Scalar *const scalar = attrs->attrs[i];
        if (attrs->types[i] != XLA_FFI_AttrType_SCALAR || scalar->dtype != type)
            return 0;
        memcpy(value, scalar->value, (size_t)element_bytes(type));
        return 1;
    }
    return 0;
}

static int integer(const XLA_FFI_CallFrame *frame, const char *name, int64_t *value)
{
    return attribute(frame, name, XLA_FFI_DataType_S64, value);
}

static XLA_FFI_Error *refuse_arrays(const XLA_FFI_CallFrame *frame)
{
    return refuse(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  "the arrays of this call do not fit the buffer of lanes: the function was compiled for another one; "
                  "trace and compile it again");
}

typedef XLA_FFI_Error *(*call_fn)(const XLA_FFI_CallFrame *frame, const open_replay *one, void *stream);

static XLA_FFI_Error *add(const XLA_FFI_CallFrame *frame, const open_replay *one, void *stream)
{
    const void *fields[GPUR_MAX_FIELDS] = {NULL};
    array_list given = arguments_of(frame);
    int64_t mask = 0; /* bit i: field i is given */
    if (!integer(frame, "given", &mask))
        return refuse_arrays(frame);
    for (int32_t i = 0; i < one->field_count; i++)
        if ((uint64_t)mask >> i & 1)
            fields[i] = take(&given, one->lanes * one->row_bytes[i]);
    if (!was_all(&given))
        return refuse_arrays(frame);
    return refuse_status(frame, library.add(one->replay, fields, stream));
}

/* Argument: which lanes; none: all. */
static XLA_FFI_Error *reset(const XLA_FFI_CallFrame *frame, const open_replay *one, void *stream)
{
    array_list given = arguments_of(frame);
    const uint8_t *const which = given.count > 1 ? take(&given, one->lanes) : NULL;
    if (!was_all(&given))
        return refuse_arrays(frame);
    return refuse_status(frame, library.reset(one->replay, which, stream));
}

/* Results: the fields, id, weight if the replay has priorities, discount, steps, and of sequences mask and is_first.
 * Argument: ids, to take these. `count` is of sequences, if `length` is above 0. */
static XLA_FFI_Error *draw(const XLA_FFI_CallFrame *frame, const open_replay *one, void *stream)
{
    void *fields[GPUR_MAX_FIELDS] = {NULL};
    array_list given = arguments_of(frame), results = results_of(frame);
    int64_t count = 0, n_step = 0, per_lane = 0, has_weight = 0, across_episodes = 0;
    gpur_lane_draw d;
    library.draw_init(&d, sizeof d);
    if (!integer(frame, "count", &count) || !integer(frame, "n_step", &n_step) ||
        !integer(frame, "per_lane", &per_lane) || !integer(frame, "has_weight", &has_weight) ||
        !integer(frame, "length", &d.length) || !integer(frame, "min_length", &d.min_length) ||
        !integer(frame, "across_episodes", &across_episodes) ||
        !attribute(frame, "gamma", XLA_FFI_DataType_F32, &d.gamma))
        return refuse_arrays(frame);
    d.count = d.length > 0 ? count * d.length : count;
    d.n_step = (int32_t)n_step, d.of_each_lane = (int32_t)per_lane, d.across_episodes = (int32_t)across_episodes;
    if (given.count > 1)
        d.ids = take(&given, count * (int64_t)sizeof *d.ids);
    for (int32_t i = 0; i < one->field_count; i++)
        fields[i] = take(&results, d.count * one->row_bytes[i]);
    d.fields = fields;
    d.id = take(&results, d.count * (int64_t)sizeof *d.id);
    if (has_weight)
        d.weight = take(&results, d.count * (int64_t)sizeof *d.weight);
    d.discount = take(&results, d.count * (int64_t)sizeof *d.discount);
    d.steps = take(&results, d.count * (int64_t)sizeof *d.steps);
    if (d.length > 0) {
        d.mask = take(&results, d.count);
        d.is_first = take(&results, d.count);
    }
    if (!was_all(&given) || !was_all(&results))
        return refuse_arrays(frame);
    return refuse_status(frame, library.draw(one->replay, &d, stream));
}

/* Arguments: ids and priorities. */
static XLA_FFI_Error *update(const XLA_FFI_CallFrame *frame, const open_replay *one, void *stream)
{
    array_list given = arguments_of(frame);
    int64_t count = 0;
    if (!integer(frame, "count", &count))
        return refuse_arrays(frame);
    const int64_t *const ids = take(&given, count * (int64_t)sizeof *ids);
    const float *const priorities = take(&given, count * (int64_t)sizeof *priorities);
    if (!was_all(&given))
        return refuse_arrays(frame);
    return refuse_status(frame, library.update(one->replay, count, ids, priorities, stream));
}

/* With the replay's lock held. */
static XLA_FFI_Error *call_locked(const XLA_FFI_CallFrame *frame, const open_replay *one, int is_cuda, call_fn call)
{
    if (!one->replay)
        return refuse(
            frame, XLA_FFI_Error_Code_FAILED_PRECONDITION,
            "the buffer of lanes that this function was compiled with was closed; make a new one, and compile "
            "the function with it");
    if (one->is_cuda != is_cuda)
        return refuse(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                      is_cuda ? "the buffer of lanes is on the CPU, and the function was compiled for a GPU; they must "
                                "be on one device: LaneBuffer(device=), or jax.jit on arrays of the CPU"
                              : "the buffer of lanes is on a GPU, and the function was compiled for the CPU; they must "
                                "be on one device: LaneBuffer(device=\"cpu\"), or a JAX with CUDA");
    XLA_FFI_Stream_Get_Args args = {.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
    XLA_FFI_Error *const error = is_cuda ? frame->api->XLA_FFI_Stream_Get(&args) : NULL;
    return error ? error : call(frame, one, args.stream);
}

static XLA_FFI_Error *handle(const XLA_FFI_CallFrame *frame, int is_cuda, call_fn call)
{
    int64_t number = -1;
    if (tells_version(frame))
        return NULL;
    open_replay *const one = integer(frame, "buffer", &number) ? find(number) : NULL;
    if (!one)
        return refuse(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                      "the buffer of lanes that this function was compiled with is in another process; compile the "
                      "function with one of this process");
    pthread_mutex_lock(&one->calling);
    XLA_FFI_Error *const error = call_locked(frame, one, is_cuda, call);
    pthread_mutex_unlock(&one->calling);
    return error;
}

/* The handlers of a call, on the CPU and on CUDA. */
#define HANDLERS(call)                                                                                                 \
    XLA_FFI_Error *gpureplay_jax_##call##_cpu(XLA_FFI_CallFrame *frame)                                                \
    {                                                                                                                  \
        return handle(frame, 0, call);                                                                                 \
    }                                                                                                                  \
    XLA_FFI_Error *gpureplay_jax_##call##_cuda(XLA_FFI_CallFrame *frame)                                               \
    {                                                                                                                  \
        return handle(frame, 1, call);                                                                                 \
    }

HANDLERS(add)
HANDLERS(reset)
HANDLERS(draw)
HANDLERS(update)
