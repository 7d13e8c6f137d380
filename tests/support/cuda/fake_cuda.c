/* SPDX-License-Identifier: MIT */
#include "support/cuda/fake_cuda.h"

#include "device/cuda/modules/cublaslt.h"
#include "kernels/entries.h"
#include "reference/reference_gemm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* the signatures are CUDA's */

#define fake_cudaGetDeviceProperties_v2 fake_cudaGetDeviceProperties /* its name in CUDA 12 */

enum { ALIGNMENT = 256 };
static const size_t total_bytes = (size_t)256 << 20;

cuda_faults faults;
fake_gpu fake = {9, 8, 1, 1, 90, 1024, 1024, 1, 0};
seen_launch fake_launch;
_Thread_local cudaError_t fake_last_error;

static _Atomic int64_t alive;
static _Thread_local int captures; /* in progress on this thread */
static _Thread_local enum cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
static atomic_int global_capture, spoiled; /* spoiled: something was refused during the global capture */

int64_t fake_alive(void)
{
    return alive;
}

int fake_global_capture(int on)
{
    global_capture = on;
    return atomic_exchange(&spoiled, 0);
}

/* 1 if this thread is capturing a stream, or any thread in the global mode, unless this one is in the relaxed mode. */
static int refuses_unsafe(void)
{
    const int refused = capture_mode != cudaStreamCaptureModeRelaxed && (captures > 0 || global_capture);
    if (refused && global_capture)
        spoiled = 1;
    return refused;
}

/* ---- memory ---- */
typedef struct fake_block {
    unsigned char *memory;
    size_t bytes;
    enum cudaMemoryType type;
    struct fake_block *next;
} fake_block;

static fake_block *all_blocks;
static size_t used_bytes; /* of device memory */

/* Filled with 0xaa, so that the library cannot rely on zeroed memory. */
static cudaError_t take(void **memory, size_t bytes, enum cudaMemoryType type)
{
    if (refuses_unsafe())
        return cudaErrorStreamCaptureUnsupported;
    if (type == cudaMemoryTypeDevice && bytes > total_bytes - used_bytes)
        return cudaErrorMemoryAllocation;
    fake_block *const b = (fake_block *)calloc(1, sizeof *b);
    b->memory = (unsigned char *)aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    b->bytes = bytes, b->type = type, b->next = all_blocks;
    memset(b->memory, 0xaa, bytes);
    all_blocks = b;
    used_bytes += type == cudaMemoryTypeDevice ? bytes : 0;
    *memory = b->memory;
    alive++;
    return cudaSuccess;
}

static cudaError_t give(void *memory, enum cudaMemoryType type)
{
    fake_block **link = &all_blocks;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    fake_block *const b = *link;
    if (refuses_unsafe() || !memory)
        return memory ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    if (!b || b->type != type)
        return cudaErrorInvalidValue;
    *link = b->next;
    used_bytes -= type == cudaMemoryTypeDevice ? b->bytes : 0;
    free(b->memory);
    free(b);
    alive--;
    return cudaSuccess;
}

static cudaError_t fake_cudaMalloc(void **memory, size_t bytes)
{
    return take(memory, bytes, cudaMemoryTypeDevice);
}

static cudaError_t fake_cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    return take(memory, bytes, cudaMemoryTypeHost);
}

static cudaError_t fake_cudaFree(void *memory)
{
    return give(memory, cudaMemoryTypeDevice);
}

static cudaError_t fake_cudaFreeHost(void *memory)
{
    return give(memory, cudaMemoryTypeHost);
}

static cudaError_t fake_cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = total_bytes - used_bytes;
    *total = total_bytes;
    return cudaSuccess;
}

static cudaError_t fake_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    const fake_block *b = all_blocks;
    memset(attributes, 0, sizeof *attributes);
    while (b && ((uintptr_t)memory < (uintptr_t)b->memory || (uintptr_t)memory >= (uintptr_t)b->memory + b->bytes))
        b = b->next;
    attributes->type = b ? b->type : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

/* ---- streams, events and graphs: work runs at once, or, during a capture, whenever the graph is launched ---- */
typedef void (*work_fn)(const void *payload);

typedef struct fake_node {
    work_fn work;
    struct fake_node *next;
    _Alignas(16) unsigned char payload[];
} fake_node;

typedef struct fake_graph {
    fake_node *first, **end;
    size_t count;
    int holders; /* one for the graph itself, and one for each executable fake_graph */
} fake_graph;

typedef struct fake_stream {
    fake_graph *capture;      /* NULL: not capturing */
    struct fake_stream *next; /* another stream of the same capture; the first one began it */
    int is_global;            /* 1: it began a capture in the global mode */
    int is_unjoined;          /* 1: it has work in the capture that the first stream has not waited for */
} fake_stream;

typedef struct fake_event {
    fake_stream *stream; /* where it was recorded during a capture; NULL: it was not */
    fake_graph *capture;
} fake_event;

static cudaError_t fake_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *given)
{
    const enum cudaStreamCaptureMode before = capture_mode;
    capture_mode = *given;
    *given = before;
    return cudaSuccess;
}

static fake_stream *stream_of(cudaStream_t handle)
{
    static fake_stream legacy;
    return handle == cudaStreamLegacy ? &legacy : (fake_stream *)(void *)handle;
}

static fake_graph *graph_of(const void *handle)
{
    return (fake_graph *)(uintptr_t)handle;
}

static cudaError_t enqueue(cudaStream_t handle, work_fn work, const void *payload, size_t bytes)
{
    fake_stream *const s = stream_of(handle);
    if (!s->capture) {
        work(payload);
        return cudaSuccess;
    }
    fake_node *const made = (fake_node *)calloc(1, sizeof *made + bytes);
    if (!made)
        return cudaErrorMemoryAllocation;
    made->work = work;
    memcpy(made->payload, payload, bytes);
    s->is_unjoined = 1;
    *s->capture->end = made;
    s->capture->end = &made->next;
    s->capture->count++;
    return cudaSuccess;
}

static void release_graph(fake_graph *g)
{
    if (--g->holders > 0)
        return;
    for (fake_node *n = g->first; n;) {
        fake_node *const next = n->next;
        free(n);
        n = next;
    }
    free(g);
}

static cudaError_t fake_cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    *out = (cudaStream_t)calloc(1, sizeof(fake_stream));
    alive++;
    return cudaSuccess;
}

static cudaError_t fake_cudaStreamDestroy(cudaStream_t handle)
{
    free(stream_of(handle));
    alive--;
    return cudaSuccess;
}

static cudaError_t fake_cudaStreamSynchronize(cudaStream_t handle)
{
    return refuses_unsafe() || stream_of(handle)->capture ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

static cudaError_t fake_cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    *status = stream_of(handle)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return handle == cudaStreamLegacy && captures > 0 ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

#if CUDART_VERSION >= 12080
static cudaError_t fake_cudaStreamGetDevice(cudaStream_t handle, int *device)
{
    *device = fake.of_streams;
    return handle ? cudaSuccess : cudaErrorInvalidResourceHandle;
}
#endif

static fake_event *event_of(cudaEvent_t handle)
{
    return (fake_event *)(void *)handle;
}

/* A stream that waits for an event of a capture belongs to the capture from then on; its work is captured in the order
 * in which it is enqueued. Work that was enqueued before an event and after it are not told apart: the library records
 * an event just before a stream waits for it. */
static cudaError_t fake_cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    fake_stream *const s = stream_of(handle), *const from = event ? event_of(event)->stream : NULL;
    if (!event || (s->capture && (!from || from->capture != s->capture)))
        return cudaErrorStreamCaptureIsolation;
    if (!from)
        return cudaSuccess;
    if (!from->capture || from->capture != event_of(event)->capture)
        return cudaErrorCapturedEvent;
    if (!s->capture) {
        s->capture = from->capture, s->next = from->next, from->next = s;
        s->is_unjoined = 1;
    }
    from->is_unjoined = 0;
    return cudaSuccess;
}

static cudaError_t fake_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = (cudaEvent_t)calloc(1, sizeof(fake_event));
    alive++;
    return cudaSuccess;
}

static cudaError_t fake_cudaEventDestroy(cudaEvent_t event)
{
    free((void *)event);
    alive--;
    return cudaSuccess;
}

static cudaError_t fake_cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    fake_stream *const s = stream_of(handle);
    if (!event)
        return cudaErrorInvalidResourceHandle;
    event_of(event)->stream = s->capture ? s : NULL;
    event_of(event)->capture = s->capture;
    return cudaSuccess;
}

static cudaError_t fake_cudaEventSynchronize(cudaEvent_t event)
{
    if (!event)
        return cudaErrorInvalidResourceHandle;
    if (refuses_unsafe())
        return cudaErrorStreamCaptureUnsupported;
    return event_of(event)->stream ? cudaErrorCapturedEvent : cudaSuccess;
}

static cudaError_t fake_cudaEventQuery(cudaEvent_t event)
{
    return fake_cudaEventSynchronize(event);
}

static cudaError_t fake_cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode wanted)
{
    fake_stream *const s = stream_of(handle);
    if (s->capture || wanted == cudaStreamCaptureModeRelaxed)
        return cudaErrorIllegalState;
    if (wanted == cudaStreamCaptureModeGlobal)
        s->is_global = 1, fake_global_capture(1);
    s->capture = (fake_graph *)calloc(1, sizeof *s->capture);
    s->capture->end = &s->capture->first;
    s->capture->holders = 1;
    captures++;
    return cudaSuccess;
}

static cudaError_t fake_cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
{
    fake_stream *const s = stream_of(handle);
    fake_graph *const captured = s->capture;
    int unjoined = 0;
    *out = (cudaGraph_t)(void *)captured;
    if (!captured)
        return cudaErrorIllegalState;
    s->is_unjoined = 0;
    const int is_spoiled = s->is_global && fake_global_capture(0);
    for (fake_stream *each = s, *next; each; each = next) {
        unjoined += each->is_unjoined;
        next = each->next;
        *each = (fake_stream){NULL};
    }
    captures--;
    if (unjoined || is_spoiled) {
        release_graph(captured);
        *out = NULL;
        return is_spoiled ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
    }
    alive++;
    return cudaSuccess;
}

static cudaError_t fake_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t handle, unsigned long long flags)
{
    if (refuses_unsafe())
        return cudaErrorStreamCaptureUnsupported;
    graph_of(handle)->holders++;
    *exec = (cudaGraphExec_t)(void *)handle;
    alive++;
    return cudaSuccess;
}

static cudaError_t fake_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle)
{
    return exec && !stream_of(handle)->capture ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t fake_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle)
{
    if (stream_of(handle)->capture)
        return cudaErrorStreamCaptureUnsupported;
    for (const fake_node *n = graph_of(exec)->first; n; n = n->next)
        n->work(n->payload);
    return cudaSuccess;
}

static cudaError_t fake_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    if (refuses_unsafe())
        return cudaErrorStreamCaptureUnsupported;
    release_graph(graph_of(exec));
    alive--;
    return cudaSuccess;
}

static cudaError_t fake_cudaGraphDestroy(cudaGraph_t handle)
{
    release_graph(graph_of(handle));
    alive--;
    return cudaSuccess;
}

static cudaError_t fake_cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
    *count = graph_of(handle)->count;
    return nodes ? cudaErrorNotSupported : cudaSuccess;
}

/* ---- copies, properties and launches ---- */
typedef struct move {
    void *to;
    const void *from; /* NULL: fill with `byte` */
    int byte;
    size_t bytes;
} move;

static void run_move(const void *payload)
{
    const move *const m = (const move *)payload;
    if (m->from)
        memcpy(m->to, m->from, m->bytes);
    else
        memset(m->to, m->byte, m->bytes);
}

static cudaError_t fake_cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                        cudaStream_t stream)
{
    const move m = {to, from, 0, bytes};
    return kind == cudaMemcpyDefault ? enqueue(stream, run_move, &m, sizeof m) : cudaErrorInvalidMemcpyDirection;
}

static cudaError_t fake_cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    const move m = {memory, NULL, byte, bytes};
    return enqueue(stream, run_move, &m, sizeof m);
}

static cudaError_t fake_cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

static cudaError_t fake_cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

static cudaError_t fake_cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

static cudaError_t fake_cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

static cudaError_t fake_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "a fake GPU");
    properties->multiProcessorCount = fake.multiprocessors;
    properties->major = fake.major;
    return fake_cudaSetDevice(device);
}

static cudaError_t fake_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    *value = attribute == cudaDevAttrCooperativeLaunch ? fake.cooperative : 1;
    return fake_cudaSetDevice(device);
}

static int kernel_of(const void *entry)
{
    int kernel = 0;
    while (kernel < GPUR_KERNEL_COUNT && gpur_cuda_entries[kernel] != entry)
        kernel++;
    return kernel;
}

static cudaError_t fake_cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *entry)
{
    const int kernel = kernel_of(entry);
    if (refuses_unsafe()) /* it loads the kernel's code */
        return cudaErrorStreamCaptureUnsupported;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = kernel == GPUR_KERNEL_ID_grid_sync_probe ? fake.cooperative_threads
                                     : kernel == GPUR_KERNEL_ID_window_set    ? fake.small_threads
                                                                              : 1024;
    attributes->ptxVersion = attributes->binaryVersion = fake.ptx;
    return kernel < GPUR_KERNEL_COUNT ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

static cudaError_t fake_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *entry, int threads,
                                                                      size_t shared)
{
    *count = threads <= fake.cooperative_threads ? fake.blocks_each : 0;
    return cudaSuccess;
}

typedef struct launch {
    int kernel;
    _Alignas(16) unsigned char args[GPUR_MAX_ARGS];
} launch;

static void run_launch(const void *payload)
{
    const launch *const l = (const launch *)payload;
    gpur_cpu_entries_v1[l->kernel](0, 1, l->args);
}

static cudaError_t fake_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *entry, void **arguments)
{
#define SIZE(name) sizeof(gpur_##name##_args),
    static const size_t sizes[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(SIZE)};
    launch l = {.kernel = kernel_of(entry)};
    if (l.kernel == GPUR_KERNEL_COUNT) /* not a kernel of the library */
        return cudaErrorNotSupported;
    if (config->blockDim.x == 0 || config->blockDim.x % 32 != 0)
        return cudaErrorInvalidConfiguration;
    fake_launch.blocks = config->gridDim.x, fake_launch.threads = config->blockDim.x;
    fake_launch.attributes = config->numAttrs;
    if (config->numAttrs)
        fake_launch.attribute = config->attrs[0];
    if (!fake.runs)
        return cudaSuccess;
    memcpy(l.args, arguments[0], sizes[l.kernel]);
    return enqueue(config->stream, run_launch, &l, sizeof l);
}

/* ---- the module for matrix products ---- */
struct gpur_cudamath_plan {
    gpur_gemm_shape shape;
    int is_loaded; /* 1: it has run, so that its code is there */
};

typedef struct product {
    gpur_gemm_shape shape;
    gpur_cudamath_gemm arrays;
} product;

static void run_product(const void *payload)
{
    const product *const p = (const product *)payload;
    const gpur_gemm_shape *const s = &p->shape;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double sum = reference_gemm(s, p->arrays.a, p->arrays.b, p->arrays.c, i, j, NULL);
            sum += s->epilogue != GPUR_EPILOGUE_NONE ? (double)p->arrays.bias[j] : 0.0;
            p->arrays.c[i * s->ldc + j] = s->epilogue == GPUR_EPILOGUE_BIAS_RELU && sum < 0.0 ? 0.0f : (float)sum;
        }
}

static gpur_status plan_describe(const gpur_gemm_shape *shape, gpur_fail_fn fail, gpur_cudamath_plan **plan)
{
    *plan = (gpur_cudamath_plan *)calloc(1, sizeof **plan);
    if (!*plan)
        return fail(GPUR_OUT_OF_MEMORY, "no host memory for a plan");
    (*plan)->shape = *shape;
    alive++;
    return GPUR_OK;
}

static gpur_status plan_choose(void *handle, gpur_cudamath_plan *plan, gpur_fail_fn fail)
{
    if (refuses_unsafe())
        return fail(GPUR_DEVICE_ERROR, "an algorithm of a fake product was asked for during a capture");
    return GPUR_OK;
}

static void plan_destroy(gpur_cudamath_plan *plan)
{
    alive -= plan != NULL;
    free(plan);
}

static int64_t plan_workspace_bytes(const gpur_cudamath_plan *plan)
{
    return 0;
}

static gpur_status plan_run(void *handle, gpur_cudamath_plan *plan, const gpur_cudamath_gemm *arrays, void *stream,
                            gpur_fail_fn fail)
{
    const product p = {plan->shape, *arrays};
    if (!plan->is_loaded && refuses_unsafe())
        return fail(GPUR_DEVICE_ERROR, "a fake product runs for the first time during a capture");
    plan->is_loaded = 1;
    if (enqueue((cudaStream_t)stream, run_product, &p, sizeof p) == cudaSuccess)
        return GPUR_OK;
    return fail(GPUR_DEVICE_ERROR, "a fake product could not be enqueued");
}

static int64_t version(void)
{
    return 0;
}

static gpur_status open_module(void **handle, gpur_fail_fn fail)
{
    static int something;
    *handle = &something;
    alive++;
    return GPUR_OK;
}

static void close_module(void *handle)
{
    alive--;
}

static const gpur_cudamath table = {
    .module = {GPUR_CUDAMATH_VERSION, version, open_module, close_module},
    .plan_describe = plan_describe,
    .plan_choose = plan_choose,
    .plan_destroy = plan_destroy,
    .plan_workspace_bytes = plan_workspace_bytes,
    .plan_run = plan_run,
};

/* ---- what the linker puts in place of the runtime ---- */
/* The fake runtime runs one call at a time. */
static pthread_mutex_t runtime_mutex = PTHREAD_MUTEX_INITIALIZER;

void cuda_faults_begin(const char *only, int64_t nth, cudaError_t error, int for_ever)
{
    faults.only = only, faults.fail_at = nth, faults.error = error, faults.for_ever = for_ever;
    faults.calls = 0;
    faults.failed = NULL;
}

void cuda_faults_end(void)
{
    faults.fail_at = 0;
}

static int is_due(int counted)
{
    return faults.failed && faults.for_ever ? 1 : counted && faults.calls == faults.fail_at;
}

/* Counts a call; returns the error that it is to fail with, or cudaSuccess. */
static cudaError_t gate(const char *name)
{
    const int counted = !faults.only || strcmp(faults.only, name) == 0;
    faults.calls += counted;
    if (faults.on_call)
        faults.on_call(name);
    if (faults.fail_at == 0 || !is_due(counted))
        return cudaSuccess;
    if (!faults.failed)
        faults.failed = name;
    fake_last_error = faults.error;
    return faults.error;
}

static cudaError_t noted(cudaError_t error)
{
    pthread_mutex_unlock(&runtime_mutex);
    if (error != cudaSuccess)
        fake_last_error = error;
    return error;
}

/* Two steps, because some names are macros in CUDA 12. */
#define REPLACE_(name, parameters, arguments)                                                                          \
    cudaError_t __real_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters                                                                               \
    {                                                                                                                  \
        const cudaError_t error = gate(#name);                                                                         \
        if (error != cudaSuccess)                                                                                      \
            return error;                                                                                              \
        if (!faults.fake)                                                                                              \
            return __real_##name arguments;                                                                            \
        pthread_mutex_lock(&runtime_mutex);                                                                            \
        return noted(fake_##name arguments);                                                                           \
    }
#define REPLACE(name, parameters, arguments) REPLACE_(name, parameters, arguments)
RUNTIME_LIST(REPLACE)

/* Declares and begins the function that the linker puts in place of another, which is then __real_. */
#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

/* A capture ends even if this call fails, as in CUDA. */
WRAP(cudaError_t, cudaStreamEndCapture, cudaStream_t stream, cudaGraph_t *graph)
{
    const cudaError_t error = gate("cudaStreamEndCapture");
    const cudaError_t ended =
        faults.fake ? fake_cudaStreamEndCapture(stream, graph) : __real_cudaStreamEndCapture(stream, graph);
    if (error == cudaSuccess)
        return ended;
    if (*graph)
        (void)(faults.fake ? fake_cudaGraphDestroy(*graph) : __real_cudaGraphDestroy(*graph));
    *graph = NULL;
    fake_last_error = error;
    return error;
}

WRAP(cudaError_t, cudaPeekAtLastError, void)
{
    return faults.fake ? fake_last_error : __real_cudaPeekAtLastError();
}

WRAP(cudaError_t, cudaGetLastError, void)
{
    const cudaError_t last = fake_last_error;
    fake_last_error = cudaSuccess;
    return faults.fake ? last : __real_cudaGetLastError();
}

WRAP(gpur_status, gpur_math_library_open, gpur_cuda_library *library)
{
    if (!faults.fake)
        return __real_gpur_math_library_open(library);
    if (library->handle)
        return GPUR_OK;
    library->table = &table.module;
    snprintf(library->name, sizeof library->name, "cuBLASLt, fake");
    return table.module.open(&library->handle, NULL);
}

WRAP(gpur_status, gpur_dnn_library_open, gpur_cuda_library *library)
{
    return faults.fake ? gpur_fail(GPUR_UNAVAILABLE, "there is no fake cuDNN") : __real_gpur_dnn_library_open(library);
}
