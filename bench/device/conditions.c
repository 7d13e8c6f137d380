/* SPDX-License-Identifier: MIT */
/* Nodes that decide on the device, each beside the same work without them: a WHILE against as many repetitions in a
 * row, and an IF that is not taken. */
#include "bench/device/absent.h"
#include "bench/device/chain.h"
#include "bench/device/parts.h"
#include "bench/device/probes.h"
#include "bench/device/recorded.h"

enum { TIMES = 32 };

/* `status`: how the graph was made. */
static void measure_graph(bench_report *report, bench_figure figure, gpur_status status, probe_graph *graph)
{
    if (status != GPUR_OK) {
        bench_missing(report, figure.name, status);
        return;
    }
    figure.body = probe_graph_run, figure.context = graph;
    bench_measure(report, &figure);
    probe_graph_destroy(graph);
}

/* The kernel that counts the loop's rounds is a node more in each; a train step would let its last kernel do it. */
static void measure_loop(bench_report *report, chain *c)
{
    char name[96];
    probe_graph *graph;
    bench_figure figure = {.name = name, .items = TIMES, .item = "round"};
    const recorded_work unrolled = {chain_record, c, TIMES, TIMES};
    snprintf(name, sizeof name, "%d rounds of %d nodes, unrolled", TIMES, c->length);
    recorded_measure(report, c->device, figure, &unrolled);
    snprintf(name, sizeof name, "%d rounds of %d nodes, WHILE and one node more", TIMES, c->length);
    const gpur_status status = probe_graph_loop(c->device, chain_record, c, TIMES, &graph);
    measure_graph(report, figure, status, graph);
}

static void measure_branches(bench_report *report, chain *c)
{
    char name[96];
    probe_graph *graph;
    const bench_figure figure = {.name = name, .items = TIMES, .item = "node and IF"};
    snprintf(name, sizeof name, "chain of %d, an IF that is not taken behind each", TIMES);
    const gpur_status status = probe_graph_branches(c->device, chain_record, c, TIMES, &graph);
    measure_graph(report, figure, status, graph);
}

void bench_conditions(bench_report *report, gpur_device *device)
{
    static const int lengths[] = {1, 14}; /* the least, and a train step's */
    chain c;
    chain_open(&c, device);
    for (int i = 0; i < 2; i++) {
        c.length = lengths[i];
        measure_loop(report, &c);
    }
    c.length = 1;
    measure_branches(report, &c);
    chain_close(&c);
}
