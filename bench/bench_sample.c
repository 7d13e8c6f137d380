/* SPDX-License-Identifier: MIT */
/*
 * Sample + gather of B rows of 57 numbers out of 1,000,000 against a bare copy loop that prefetches over as many random
 * rows of as large a table, whose indices it was given beforehand. Floor: four cache lines of DRAM a row. One thread.
 */
#include "bench.h"
#include "setup.h"

#include <stdlib.h>
#include <string.h>

enum { PITCH = 256, INDICES = 1 << 20, AHEAD = 12 };

typedef struct sample_context {
    gpur_replay *replay;
    int64_t count;
    const unsigned char *table; /* (MELEE_CAPACITY, PITCH) */
    const int32_t *indices;     /* (INDICES) */
    unsigned char *out;         /* (count, 228) */
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

static void prefetch_row(const unsigned char *row)
{
    for (int line = 0; line < PITCH; line += 64)
        __builtin_prefetch(row + line);
}

static void copy(void *context, int64_t repeats)
{
    sample_context *const c = context;
    for (int64_t i = 0; i < repeats; i++) {
        if (c->position + c->count > INDICES)
            c->position = 0;
        const int32_t *const index = c->indices + c->position;
        for (int64_t b = 0; b < AHEAD && b < c->count; b++)
            prefetch_row(c->table + (int64_t)index[b] * PITCH);
        for (int64_t b = 0; b < c->count; b++) {
            if (b + AHEAD < c->count) /* a batch stands alone: nobody knows the next one's rows */
                prefetch_row(c->table + (int64_t)index[b + AHEAD] * PITCH);
            memcpy(c->out + b * (int64_t)sizeof(melee_row), c->table + (int64_t)index[b] * PITCH, sizeof(melee_row));
        }
        c->position += c->count;
    }
}

static int32_t *random_indices(void)
{
    int32_t *const indices = malloc(INDICES * sizeof *indices);
    uint64_t state = 7;
    for (int64_t i = 0; indices && i < INDICES; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        indices[i] = (int32_t)((state >> 32) * MELEE_CAPACITY >> 32);
    }
    return indices;
}

static void run_case(bench_report *report, sample_context *c, int64_t count)
{
    char name[64];
    snprintf(name, sizeof name, "sample + gather %lld x 57", (long long)count);
    c->count = count;
    const bench_case batch = {.name = name, .baseline = "prefetching copy loop", .items = (double)count, .item = "row",
                              .goal = 1.5, .ours = sample, .bare = copy, .context = c};
    bench_run(report, &batch);
}

int main(int argc, char **argv)
{
    static const int64_t counts[] = {32, 4096, 64, 128, 256, 512, 1024, 2048};
    bench_options options;
    bench_report report;
    char settings[256];
    const int stop = bench_parse(&options, argc, argv, "sample + gather against a bare prefetching copy loop");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 1);
    sample_context c = {.replay = bench_melee_replay(device, MELEE_CAPACITY)};
    unsigned char *const table = bench_host_memory(device, (int64_t)MELEE_CAPACITY * PITCH);
    int32_t *const indices = random_indices();
    c.table = table, c.indices = indices, c.out = malloc(4096 * sizeof(melee_row));
    if (!indices || !c.out)
        bench_must(GPUR_OUT_OF_MEMORY, "baseline memory");
    bench_fill(c.replay, MELEE_CAPACITY);
    const int cases = options.quick ? 2 : 8;
    if (bench_begin(&report, &options, "sample + gather", bench_describe(device, settings, sizeof settings), cases))
        return 1;
    for (int i = 0; i < cases; i++)
        run_case(&report, &c, counts[i]);
    gpur_replay_destroy(c.replay);
    bench_host_free(device, table);
    gpur_device_close(device);
    free(indices);
    free(c.out);
    return bench_end(&report);
}
