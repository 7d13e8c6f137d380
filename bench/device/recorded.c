/* SPDX-License-Identifier: MIT */
#include "bench/device/recorded.h"
#include "bench/device/absent.h"
#include "bench/setup.h"

typedef struct recorded {
    gpur_stream *stream;
    gpur_recording *recording;
    int64_t repetitions;
} recorded;

/* The first run loads what libraries load at their first call, as a recording wants. */
static gpur_status open_parts(recorded *r, gpur_device *device, const recorded_work *work)
{
    r->repetitions = work->repetitions;
    GPUR_TRY(gpur_stream_create(device, &r->stream));
    GPUR_TRY(work->record(work->context, r->stream));
    GPUR_TRY(gpur_stream_sync(r->stream));
    return gpur_recording_create(device, work->record, work->context, work->unroll, &r->recording);
}

static void close_parts(recorded *r)
{
    gpur_recording_destroy(r->recording);
    gpur_stream_destroy(r->stream);
}

static void replay(void *context, int64_t repeats)
{
    const recorded *const r = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_recording_replay(r->recording, r->stream, r->repetitions), "replay");
    bench_must(gpur_stream_sync(r->stream), "sync");
}

int recorded_measure(bench_report *report, gpur_device *device, bench_figure figure, const recorded_work *work)
{
    recorded r = {NULL, NULL, 0};
    const gpur_status status = open_parts(&r, device, work);
    if (status != GPUR_OK) {
        bench_missing(report, figure.name, status);
    } else {
        figure.body = replay, figure.context = &r;
        bench_measure(report, &figure);
    }
    close_parts(&r);
    return status == GPUR_OK;
}
