/* SPDX-License-Identifier: MIT */
/*
 * Batched append of 228-byte transitions against a memcpy of the same bytes into as much memory [Parr 2018, section 5:
 * 37.5 us a transition into the GPU table, 1.4 us into a list in RAM]. Floor: 228 B read and 228 B written a row.
 *
 * Then small transitions given field by field, with either kind of upload, against a memcpy of the six arrays. Floor:
 * 42 B read and a line of 64 B written a row.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <stdlib.h>
#include <string.h>

typedef struct rows_context {
    gpur_writer *writer;
    const melee_row *rows;
    int64_t count;
    unsigned char *memory; /* as large as the ring's rows */
    int64_t bytes, position;
} rows_context;

static void append_rows(void *context, int64_t repeats)
{
    const rows_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_writer_append(c->writer, c->count, c->rows, NULL), "append");
}

static void copy_rows(void *context, int64_t repeats)
{
    rows_context *const c = context;
    const int64_t bytes = c->count * (int64_t)sizeof *c->rows;
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + bytes > c->bytes)
            c->position = 0;
        memcpy(c->memory + c->position, c->rows, (size_t)bytes);
        c->position += bytes;
    }
}

static void run_rows(bench_report *report, gpur_device *device, int cases)
{
    static const int64_t counts[] = {256, 2000, 10000, 100000};
    gpur_replay *const replay = bench_melee_replay(device, MELEE_CAPACITY);
    melee_row *const rows = bench_new_melee_rows(counts[3]);
    rows_context c = {.rows = rows, .bytes = (int64_t)MELEE_CAPACITY * 256};
    c.memory = bench_host_memory(device, c.bytes);
    bench_melee_fill(replay, MELEE_CAPACITY);
    c.writer = bench_writer(replay);
    for (int i = 0; i < cases; i++) {
        char name[64];
        snprintf(name, sizeof name, "append %lld x 228 B", (long long)counts[i]);
        c.count = counts[i];
        bench_case one = bench_versus(name, "transition", (double)c.count, append_rows, "memcpy", copy_rows, &c);
        one.goal = 2.0;
        bench_run(report, &one);
    }
    gpur_writer_destroy(c.writer);
    gpur_replay_destroy(replay);
    bench_host_free(device, c.memory);
    free(rows);
}

typedef struct fields_context {
    gpur_writer *writer;
    void *arrays[SMALL_FIELDS]; /* (SMALL_BLOCK) */
    int64_t count;
    unsigned char *memory; /* (SMALL_CAPACITY, SMALL_BYTES) */
    int64_t position;
} fields_context;

static void append_fields(void *context, int64_t repeats)
{
    const fields_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_writer_append_fields(c->writer, c->count, (const void *const *)c->arrays, NULL, NULL),
                   "append by field");
}

static void copy_fields(void *context, int64_t repeats)
{
    fields_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + c->count > SMALL_CAPACITY)
            c->position = 0;
        unsigned char *to = c->memory + c->position * SMALL_BYTES;
        for (int f = 0; f < SMALL_FIELDS; f++) {
            const size_t bytes = (size_t)c->count * small_bytes[f];
            memcpy(to, c->arrays[f], bytes);
            to += bytes;
        }
        c->position += c->count;
    }
}

/* These have no goal: the memcpy does not transpose arrays into rows. */
static void run_fields(bench_report *report, gpur_device *device, int32_t upload, int cases)
{
    static const int64_t counts[] = {SMALL_BLOCK, 256};
    fields_context c = {.memory = bench_host_memory(device, (int64_t)SMALL_CAPACITY * SMALL_BYTES)};
    gpur_replay *const replay = bench_small_replay(device, SMALL_CAPACITY, upload);
    c.writer = bench_writer(replay);
    bench_small_block(c.arrays);
    for (int i = 0; i < cases; i++) {
        char name[64];
        snprintf(name, sizeof name, "fields %lld x 42 B, %s", (long long)counts[i],
                 upload == GPUR_UPLOAD_COPY ? "copy" : "scatter");
        c.count = counts[i];
        const bench_case one =
            bench_versus(name, "transition", (double)c.count, append_fields, "memcpy", copy_fields, &c);
        bench_run(report, &one);
    }
    gpur_writer_destroy(c.writer);
    gpur_replay_destroy(replay);
    bench_host_free(device, c.memory);
    bench_small_free(c.arrays);
}

int main(int argc, char **argv)
{
    const bench_options options = bench_parse(argc, argv, "batched append against a memcpy", NULL, 0);
    gpur_device *const device = bench_open(options.device, 0);
    const int cases = options.quick ? 2 : 4, small_cases = options.quick ? 1 : 2;
    bench_report report = bench_begin(&options, "append", bench_describe(device), cases + 2 * small_cases);
    run_rows(&report, device, cases);
    run_fields(&report, device, GPUR_UPLOAD_COPY, small_cases);
    run_fields(&report, device, GPUR_UPLOAD_SCATTER, small_cases);
    gpur_device_close(device);
    return bench_end(&report);
}
