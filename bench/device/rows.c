/* SPDX-License-Identifier: MIT */
/* Rows at random places of a ring of 1,000,000, by how far apart they lie: the library's gather, and a bare probe that
 * says what is to be gained there. 57 floats packed are 228 bytes; 240 and 256 allow moves of 16 bytes. */
#include "bench/device/counter.h"
#include "bench/device/equal.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"
#include "kernels/lib/random.h"
#include "replay/storage/copies.h"

#include <stdlib.h>

enum { GATHERS = 32, MOST = 4096, ROWS = 1000000, WIDEST = 256 };

typedef struct rows_context {
    gpur_device *device;
    step_counter counter;
    gpur_window *window; /* (1) device memory: all of the ring */
    unsigned char *ring, *to;
    int64_t pitch, batch;
    int by_probe;
} rows_context;

static gpur_gather_args args_of(const rows_context *c, uint64_t seed)
{
    gpur_copies copies = {.count = 0};
    gpur_gather_args args = {.window = c->window,
                             .ring = c->ring,
                             .pitch = c->pitch,
                             .capacity = ROWS,
                             .batch = c->batch,
                             .step = counter_step(&c->counter),
                             .seed = seed,
                             .purpose = GPUR_DRAW_SAMPLE,
                             .source = GPUR_SOURCE_UNIFORM,
                             .terminated_offset = -1,
                             .tile = gpur_tile_rows(c->pitch),
                             .row_bytes = (int32_t)c->pitch};
    gpur_copies_add(&copies, c->to, c->pitch, 0, c->pitch);
    args.copy_count = copies.count, args.units = copies.units;
    args.copies[0] = copies.list[0];
    return args;
}

static gpur_status gather(const rows_context *c, gpur_stream *stream, uint64_t seed)
{
    const gpur_gather_args args = args_of(c, seed);
    const gpur_grid grid = gpur_grid_rows(c->device, c->batch, args.tile, c->pitch);
    return gpur_launch_gather(stream, grid, &args);
}

static gpur_status probe(const rows_context *c, gpur_stream *stream, uint64_t seed)
{
    const int wide = c->pitch % 16 == 0;
    const probe_rows_args args = {.ring = c->ring,
                                  .to = c->to,
                                  .pitch = c->pitch,
                                  .rows = ROWS,
                                  .batch = c->batch,
                                  .step = counter_step(&c->counter),
                                  .seed = seed,
                                  .purpose = GPUR_DRAW_SAMPLE,
                                  .units = (int32_t)(c->pitch / (wide ? 16 : 4)),
                                  .wide = wide};
    return probe_rows(stream, &args);
}

/* Seeds of their own, and a step counter that moves on behind the last: every gather draws other rows. */
static gpur_status record(void *context, gpur_stream *stream)
{
    const rows_context *const c = context;
    for (uint64_t seed = 1; seed <= GATHERS; seed++)
        GPUR_TRY(c->by_probe ? probe(c, stream, seed) : gather(c, stream, seed));
    return counter_move(&c->counter, stream);
}

static void measure(bench_report *report, rows_context *c)
{
    char name[96];
    const recorded_work work = {record, c, 1, 1};
    snprintf(name, sizeof name, "%s %lld rows %lld B apart",
             c->by_probe ? "bare probe:" : "gather:", (long long)c->batch, (long long)c->pitch);
    const bench_figure figure = {.name = name,
                                 .items = GATHERS,
                                 .item = "gather",
                                 .work = 2.0 * (double)c->batch * (double)c->pitch,
                                 .unit = "B",
                                 .rounds = report->options->rounds < 15 ? report->options->rounds : 15};
    recorded_measure(report, c->device, figure, &work);
}

/* What both make of one draw: a probe that moved less would be faster. */
static void compare(bench_report *report, rows_context *c, gpur_stream *stream)
{
    const int64_t bytes = c->batch * c->pitch;
    unsigned char *const rows = malloc(2 * (size_t)bytes);
    char name[64];
    if (!rows)
        bench_must(GPUR_OUT_OF_MEMORY, "rows");
    bench_must(gather(c, stream, 1), "gather");
    bench_must(gpur_device_copy(c->device, rows, c->to, bytes), "rows");
    bench_must(gpur_fill(stream, c->to, 0, bytes), "rows");
    bench_must(probe(c, stream, 1), "probe");
    bench_must(gpur_device_copy(c->device, rows + bytes, c->to, bytes), "rows");
    snprintf(name, sizeof name, "rows of both, %lld B apart", (long long)c->pitch);
    bench_equal(report, name, differing(rows, rows + bytes, bytes, 1), bytes);
    free(rows);
}

/* Every 4 bytes their own number. */
static void fill(const rows_context *c)
{
    enum { PART = 1 << 20 };
    uint32_t *const part = malloc(PART);
    if (!part)
        bench_must(GPUR_OUT_OF_MEMORY, "rows");
    for (int64_t first = 0; first < (int64_t)ROWS * WIDEST; first += PART) {
        const int64_t left = (int64_t)ROWS * WIDEST - first, bytes = left < PART ? left : PART;
        for (int64_t i = 0; i < bytes / 4; i++)
            part[i] = (uint32_t)(first / 4 + i) * 2654435761u;
        bench_must(gpur_device_copy(c->device, c->ring + first, part, bytes), "rows");
    }
    free(part);
}

static void measure_pitch(bench_report *report, rows_context *c, gpur_stream *stream)
{
    static const int64_t batches[] = {32, 1024, 4096, 128, 512};
    const int count = report->options->quick ? 3 : 5;
    for (int i = 0; i < count; i++)
        for (c->by_probe = 0; c->by_probe < 2; c->by_probe++) {
            c->batch = batches[i];
            measure(report, c);
        }
    c->batch = MOST;
    if (gpur_device_is_cuda(c->device))
        compare(report, c, stream);
}

void bench_rows(bench_report *report, gpur_device *device)
{
    static const int64_t pitches[] = {228, 240, WIDEST};
    const gpur_window all = {0, 0, ROWS};
    rows_context c = {.device = device};
    void *window = NULL, *memory = NULL;
    gpur_stream *stream = NULL;
    counter_open(&c.counter, device);
    bench_must(gpur_device_alloc(device, sizeof all, &window), "memory");
    bench_must(gpur_device_alloc(device, (int64_t)(ROWS + MOST) * WIDEST, &memory), "a ring of rows");
    bench_must(gpur_stream_create(device, &stream), "stream");
    bench_must(gpur_device_copy(device, window, &all, sizeof all), "window");
    c.window = window, c.ring = memory, c.to = c.ring + (int64_t)ROWS * WIDEST;
    fill(&c);
    for (int i = 0; i < 3; i++) {
        c.pitch = pitches[i];
        measure_pitch(report, &c, stream);
    }
    gpur_stream_destroy(stream);
    gpur_device_free(device, memory), gpur_device_free(device, window);
    counter_close(&c.counter);
}
