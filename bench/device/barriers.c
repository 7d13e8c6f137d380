/* SPDX-License-Identifier: MIT */
/*
 * What it costs that all blocks of a launch wait for one another: gpur_meet as one cluster and as a cooperative grid,
 * and, in a probe with a word for each block to write and to read, the cooperative groups' barrier over a grid beside
 * one that is written by hand.
 */
#include "bench/device/absent.h"
#include "bench/device/equal.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"

enum { ROUNDS = 1000, THREADS = 256, MOST_BLOCKS = 132 };

typedef struct meeting {
    gpur_meet_probe_args args;
    gpur_grid grid;
} meeting;

static gpur_status record_meeting(void *context, gpur_stream *stream)
{
    const meeting *const m = context;
    return gpur_launch_meet_probe(stream, m->grid, &m->args);
}

static void measure_meeting(bench_report *report, gpur_device *device, int32_t blocks, int32_t together)
{
    static meeting m;
    char name[64], why[96];
    const recorded_work work = {record_meeting, &m, 1, 1};
    m.args.rounds = ROUNDS; /* of nothing but meeting */
    m.grid = gpur_grid_together(device, GPUR_KERNEL_ID_meet_probe, blocks, THREADS);
    const int is_cluster = together == GPUR_TOGETHER_BEST && blocks <= 16;
    snprintf(name, sizeof name, "meet: %s of %d blocks", is_cluster ? "cluster" : "grid", blocks);
    snprintf(why, sizeof why, "at most %lld of its blocks run at the same time", (long long)m.grid.blocks);
    if (m.grid.blocks < blocks) {
        bench_absent(report, name, why);
        return;
    }
    if (is_cluster && probe_needs_cluster(device, GPUR_KERNEL_ID_meet_probe, blocks) != GPUR_OK) {
        bench_absent(report, name, gpur_last_error());
        return;
    }
    m.grid.together = together;
    const bench_figure figure = {.name = name, .items = ROUNDS, .item = "barrier"};
    recorded_measure(report, device, figure, &work);
}

typedef struct waiting {
    probe_barrier_args args;
    int blocks;
} waiting;

static gpur_status record_waiting(void *context, gpur_stream *stream)
{
    const waiting *const w = context;
    return probe_barrier(stream, w->blocks, THREADS, &w->args);
}

/* Sums that are not what they must be: a block got through before its neighbour had come. */
static int64_t wrong_sums(gpur_device *device, const waiting *w)
{
    uint32_t sums[MOST_BLOCKS];
    const uint32_t rounds = ROUNDS, all = (uint32_t)w->blocks;
    int64_t wrong = 0;
    bench_must(gpur_device_copy(device, sums, w->args.sum, w->blocks * (int64_t)sizeof *sums), "sums");
    for (uint32_t b = 0; b < all; b++)
        wrong += sums[b] != rounds * (rounds - 1) / 2 + rounds * ((b + 1) % all);
    return wrong;
}

static void measure_waiting(bench_report *report, gpur_device *device, waiting *w, int by_hand)
{
    char name[64];
    const recorded_work work = {record_waiting, w, 1, 1};
    w->args.by_hand = by_hand;
    snprintf(name, sizeof name, "grid barrier %s, %d blocks", by_hand ? "by hand" : "of cooperative groups", w->blocks);
    const bench_figure figure = {.name = name, .items = ROUNDS, .item = "barrier"};
    if (!recorded_measure(report, device, figure, &work))
        return;
    snprintf(name, sizeof name, "sums over the grid barrier %s, %d blocks", by_hand ? "by hand" : "of groups",
             w->blocks);
    bench_equal(report, name, wrong_sums(device, w), w->blocks);
}

void bench_barriers(bench_report *report, gpur_device *device)
{
    static const int32_t clusters[] = {2, 4, 8, 16}, grids[] = {16, 66, MOST_BLOCKS};
    const int64_t words = 1 + 3 * MOST_BLOCKS;
    waiting w = {.args = {.rounds = ROUNDS}};
    void *memory = NULL;
    for (int i = 0; i < 4; i++)
        measure_meeting(report, device, clusters[i], GPUR_TOGETHER_BEST);
    for (int i = 0; i < 3; i++)
        measure_meeting(report, device, grids[i], GPUR_TOGETHER_GRID);
    bench_must(gpur_device_alloc(device, words * (int64_t)sizeof(uint32_t), &memory), "memory");
    w.args.arrived = memory;
    w.args.written = w.args.arrived + 1, w.args.sum = w.args.written + 2 * MOST_BLOCKS;
    for (int i = 0; i < 3; i++) {
        w.blocks = grids[i];
        measure_waiting(report, device, &w, 0);
        measure_waiting(report, device, &w, 1);
    }
    gpur_device_free(device, memory);
}
