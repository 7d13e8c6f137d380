/* SPDX-License-Identifier: MIT */
/* Copies, fills and launches on the CPU. */
#include "device/cpu.h"
#include "kernels/copy_past.h"

#include <string.h>

typedef struct copy_op {
    void *to;
    const void *from;
    int64_t bytes;
} copy_op;

static gpur_status run_copy(gpur_stream *stream, void *payload)
{
    const copy_op *const op = (const copy_op *)payload;
    (void)stream;
    memcpy(op->to, op->from, (size_t)op->bytes);
    return GPUR_OK;
}

static gpur_status run_copy_past(gpur_stream *stream, void *payload)
{
    const copy_op *const op = (const copy_op *)payload;
    (void)stream;
    gpur_memcpy_past(op->to, op->from, op->bytes);
    return GPUR_OK;
}

static copy_op *begin_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    copy_op *const op = (copy_op *)gpur_cpu_begin(stream);
    op->to = to, op->from = from, op->bytes = bytes;
    return op;
}

gpur_status gpur_cpu_copy(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    begin_copy(stream, to, from, bytes);
    return gpur_cpu_end(stream, run_copy);
}

gpur_status gpur_cpu_copy_past(gpur_stream *stream, void *to, const void *from, int64_t bytes)
{
    begin_copy(stream, to, from, bytes);
    return gpur_cpu_end(stream, run_copy_past);
}

typedef struct fill_op {
    void *memory;
    int64_t bytes;
    int byte;
} fill_op;

static gpur_status run_fill(gpur_stream *stream, void *payload)
{
    const fill_op *const op = (const fill_op *)payload;
    (void)stream;
    memset(op->memory, op->byte, (size_t)op->bytes);
    return GPUR_OK;
}

gpur_status gpur_cpu_fill(gpur_stream *stream, void *memory, int byte, int64_t bytes)
{
    fill_op *const op = (fill_op *)gpur_cpu_begin(stream);
    op->memory = memory, op->byte = byte, op->bytes = bytes;
    return gpur_cpu_end(stream, run_fill);
}

typedef struct launch_op {
    gpur_grid grid;
    int kernel;
    const void *args; /* the caller's where the launch is carried out before the call returns, else a copy */
    int large;        /* 1: it lies in one of the stream's larger places, 0: in `copy` */
    _Alignas(16) unsigned char copy[GPUR_CPU_ARGS];
} launch_op;
_Static_assert(sizeof(launch_op) <= GPUR_CPU_PAYLOAD, "a launch must fit the payload of an operation");

static gpur_status run_launch(gpur_stream *stream, void *payload)
{
    const launch_op *const op = (const launch_op *)payload;
    const gpur_status status = gpur_cpu_run_kernel(stream, op->kernel, op->grid, op->args);
    if (op->large)
        gpur_cpu_large_done(stream);
    return status;
}

gpur_status gpur_cpu_launch(gpur_stream *stream, int kernel, gpur_grid grid, const void *args, size_t bytes)
{
    launch_op *const op = (launch_op *)gpur_cpu_begin(stream);
    const int at_once = stream->device->config.executor == GPUR_EXECUTOR_INLINE;
    op->grid = grid, op->kernel = kernel, op->args = args;
    op->large = !at_once && bytes > sizeof op->copy;
    if (!at_once)
        op->args = memcpy(op->large ? gpur_cpu_large(stream) : op->copy, args, bytes);
    return gpur_cpu_end(stream, run_launch);
}
