/* SPDX-License-Identifier: MIT */
/* A step counter in device memory, as a learner has one: moved on behind recorded draws, no replay draws the rows of
 * another, which would then lie in the caches. */
#ifndef BENCH_DEVICE_COUNTER_H
#define BENCH_DEVICE_COUNTER_H

#include "device/device.h"

typedef struct step_counter {
    gpur_device *device;
    struct counted *memory; /* on the device */
} step_counter;

void counter_open(step_counter *c, gpur_device *device);
void counter_close(step_counter *c);

/* (1) in device memory. */
const uint64_t *counter_step(const step_counter *c);

/* Enqueues the last kernel of a train step, which adds 1. */
gpur_status counter_move(const step_counter *c, gpur_stream *stream);

#endif
