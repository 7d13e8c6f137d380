/* SPDX-License-Identifier: MIT */
/* What the two files of oneDNN's convolutions share: conv_dnnl_make_cpu.c makes plans, conv_dnnl_cpu.c runs them. They
 * alone know oneDNN, version 2: what 3 changed is in the one that makes. */
#ifndef GPUR_DEVICE_CONV_DNNL_CPU_H
#define GPUR_DEVICE_CONV_DNNL_CPU_H

#include "device/cpu.h"

#include <oneapi/dnnl/dnnl.h>

/* Forward plans of 1, 2, 4, ... images and of all: acting asks for few of many. */
enum { GPUR_DNNL_SIZES = 32 };

/* The way for one number of images. */
typedef struct gpur_dnnl_size {
    int64_t images;
    dnnl_primitive_t conv, reorder; /* reorder: NULL where the weights lie as wanted */
    dnnl_memory_t x, y, w, w_inside, scratch;
    int64_t w_bytes, scratch_bytes; /* of work memory; w_bytes 0 without a reorder */
} gpur_dnnl_size;

typedef struct gpur_dnnl_conv {
    gpur_conv base;
    atomic_int holders; /* the handle, and each run under way: the plan may go before the work is done */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t bias;
    gpur_dnnl_size sizes[GPUR_DNNL_SIZES]; /* (count), smallest first */
    int count;
} gpur_dnnl_conv;

/* A failure leaves what gpur_dnnl_unmake takes. With the thread count in force that runs will have. */
gpur_status gpur_dnnl_make(gpur_dnnl_conv *conv);
void gpur_dnnl_unmake(gpur_dnnl_conv *conv);

/* Of calls that make a plan. "No such way" is GPUR_UNAVAILABLE, which lets the caller go by patches; no memory is
 * GPUR_OUT_OF_MEMORY. */
gpur_status gpur_dnnl_check(dnnl_status_t status, const char *call);
#define GPUR_TRY_DNNL(call) GPUR_TRY(gpur_dnnl_check(call, #call))

#endif
