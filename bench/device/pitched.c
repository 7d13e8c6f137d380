/* SPDX-License-Identifier: MIT */
/* A block of rows of 228 bytes on its way to a ring whose rows are 256 bytes apart: packed, spread out by the copy
 * engine, padded on the host; and many small pieces with a call each, or with one call for all. */
#include "bench/device/absent.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/setup.h"

enum { ROW = 228, PITCH = 256, MOST_ROWS = 4096, PIECES = 64, PIECE = 4096 };
enum { PACKED, SPREAD, PADDED, EACH, TOGETHER };

typedef struct block {
    gpur_stream *stream;
    unsigned char *to, *from; /* (MOST_ROWS * PITCH) */
    int64_t rows;
    int way;
} block;

/* Neither side of them lies in one piece, or all of them might be made one copy. */
static gpur_status copy_pieces(const block *b)
{
    void *to[PIECES];
    const void *from[PIECES];
    for (int i = 0; i < PIECES; i++) {
        to[i] = b->to + 2 * i * PIECE, from[i] = b->from + 2 * i * PIECE;
        if (b->way == EACH)
            GPUR_TRY(gpur_copy(b->stream, to[i], from[i], PIECE));
    }
    return b->way == EACH ? GPUR_OK : probe_copy_batch(b->stream, PIECES, to, from, PIECE);
}

static gpur_status copy_once(const block *b)
{
    const probe_pitched spread = {b->to, b->from, PITCH, ROW, ROW, b->rows};
    if (b->way >= EACH)
        return copy_pieces(b);
    if (b->way == SPREAD)
        return probe_copy_pitched(b->stream, &spread);
    return gpur_copy(b->stream, b->to, b->from, b->rows * (b->way == PACKED ? ROW : PITCH));
}

static void copy(void *context, int64_t repeats)
{
    const block *const b = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(copy_once(b), "copy");
    bench_must(gpur_stream_sync(b->stream), "sync");
}

/* `work`: bytes that are wanted, whatever goes over the bus beside them. */
static void measure(bench_report *report, const char *name, const block *b, int64_t work)
{
    block copied = *b;
    const bench_figure figure = {
        .name = name, .items = 1, .item = "block", .work = (double)work, .unit = "B", .body = copy, .context = &copied};
    const gpur_status status = copy_once(&copied);
    if (status != GPUR_OK) {
        bench_missing(report, name, status);
        return;
    }
    bench_measure(report, &figure);
}

static void measure_rows(bench_report *report, block *b, int64_t rows)
{
    static const char *const ways[] = {"packed", "spread to 256 B each by the copy",
                                       "padded to 256 B each by the host"};
    char name[96];
    b->rows = rows;
    for (b->way = PACKED; b->way <= PADDED; b->way++) {
        snprintf(name, sizeof name, "%lld rows of 228 B to the device, %s", (long long)rows, ways[b->way]);
        measure(report, name, b, rows * ROW);
    }
}

static void measure_pieces(bench_report *report, block *b)
{
    b->way = EACH;
    measure(report, "64 pieces of 4 KB to the device, a call each", b, PIECES * PIECE);
    b->way = TOGETHER;
    measure(report, "64 pieces of 4 KB to the device, one call", b, PIECES * PIECE);
}

void bench_pitched(bench_report *report, gpur_device *device)
{
    block b = {.rows = 0};
    void *pinned = NULL, *memory = NULL;
    bench_must(gpur_stream_create(device, &b.stream), "stream");
    bench_must(gpur_pinned_alloc(device, MOST_ROWS * PITCH, "rows", &pinned), "pinned memory");
    bench_must(gpur_memory_alloc(device, MOST_ROWS * PITCH, "rows", &memory), "memory");
    b.to = memory, b.from = pinned;
    measure_rows(report, &b, 64);
    measure_rows(report, &b, 1024);
    measure_rows(report, &b, MOST_ROWS);
    measure_pieces(report, &b);
    gpur_memory_free(device, memory);
    gpur_pinned_free(device, pinned);
    gpur_stream_destroy(b.stream);
}
