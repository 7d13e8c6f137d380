/* SPDX-License-Identifier: MIT */
/* A recording of the CPU is the function that makes it: calling it again costs less than keeping what it did. */
#include "device/cpu.h"

typedef struct cpu_recording {
    gpur_recording base;
    gpur_record_fn record;
    void *context;
} cpu_recording;

gpur_status gpur_cpu_recording_create(gpur_device *device, gpur_record_fn record, void *context, int unroll,
                                      gpur_recording **out)
{
    (void)unroll;
    *out = NULL;
    cpu_recording *const recording = (cpu_recording *)gpur_host_alloc(device, sizeof *recording);
    if (!recording)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a recording of %zu bytes", sizeof *recording);
    recording->base.device = device;
    recording->record = record;
    recording->context = context;
    *out = &recording->base;
    return GPUR_OK;
}

void gpur_cpu_recording_destroy(gpur_recording *recording)
{
    gpur_host_free(recording->device, recording, sizeof(cpu_recording));
}

gpur_status gpur_cpu_recording_replay(gpur_recording *base, gpur_stream *stream, int64_t repetitions)
{
    const cpu_recording *const recording = (const cpu_recording *)base;
    for (int64_t i = 0; i < repetitions; i++)
        GPUR_TRY(recording->record(recording->context, stream));
    return GPUR_OK;
}
