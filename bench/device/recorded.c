/* SPDX-License-Identifier: MIT */
#include "bench/device/recorded.h"
#include "bench/setup.h"

void recorded_open(recorded *r, gpur_device *device, gpur_record_fn record, void *context, int unroll,
                   int64_t repetitions)
{
    const recorded none = {NULL, NULL, repetitions};
    *r = none;
    bench_must(gpur_stream_create(device, &r->stream), "stream");
    bench_must(record(context, r->stream), "first run of what is recorded");
    bench_must(gpur_stream_sync(r->stream), "first run of what is recorded");
    bench_must(gpur_recording_create(device, record, context, unroll, &r->recording), "recording");
}

void recorded_close(recorded *r)
{
    gpur_recording_destroy(r->recording);
    gpur_stream_destroy(r->stream);
}

void recorded_run(void *context, int64_t repeats)
{
    const recorded *const r = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_recording_replay(r->recording, r->stream, r->repetitions), "replay");
    bench_must(gpur_stream_sync(r->stream), "sync");
}
