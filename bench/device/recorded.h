/* SPDX-License-Identifier: MIT */
/* Work recorded once and replayed many times between two waits, so that what is measured is the device's time. */
#ifndef BENCH_DEVICE_RECORDED_H
#define BENCH_DEVICE_RECORDED_H

#include "bench/bench.h"
#include "device/device.h"

/* What `record` enqueues, `unroll` times in the long graph and `repetitions` times in one repeat of a sample. */
typedef struct recorded_work {
    gpur_record_fn record;
    void *context;
    int unroll;
    int64_t repetitions;
} recorded_work;

/* `figure` has all but its body and context. Where the device has not what `record` wants (GPUR_UNAVAILABLE, before it
 * has enqueued anything), the case is absent with the last error as the reason, and with any other failure before the
 * first sample it failed; the result is 0 then, else 1. */
int recorded_measure(bench_report *report, gpur_device *device, bench_figure figure, const recorded_work *work);

#endif
