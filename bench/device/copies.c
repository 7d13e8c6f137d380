/* SPDX-License-Identifier: MIT */
/* The bus and the device's own memory: time and rate of copies and fills, from the smallest to the largest. */
#include "bench/device/copying.h"
#include "bench/device/parts.h"
#include "bench/setup.h"

enum { KB = 1 << 10, MB = 1 << 20 };

static void copy_and_wait(void *context, int64_t repeats)
{
    for (int64_t i = 0; i < repeats; i++)
        copying_run(context, 1);
}

static void fill(void *context, int64_t repeats)
{
    const copying *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_fill(c->stream, c->to, (int)(i & 0xff), c->bytes), "fill");
    bench_must(gpur_stream_sync(c->stream), "sync");
}

/* A kernel that fetches the host's numbers itself, with no copy before it: it rounds them to half their size. */
static void read_by_kernel(void *context, int64_t repeats)
{
    const copying *const c = context;
    const gpur_round_bf16_args args = {.from = c->from, .to = c->to, .count = c->bytes / (int64_t)sizeof(float)};
    const gpur_grid grid = gpur_grid_elements(c->device, args.count);
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_launch_round_bf16(c->stream, grid, &args), "round");
    bench_must(gpur_stream_sync(c->stream), "sync");
}

/* `factor`: how often each byte goes over the memory or the bus. */
static void measure(bench_report *report, const char *what, bench_body body, copying c, int factor)
{
    char name[80];
    const int64_t unit = c.bytes < KB ? 1 : c.bytes < MB ? KB : MB;
    snprintf(name, sizeof name, "%s, %lld %s", what, (long long)(c.bytes / unit),
             unit == 1    ? "B"
             : unit == KB ? "KB"
                          : "MB");
    const bench_figure figure = {.name = name,
                                 .items = 1,
                                 .item = "call",
                                 .work = (double)c.bytes * factor,
                                 .unit = "B",
                                 .body = body,
                                 .context = &c};
    bench_measure(report, &figure);
}

static void measure_bus(bench_report *report, gpur_device *device, gpur_stream *stream, unsigned char *pinned,
                        unsigned char *memory)
{
    static const int64_t sizes[] = {256, 64 * KB, 16 * MB, 4 * KB, MB, 64 * MB};
    const int count = report->options->quick ? 3 : 6;
    for (int i = 0; i < count; i++) {
        const copying in = {stream, memory, pinned, sizes[i], device}, out = {stream, pinned, memory, sizes[i], device};
        measure(report, "pinned host, read by a kernel", read_by_kernel, in, 1);
        measure(report, "pinned host to device", copying_run, in, 1);
        measure(report, "device to pinned host", copying_run, out, 1);
    }
    const copying in = {stream, memory, pinned, 256, device}, out = {stream, pinned, memory, 256, device};
    measure(report, "pinned host to device, waited for", copy_and_wait, in, 1);
    measure(report, "device to pinned host, waited for", copy_and_wait, out, 1);
}

/* The largest, read and written, is several times a GPU's L2 cache. */
static void measure_memory(bench_report *report, gpur_stream *stream, unsigned char *memory, int64_t most)
{
    const int64_t sizes[] = {most, MB, 16 * MB};
    const int count = report->options->quick ? 1 : 3;
    for (int i = 0; i < count; i++) {
        const copying c = {stream, memory, memory + most, sizes[i], NULL};
        measure(report, "within the device, read and written", copying_run, c, 2);
        measure(report, "fill", fill, c, 1);
    }
}

static int64_t largest(gpur_device *device)
{
    int64_t total, available;
    bench_must(gpur_memory_available(device, &total, &available), "memory");
    const int is_large = gpur_device_is_cuda(device) && available > 1024 * (int64_t)MB;
    return (is_large ? 240 : 64) * (int64_t)MB;
}

void bench_copies(bench_report *report, gpur_device *device)
{
    const int64_t most = largest(device), host = 64 * (int64_t)MB;
    gpur_stream *stream = NULL;
    void *pinned = NULL, *memory = NULL;
    bench_must(gpur_stream_create(device, &stream), "stream");
    bench_must(gpur_pinned_alloc(device, host, "copies", &pinned), "pinned memory");
    bench_must(gpur_memory_alloc(device, 2 * most, "copies", &memory), "memory");
    measure_bus(report, device, stream, pinned, memory);
    measure_memory(report, stream, memory, most);
    gpur_memory_free(device, memory);
    gpur_pinned_free(device, pinned);
    gpur_stream_destroy(stream);
}
