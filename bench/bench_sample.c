/* SPDX-License-Identifier: MIT */
/*
 * Sample + gather of B rows of 57 numbers out of 1,000,000 against a bare copy loop that prefetches over as many random
 * rows of as large a table, whose indices it was given beforehand. Floor: four cache lines of DRAM a row. One thread.
 *
 * Then the same of small transitions, 42 bytes in six fields, out of 100,000: floor, a line read and 42 bytes stored a
 * row; and of frames, 56,458 bytes, out of 4,000, against a memcpy of each row: floor, its lines read and stored.
 */
#include "bench.h"
#include "frames.h"
#include "setup.h"
#include "small.h"

#include <stdlib.h>
#include <string.h>

enum { PITCH = 256, SMALL_PITCH = 64, INDICES = 1 << 20, AHEAD = 12, MOST = 4096, MOST_FRAMES = 256 };

typedef struct sample_context {
    gpur_replay *replay;
    int64_t count;
    const unsigned char *table; /* (rows, pitch of the replay's ring) */
    const int32_t *indices;     /* (INDICES) */
    unsigned char *out;         /* (count, 228), (count, 42) or (count, 56458) */
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
    gpur_batch *last = NULL;
    bench_must(gpur_replay_sample(c->replay, 1, NULL, &last), "sample");
    bench_must(gpur_batch_sync(last), "sync");
    gpur_batch_release(last);
}

static inline void prefetch_row(const unsigned char *row, int64_t pitch)
{
    for (int64_t line = 0; line < pitch; line += 64)
        __builtin_prefetch(row + line);
}

/* Inlined, so that pitch and bytes are constants. */
static inline void copy_rows(sample_context *c, int64_t repeats, int64_t pitch, size_t bytes)
{
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + c->count > INDICES)
            c->position = 0;
        const int32_t *const index = c->indices + c->position;
        for (int64_t b = 0; b < AHEAD && b < c->count; b++)
            prefetch_row(c->table + (int64_t)index[b] * pitch, pitch);
        for (int64_t b = 0; b < c->count; b++) {
            if (b + AHEAD < c->count) /* a batch stands alone: nobody knows the next one's rows */
                prefetch_row(c->table + (int64_t)index[b + AHEAD] * pitch, pitch);
            memcpy(c->out + b * (int64_t)bytes, c->table + (int64_t)index[b] * pitch, bytes);
        }
        c->position += c->count;
    }
}

static void copy(void *context, int64_t repeats)
{
    copy_rows((sample_context *)context, repeats, PITCH, sizeof(melee_row));
}

static void copy_small(void *context, int64_t repeats)
{
    copy_rows((sample_context *)context, repeats, SMALL_PITCH, SMALL_BYTES);
}

/* Rows that are long enough for the hardware to fetch ahead by itself. */
static void copy_frames(void *context, int64_t repeats)
{
    sample_context *const c = context;
    for (int64_t i = 0; i < repeats; i++, c->position += c->count) {
        if (c->position + c->count > INDICES)
            c->position = 0;
        for (int64_t b = 0; b < c->count; b++) {
            const int64_t row = c->indices[c->position + b];
            memcpy(c->out + b * FRAMES_BYTES, c->table + row * FRAMES_PITCH, FRAMES_BYTES);
        }
    }
}

static int32_t *random_indices(uint64_t rows)
{
    int32_t *const indices = malloc(INDICES * sizeof *indices);
    uint64_t state = 7;
    for (int64_t i = 0; indices && i < INDICES; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        indices[i] = (int32_t)((state >> 32) * rows >> 32);
    }
    if (!indices)
        bench_must(GPUR_OUT_OF_MEMORY, "indices");
    return indices;
}

/* Every page of both sides once. A machine may have put aside what it was not asked for lately (a virtual one is not
 * told), and the first look at each such page takes as long as a thousand rows: the first case would measure that. */
static void look_at_all(sample_context *c, int64_t rows, int64_t pitch, int64_t most)
{
    enum { PAGE = 4096, EACH = 4 };
    const volatile unsigned char *const table = c->table;
    const int64_t pages = rows * pitch / PAGE;
    for (int64_t page = 0; page < pages; page++)
        (void)table[page * PAGE];
    c->count = most;
    sample(c, EACH * (pages < rows ? pages : rows) / most + 1);
}

/* Small rows have no goal: what the bare loop leaves out, a draw and nine arrays, is then most of the work. */
static void run_case(bench_report *report, sample_context *c, int64_t count, bench_body bare)
{
    char name[64];
    const int small = bare == copy_small, frames = bare == copy_frames;
    snprintf(name, sizeof name, "sample + gather %lld x %s", (long long)count,
             small    ? "42 B"
             : frames ? "56 kB"
                      : "57");
    c->count = count;
    const bench_case batch = {.name = name, .baseline = frames ? "memcpy of each row" : "prefetching copy loop",
                              .items = (double)count, .item = "row", .goal = small ? 0 : 1.5, .ours = sample,
                              .bare = bare, .context = c};
    bench_run(report, &batch);
}

static void run_cases(bench_report *report, gpur_device *device, sample_context *c, int cases)
{
    static const int64_t counts[] = {32, 4096, 64, 128, 256, 512, 1024, 2048};
    unsigned char *const table = bench_host_memory(device, (int64_t)MELEE_CAPACITY * PITCH);
    int32_t *const indices = random_indices(MELEE_CAPACITY);
    c->table = table, c->indices = indices;
    c->replay = bench_melee_replay(device, MELEE_CAPACITY);
    bench_fill(c->replay, MELEE_CAPACITY);
    look_at_all(c, MELEE_CAPACITY, PITCH, MOST);
    for (int i = 0; i < cases; i++)
        run_case(report, c, counts[i], copy);
    gpur_replay_destroy(c->replay);
    bench_host_free(device, table);
    free(indices);
}

static void run_small_cases(bench_report *report, gpur_device *device, sample_context *c, int cases)
{
    static const int64_t counts[] = {32, 1024, 256, 4096};
    unsigned char *const table = bench_host_memory(device, (int64_t)SMALL_CAPACITY * SMALL_PITCH);
    int32_t *const indices = random_indices(SMALL_CAPACITY);
    gpur_writer *writer = NULL;
    c->table = table, c->indices = indices, c->position = 0;
    c->replay = small_replay(device, GPUR_FEED_COPY, &writer);
    look_at_all(c, SMALL_CAPACITY, SMALL_PITCH, MOST);
    for (int i = 0; i < cases; i++)
        run_case(report, c, counts[i], copy_small);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(c->replay);
    bench_host_free(device, table);
    free(indices);
}

static void run_frame_cases(bench_report *report, gpur_device *device)
{
    unsigned char *const table = bench_host_memory(device, (int64_t)FRAMES_CAPACITY * FRAMES_PITCH);
    unsigned char *const out = bench_host_memory(device, (int64_t)MOST_FRAMES * FRAMES_BYTES);
    int32_t *const indices = random_indices(FRAMES_CAPACITY);
    sample_context frames = {.table = table, .indices = indices, .out = out, .replay = frames_replay(device)};
    look_at_all(&frames, FRAMES_CAPACITY, FRAMES_PITCH, MOST_FRAMES);
    run_case(report, &frames, 32, copy_frames);
    run_case(report, &frames, MOST_FRAMES, copy_frames);
    gpur_replay_destroy(frames.replay);
    bench_host_free(device, out);
    bench_host_free(device, table);
    free(indices);
}

int main(int argc, char **argv)
{
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "sample + gather against a bare prefetching copy loop");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 1);
    sample_context c = {.out = malloc(MOST * sizeof(melee_row))};
    if (!c.out)
        bench_must(GPUR_OUT_OF_MEMORY, "baseline memory");
    const int cases = options.quick ? 2 : 8, small_cases = options.quick ? 2 : 4;
    bench_describe(device, settings, sizeof settings);
    if (bench_begin(&report, &options, "sample + gather", settings, cases + small_cases + 2))
        return 1;
    run_cases(&report, device, &c, cases);
    run_small_cases(&report, device, &c, small_cases);
    run_frame_cases(&report, device);
    gpur_device_close(device);
    free(c.out);
    return bench_end(&report);
}
