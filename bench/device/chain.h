/* SPDX-License-Identifier: MIT */
/* A chain of tiny kernels, y += 1 again and again: each needs the one before. What a kernel costs that does nothing. */
#ifndef BENCH_DEVICE_CHAIN_H
#define BENCH_DEVICE_CHAIN_H

#include "device/device.h"

typedef struct chain {
    gpur_device *device;
    float *memory; /* y, the bias 1 */
    int length;
} chain;

void chain_open(chain *c, gpur_device *device);
void chain_close(chain *c);

/* A gpur_record_fn; `context` is the chain. */
gpur_status chain_record(void *context, gpur_stream *stream);

#endif
