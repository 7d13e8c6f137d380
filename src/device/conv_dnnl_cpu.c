/* SPDX-License-Identifier: MIT */
/* The CPU's convolutions by oneDNN, enqueued. oneDNN runs in the thread that calls it; pieces of the images run on the
 * device's threads. */
#include "device/conv_dnnl_cpu.h"
#include "device/omp_cpu.h"

#include <string.h>

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

/* Its code is made for as many threads as OpenMP would then use, so there must be one there, too. */
static gpur_status make_for_one_thread(gpur_dnnl_conv *c)
{
    const int before = gpur_omp_take_one_thread();
    const gpur_status status = gpur_dnnl_make(c);
    gpur_omp_give_back(before);
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
    const gpur_status status = make_for_one_thread(c);
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

/* Work memory: places of weights, then scratch of each piece. Forward and to the input, whole pieces have the first
 * place and what is left behind them the second; to the weights, each piece has a place for its part of the
 * gradient. */
static int64_t w_places(const gpur_dnnl_conv *c)
{
    const int64_t pieces = gpur_dnnl_pieces(c, c->base.shape.images);
    return c->base.shape.pass == GPUR_CONV_TO_WEIGHT ? pieces : 2;
}

int64_t gpur_cpu_conv_workspace_bytes(const gpur_conv *conv)
{
    const gpur_dnnl_conv *const c = (const gpur_dnnl_conv *)conv;
    return w_places(c) * c->w_bytes + gpur_dnnl_pieces(c, c->base.shape.images) * c->scratch_bytes;
}

/* The run that pieces belong to. */
typedef struct conv_run {
    const gpur_dnnl_conv *conv;
    const conv_op *op;
    const gpur_dnnl_size *whole, *last; /* of whole pieces, and of the last piece */
    int64_t pieces;
    _Atomic dnnl_status_t failure; /* dnnl_success: none */
} conv_run;

static float *w_place(const conv_run *r, int64_t place)
{
    return (float *)((char *)r->op->workspace + place * r->conv->w_bytes);
}

/* Where a piece's weights lie as oneDNN wants them. */
static float *w_of(const conv_run *r, const gpur_dnnl_size *size, int64_t piece)
{
    if (r->conv->base.shape.pass == GPUR_CONV_TO_WEIGHT)
        return size->reorder || r->pieces > 1 ? w_place(r, piece) : r->op->arrays.w;
    return size->reorder ? w_place(r, size != r->whole) : r->op->arrays.w;
}

static int64_t floats_x(const gpur_conv_shape *s)
{
    return s->height * s->width * s->channels;
}

static int64_t floats_y(const gpur_conv_shape *s)
{
    return gpur_conv_out(s->height, s->kernel, s->stride, s->padding) *
           gpur_conv_out(s->width, s->kernel, s->stride, s->padding) * s->filters;
}

static dnnl_status_t place(const conv_run *r, const gpur_dnnl_size *size, const gpur_dnnl_piece *own, int64_t piece)
{
    const gpur_dnnl_conv *const c = r->conv;
    const int64_t images = piece * c->piece;
    char *const scratch = (char *)r->op->workspace + w_places(c) * c->w_bytes + piece * c->scratch_bytes;
    const struct {
        dnnl_memory_t memory;
        void *at;
    } places[] = {{own->x, (float *)r->op->arrays.x + images * floats_x(&c->base.shape)},
                  {own->y, r->op->arrays.y + images * floats_y(&c->base.shape)},
                  {own->w, w_of(r, size, piece)},
                  {own->scratch, scratch}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const dnnl_status_t status = dnnl_memory_set_data_handle(places[i].memory, places[i].at);
        if (status != dnnl_success)
            return status;
    }
    return dnnl_success;
}

static dnnl_status_t convolve(const conv_run *r, int64_t piece)
{
    const gpur_conv_shape *const s = &r->conv->base.shape;
    const gpur_dnnl_size *const size = piece == r->pieces - 1 ? r->last : r->whole;
    const gpur_dnnl_piece *const own = &size->pieces[size == r->whole ? piece : 0];
    const dnnl_exec_arg_t arguments[] = {
        {s->pass == GPUR_CONV_TO_INPUT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, own->x},
        {s->pass == GPUR_CONV_TO_WEIGHT ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, own->w},
        {s->pass == GPUR_CONV_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, own->y},
        {DNNL_ARG_SCRATCHPAD, own->scratch},
        {DNNL_ARG_BIAS, r->conv->bias}, /* the last: not there without an epilogue */
    };
    const dnnl_status_t status = place(r, size, own, piece);
    return status == dnnl_success
               ? dnnl_primitive_execute(size->conv, own->stream, s->epilogue == GPUR_EPILOGUE_NONE ? 4 : 5, arguments)
               : status;
}

static void run_piece(int64_t piece, int64_t pieces, const void *args)
{
    conv_run *const r = *(conv_run *const *)args;
    (void)pieces;
    const int before = gpur_omp_take_one_thread();
    const dnnl_status_t status = convolve(r, piece);
    gpur_omp_give_back(before);
    if (status != dnnl_success)
        atomic_store(&r->failure, status);
}

static dnnl_status_t reorder(const conv_run *r, const gpur_dnnl_size *size, int64_t piece)
{
    const int to_weight = r->conv->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, to_weight ? size->w_inside : size->w_outside},
                                         {DNNL_ARG_TO, to_weight ? size->w_outside : size->w_inside}};
    if (!size->reorder)
        return dnnl_success;
    dnnl_status_t status = dnnl_memory_set_data_handle(size->w_outside, r->op->arrays.w);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(size->w_inside, w_of(r, size, piece));
    return status == dnnl_success ? dnnl_primitive_execute(size->reorder, r->conv->stream, 2, arguments) : status;
}

typedef struct w_sum {
    float *to;          /* may be parts[0] */
    const float *parts; /* (count, pitch) */
    int64_t count, floats, pitch;
} w_sum;

/* In the order of the pieces, whoever adds. */
static void add_parts(int64_t block, int64_t blocks, const void *args)
{
    const w_sum *const s = (const w_sum *)args;
    const int64_t first = s->floats * block / blocks, last = s->floats * (block + 1) / blocks;
    if (s->to != s->parts)
        memcpy(s->to + first, s->parts + first, (size_t)(last - first) * sizeof *s->to);
    for (int64_t part = 1; part < s->count; part++)
        for (int64_t i = first; i < last; i++)
            s->to[i] += s->parts[part * s->pitch + i];
}

/* What the pieces made of the weights' gradient becomes one: in the first place where it is still to be reordered. */
static void sum_pieces(const conv_run *r)
{
    enum { FLOATS_A_BLOCK = 16384 };
    const w_sum sum = {.to = r->whole->reorder ? w_place(r, 0) : r->op->arrays.w,
                       .parts = w_place(r, 0),
                       .count = r->pieces,
                       .floats = r->conv->w_floats,
                       .pitch = r->conv->w_bytes / (int64_t)sizeof(float)};
    const int64_t blocks = sum.count * sum.floats / FLOATS_A_BLOCK, threads = r->conv->base.device->threads;
    const int64_t shared = blocks < threads ? blocks : threads;
    gpur_cpu_run_parts(r->conv->base.device, shared > 1 ? shared : 1, GPUR_IN_MEMORY, add_parts, &sum);
}

static dnnl_status_t run(conv_run *r)
{
    conv_run *const args = r;
    const int to_weight = r->conv->base.shape.pass == GPUR_CONV_TO_WEIGHT;
    dnnl_status_t status = dnnl_success;
    if (!to_weight && (r->pieces > 1 || r->whole == r->last))
        status = reorder(r, r->whole, 0);
    if (status == dnnl_success && !to_weight && r->last != r->whole)
        status = reorder(r, r->last, r->pieces - 1);
    if (status != dnnl_success)
        return status;
    gpur_cpu_run_parts(r->conv->base.device, r->pieces, GPUR_IN_MEMORY, run_piece, &args);
    if (atomic_load(&r->failure) != dnnl_success || !to_weight)
        return atomic_load(&r->failure);
    if (r->pieces > 1)
        sum_pieces(r);
    return reorder(r, r->whole, 0);
}

static const gpur_dnnl_size *size_for(const gpur_dnnl_conv *c, int64_t images)
{
    const gpur_dnnl_size *size = c->sizes;
    while (size->images < images)
        size++;
    return size;
}

static gpur_status run_for_one_thread(gpur_stream *stream, void *payload)
{
    const conv_op *const op = (const conv_op *)payload;
    const gpur_dnnl_conv *const c = op->conv;
    const int64_t left = op->images % c->piece;
    (void)stream;
    conv_run r = {.conv = c, .op = op, .pieces = gpur_dnnl_pieces(c, op->images), .failure = dnnl_success};
    r.whole = &c->sizes[c->count - 1];
    r.last = left > 0 ? size_for(c, left) : r.whole;
    dnnl_status_t status = dnnl_memory_set_data_handle(c->bias, (void *)(uintptr_t)op->arrays.bias);
    const int before = gpur_omp_take_one_thread();
    if (status == dnnl_success)
        status = run(&r);
    gpur_omp_give_back(before);
    let_go(op->conv);
    /* Work that was enqueued cannot be refused any more: whatever happens now is the device's failure. */
    return status == dnnl_success
               ? GPUR_OK
               : gpur_fail(GPUR_DEVICE_ERROR, "oneDNN could not run a convolution%s: status %d",
                           status == dnnl_out_of_memory ? " for want of memory" : "", (int)status);
}

gpur_status gpur_cpu_conv_run(gpur_conv *conv, gpur_stream *stream, int64_t images, const gpur_conv_arrays *arrays,
                              void *workspace)
{
    conv_op *const op = (conv_op *)gpur_cpu_begin(stream);
    op->conv = (gpur_dnnl_conv *)conv, op->images = images, op->arrays = *arrays, op->workspace = workspace;
    atomic_fetch_add(&op->conv->holders, 1);
    return gpur_cpu_end(stream, run_for_one_thread);
}

const char *gpur_cpu_conv_library(gpur_device *device)
{
    (void)device;
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}
