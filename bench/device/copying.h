/* SPDX-License-Identifier: MIT */
#ifndef BENCH_DEVICE_COPYING_H
#define BENCH_DEVICE_COPYING_H

#include "device/device.h"

typedef struct copying {
    gpur_stream *stream;
    void *to, *from;
    int64_t bytes;
    gpur_device *device; /* wanted where a kernel does it */
} copying;

/* A bench_body: copies enqueued one behind the other, and waited for, as a stream of blocks takes them. */
void copying_run(void *context, int64_t repeats);

#endif
