/* SPDX-License-Identifier: MIT */
/*
 * Sample + gather of B rows of 57 numbers out of 1,000,000 against a bare copy loop that prefetches over as many random
 * rows of as large a table, with the indices given. Floor: four cache lines of DRAM a row. One thread.
 *
 * Then the same of small transitions, 42 bytes in six fields, out of 100,000: floor, a line read and 42 bytes stored a
 * row; and of two stacks of frames, 56,458 bytes, out of 4,000, against a memcpy of each row: floor, its lines read and
 * stored.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#include <stdlib.h>
#include <string.h>

enum { INDICES = 1 << 20, AHEAD = 12, MAX_ROWS = 4096, MAX_STACKS = 256 };
enum { MELEE_PITCH = 256, SMALL_PITCH = 64 };
enum { STACKS_CAPACITY = 4000, STACKS_BYTES = 2 * STACK_BYTES + 10, STACKS_PITCH = 56512 };

typedef struct sample_context {
    gpur_replay *replay;
    int64_t count;
    unsigned char *table; /* (rows, pitch of the replay's ring) */
    int32_t *indices;     /* (INDICES) */
    unsigned char *out;   /* (count) rows without padding */
    int64_t position;
} sample_context;

static void sample(void *context, int64_t repeats)
{
    const sample_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        gpur_batch *batch = NULL;
        bench_must(gpur_replay_sample(c->replay, c->count, NULL, &batch), "sample");
        gpur_batch_release(batch);
    }
    bench_sample(c->replay, 1);
}

static inline void prefetch_row(const unsigned char *row, int64_t pitch)
{
    for (int64_t line = 0; line < pitch; line += 64)
        __builtin_prefetch(row + line);
}

/* Inlined, so that pitch and bytes are constants. */
static inline void copy_prefetched(sample_context *c, int64_t repeats, int64_t pitch, size_t bytes)
{
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + c->count > INDICES)
            c->position = 0;
        const int32_t *const index = c->indices + c->position;
        for (int64_t b = 0; b < AHEAD && b < c->count; b++)
            prefetch_row(c->table + (int64_t)index[b] * pitch, pitch);
        for (int64_t b = 0; b < c->count; b++) {
            if (b + AHEAD < c->count) /* not into the next batch, whose rows would not be known yet */
                prefetch_row(c->table + (int64_t)index[b + AHEAD] * pitch, pitch);
            memcpy(c->out + b * (int64_t)bytes, c->table + (int64_t)index[b] * pitch, bytes);
        }
        c->position += c->count;
    }
}

static void copy_melee(void *context, int64_t repeats)
{
    copy_prefetched(context, repeats, MELEE_PITCH, sizeof(melee_row));
}

static void copy_small(void *context, int64_t repeats)
{
    copy_prefetched(context, repeats, SMALL_PITCH, SMALL_BYTES);
}

/* Rows of this length are prefetched by the hardware. */
static void copy_stacks(void *context, int64_t repeats)
{
    sample_context *const c = context;
    for (int64_t i = 0; i < repeats; i++, c->position += c->count) {
        if (c->position + c->count > INDICES)
            c->position = 0;
        for (int64_t b = 0; b < c->count; b++) {
            const int64_t row = c->indices[c->position + b];
            memcpy(c->out + b * STACKS_BYTES, c->table + row * STACKS_PITCH, STACKS_BYTES);
        }
    }
}

/* What one kind of transition is compared with. */
typedef struct table_kind {
    const char *name, *baseline;
    int64_t rows, pitch, bytes, largest;
    double
        goal; /* 0 for small rows: the bare loop leaves out the sampling and nine arrays, which are most of the work */
    bench_body copy;
} table_kind;

static const table_kind melee = {
    "57", "prefetching copy loop", MELEE_CAPACITY, MELEE_PITCH, sizeof(melee_row), MAX_ROWS, 1.5, copy_melee};
static const table_kind small = {
    "42 B", "prefetching copy loop", SMALL_CAPACITY, SMALL_PITCH, SMALL_BYTES, MAX_ROWS, 0, copy_small};
static const table_kind stacks = {
    "56 kB", "memcpy of each row", STACKS_CAPACITY, STACKS_PITCH, STACKS_BYTES, MAX_STACKS, 1.5, copy_stacks};

/* Touches every page of both sides. A virtual machine may have reclaimed pages that were not used lately, and the first
 * access to such a page takes as long as a thousand rows: the first case would measure that. */
static void touch_pages(sample_context *c, const table_kind *kind)
{
    enum { PAGE = 4096, DRAWS_A_PAGE = 4 };
    const volatile unsigned char *const table = c->table;
    const int64_t pages = kind->rows * kind->pitch / PAGE;
    for (int64_t page = 0; page < pages; page++)
        (void)table[page * PAGE];
    c->count = kind->largest;
    sample(c, DRAWS_A_PAGE * (pages < kind->rows ? pages : kind->rows) / kind->largest + 1);
}

static void run_cases(bench_report *report, gpur_device *device, gpur_replay *replay, const table_kind *kind,
                      const int64_t *counts, int cases)
{
    uint64_t state = 7;
    sample_context c = {.replay = replay, .table = bench_host_memory(device, kind->rows * kind->pitch)};
    c.indices = bench_allocate(INDICES * sizeof *c.indices);
    c.out = bench_host_memory(device, kind->largest * kind->bytes);
    for (int64_t i = 0; i < INDICES; i++)
        c.indices[i] = (int32_t)bench_random_below(&state, kind->rows);
    touch_pages(&c, kind);
    for (int i = 0; i < cases; i++) {
        char name[64];
        snprintf(name, sizeof name, "sample + gather %lld x %s", (long long)counts[i], kind->name);
        c.count = counts[i];
        bench_case one = bench_versus(name, "row", (double)c.count, sample, kind->baseline, kind->copy, &c);
        one.goal = kind->goal;
        bench_run(report, &one);
    }
    bench_host_free(device, c.out);
    bench_host_free(device, c.table);
    free(c.indices);
    gpur_replay_destroy(replay);
}

int main(int argc, char **argv)
{
    static const int64_t melee_counts[] = {32, 4096, 64, 128, 256, 512, 1024, 2048};
    static const int64_t small_counts[] = {32, 1024, 256, 4096}, stack_counts[] = {32, MAX_STACKS};
    const bench_options options = bench_parse(argc, argv, "sample + gather against a copy loop", NULL, 0);
    const int cases = options.quick ? 2 : 8, small_cases = options.quick ? 2 : 4;
    gpur_device *const device = bench_open(options.device, 1);
    bench_report report = bench_begin(&options, "sample + gather", bench_describe(device), cases + small_cases + 2);
    gpur_replay *const replay = bench_melee_replay(device, MELEE_CAPACITY);
    bench_melee_fill(replay, MELEE_CAPACITY);
    run_cases(&report, device, replay, &melee, melee_counts, cases);
    run_cases(&report, device, bench_small_replay(device, SMALL_CAPACITY, GPUR_UPLOAD_COPY), &small, small_counts,
              small_cases);
    run_cases(&report, device, bench_stacks_replay(device, STACKS_CAPACITY, GPUR_STACK_LAST, 6), &stacks, stack_counts,
              2);
    gpur_device_close(device);
    return bench_end(&report);
}
