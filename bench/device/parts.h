/* SPDX-License-Identifier: MIT */
/*
 * The parts of bench_device. They time what a device does below the public header: the kernels and library calls that a
 * recorded step is made of, and graphs of whole steps. Work is recorded once and replayed many times between two
 * waits, so that a time is the device's, without the host.
 */
#pragma once

#include "bench/lib/bench.h"
#include "bench/lib/setup.h"
#include "device/device.h"

/* `replay` is bench_melee_replay's, full of `rows`, and `prioritized` the same with priorities. */
void bench_gathers(bench_report *report, gpur_device *device, gpur_replay *replay, gpur_replay *prioritized,
                   int64_t rows);                             /* and updates of priorities */
void bench_pixels(bench_report *report, gpur_device *device); /* frames to what a first convolution reads */
void bench_steps(bench_report *report, gpur_device *device, gpur_replay *replay,
                 gpur_replay *prioritized); /* and nodes of a graph */

enum { MAX_ROWS = 4096 }; /* of a sample of theirs */

typedef struct recorded {
    gpur_stream *stream;
    gpur_graph *graph;
    int64_t repetitions; /* of one repeat of a sample */
} recorded;

/* Runs `record` once, so that libraries load their code, and records it `unroll` times a graph. On any status
 * recorded_close takes what was opened. */
gpur_status recorded_open(recorded *r, gpur_device *device, gpur_record_fn record, void *context, int unroll,
                          int64_t repetitions);
void recorded_close(recorded *r);
void recorded_run(void *context, int64_t repeats); /* a bench_body; `context` is the recorded */

/* Copies of `bytes` within the device, to compare kernels with: `count` of them, each from memory of its own, of up to
 * 256 MB in all, so that large ones do not find their source in a cache. */
typedef struct device_copy {
    gpur_device *device;
    unsigned char *memory; /* (count + 1, bytes) */
    int64_t bytes, count;
} device_copy;

device_copy device_copy_open(gpur_device *device, int64_t bytes);
void device_copy_close(device_copy *c);
gpur_status device_copy_record(void *context, gpur_stream *stream); /* a gpur_record_fn */

/* A step counter in device memory, as a learner has one. Recorded samples read it, and count_step behind them adds 1,
 * so that no repetition samples the rows of the one before, which would lie in the caches. */
typedef struct step_counter {
    gpur_device *device;
    struct counted *memory; /* on the device */
} step_counter;

void step_counter_open(step_counter *c, gpur_device *device);
void step_counter_close(step_counter *c);
const uint64_t *step_counter_value(const step_counter *c); /* (1) in device memory */
gpur_status count_step(const step_counter *c, gpur_stream *stream);

/* Publishes what was appended, so that recorded samples see it. */
void publish_rows(gpur_replay *replay, int64_t batch);
