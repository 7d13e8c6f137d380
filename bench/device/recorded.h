/* SPDX-License-Identifier: MIT */
/* Work recorded once and replayed many times, as a bench_body. */
#ifndef BENCH_DEVICE_RECORDED_H
#define BENCH_DEVICE_RECORDED_H

#include "device/device.h"

typedef struct recorded {
    gpur_stream *stream;
    gpur_recording *recording;
    int64_t repetitions; /* of one repeat */
} recorded;

/* Runs `record` once on the way, as a recording wants. Leaves the program, saying why, when something fails. */
void recorded_open(recorded *r, gpur_device *device, gpur_record_fn record, void *context, int unroll,
                   int64_t repetitions);
void recorded_close(recorded *r);

/* Replays, then waits. `context` is the recorded. */
void recorded_run(void *context, int64_t repeats);

#endif
