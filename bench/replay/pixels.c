/* SPDX-License-Identifier: MIT */
/*
 * Sample + gather of B transitions of 4 frames of 84 x 84 bytes, frames stored once, against a memcpy of as many bytes
 * as a batch's obs and next_obs have, from memory that no cache holds. Floor: a memcpy reads every byte of the two
 * stacks; a gather reads five frames of eight and writes all eight. One thread. Times are the host's, with call and
 * wait; bench_device has those of a GPU alone.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <string.h>

enum { CAPACITY = 50000, QUICK_CAPACITY = 10000, MAX_ROWS = 512, ROW_BYTES = 2 * STACK_BYTES };

typedef struct pixels_context {
    gpur_device *device;
    int is_cuda;
    gpur_replay *replay;
    int64_t count;
    unsigned char *table; /* (table_bytes) of the device */
    unsigned char *out;   /* (MAX_ROWS, ROW_BYTES) of the device */
    int64_t table_bytes, position;
} pixels_context;

static void sample(void *context, int64_t repeats)
{
    const pixels_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_sample(c->replay, c->count);
}

static void copy(void *context, int64_t repeats)
{
    pixels_context *const c = context;
    const int64_t bytes = c->count * ROW_BYTES;
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + bytes > c->table_bytes)
            c->position = 0;
        if (c->is_cuda)
            bench_must(gpur_device_copy(c->device, c->out, c->table + c->position, bytes), "copy");
        else
            memcpy(c->out, c->table + c->position, (size_t)bytes);
        c->position += bytes;
    }
}

static void run_cases(bench_report *report, pixels_context *c, int64_t capacity, int32_t axis)
{
    static const int64_t counts[] = {32, MAX_ROWS};
    c->replay = bench_frames_replay(c->device, capacity, axis);
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "gather %lld x 4 frames, %s axis", (long long)counts[i],
                 axis == GPUR_STACK_LAST ? "last" : "first");
        c->count = counts[i];
        const bench_case one = bench_versus(name, "row", (double)c->count, sample, "memcpy of the same bytes", copy, c);
        bench_run(report, &one);
    }
    gpur_replay_destroy(c->replay);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_parse(argc, argv, "sample + gather of pixels against a memcpy", NULL, 0);
    const int64_t capacity = options.quick ? QUICK_CAPACITY : CAPACITY;
    gpur_device *const device = bench_open(options.device, 1);
    pixels_context c = {.device = device, .is_cuda = bench_is_cuda(device), .table_bytes = capacity * FRAME_BYTES};
    bench_must(gpur_device_alloc(device, c.table_bytes, (void **)&c.table), "memory of the baseline");
    bench_must(gpur_device_alloc(device, (int64_t)MAX_ROWS * ROW_BYTES, (void **)&c.out), "memory of the baseline");
    bench_report report = bench_begin(&options, "sample + gather of pixels", bench_describe(device), 4);
    run_cases(&report, &c, capacity, GPUR_STACK_FIRST);
    run_cases(&report, &c, capacity, GPUR_STACK_LAST);
    gpur_device_free(device, c.out);
    gpur_device_free(device, c.table);
    gpur_device_close(device);
    return bench_end(&report);
}
