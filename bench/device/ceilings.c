/* SPDX-License-Identifier: MIT */
#include "bench/ceilings.h"
#include "bench/device/copying.h"
#include "bench/setup.h"
#include "device/gemm.h"

#include <stdlib.h>

enum { MB = 1 << 20, SIDE = 1024 };

/* `factor`: how often a byte goes over what is measured. Bytes a second. */
static double measure_copy(bench_report *report, const char *name, copying *c, int factor)
{
    const double bytes = (double)c->bytes * factor;
    const bench_figure figure = {
        .name = name, .items = 1, .item = "copy", .work = bytes, .unit = "B", .body = copying_run, .context = c};
    return bytes / bench_measure(report, &figure).min;
}

static void measure_copies(bench_report *report, gpur_device *device, gpur_stream *stream, ceilings *most)
{
    const int64_t bytes = (gpur_device_is_cuda(device) ? 256 : 64) * (int64_t)MB;
    copying c = {.stream = stream, .bytes = bytes};
    void *pinned = NULL, *memory = NULL;
    bench_must(gpur_pinned_alloc(device, bytes, "copies", &pinned), "pinned memory");
    bench_must(gpur_memory_alloc(device, 2 * bytes, "copies", &memory), "memory");
    c.to = memory, c.from = pinned;
    most->up = measure_copy(report, "ceiling: pinned host memory to the device", &c, 1);
    c.from = (unsigned char *)memory + bytes;
    most->within = measure_copy(report, "ceiling: within the device, read and written", &c, 2);
    gpur_memory_free(device, memory);
    gpur_pinned_free(device, pinned);
}

typedef struct product_context {
    gpur_gemm *gemm;
    gpur_stream *stream;
    float *a, *b, *c;
    void *workspace;
} product_context;

static void product(void *context, int64_t repeats)
{
    const product_context *const p = context;
    for (int64_t i = 0; i < repeats; i++)
        bench_must(gpur_gemm_run(p->gemm, p->stream, SIDE, p->a, p->b, p->c, NULL, p->workspace), "product");
    bench_must(gpur_stream_sync(p->stream), "sync");
}

/* Noise, as the time of a product of zeros is not that of a product of numbers. */
static void fill_noise(gpur_device *device, void *memory, int64_t count)
{
    float *const host = malloc((size_t)count * sizeof *host);
    uint64_t state = 3;
    if (!host)
        bench_must(GPUR_OUT_OF_MEMORY, "numbers to multiply");
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(state >> 40) * 0x1p-23f - 1.0f;
    }
    bench_must(gpur_device_copy(device, memory, host, count * (int64_t)sizeof *host), "numbers to multiply");
    free(host);
}

static void measure_product(bench_report *report, gpur_device *device, gpur_stream *stream, ceilings *most)
{
    const gpur_gemm_shape shape = {.m = SIDE, .n = SIDE, .k = SIDE, .lda = SIDE, .ldb = SIDE, .ldc = SIDE};
    const int64_t numbers = (int64_t)SIDE * SIDE;
    const double operations = 2.0 * SIDE * SIDE * SIDE;
    product_context p = {.stream = stream};
    void *memory = NULL;
    bench_must(gpur_gemm_create(device, &shape, &p.gemm), "product");
    const int64_t workspace = gpur_gemm_workspace_bytes(p.gemm);
    bench_must(gpur_memory_alloc(device, 3 * numbers * (int64_t)sizeof(float) + workspace, "a product", &memory),
               "memory");
    p.a = memory, p.b = p.a + numbers, p.c = p.b + numbers, p.workspace = p.c + numbers;
    fill_noise(device, memory, 2 * numbers);
    const bench_figure figure = {.name = "ceiling: float32 product of 1,024 x 1,024 matrices",
                                 .items = 1,
                                 .item = "product",
                                 .work = operations,
                                 .unit = "FLOP",
                                 .body = product,
                                 .context = &p};
    most->flops = operations / bench_measure(report, &figure).min;
    gpur_gemm_destroy(p.gemm);
    gpur_memory_free(device, memory);
}

void ceilings_measure(bench_report *report, gpur_device *device, ceilings *most)
{
    gpur_stream *stream = NULL;
    bench_must(gpur_stream_create(device, &stream), "stream");
    measure_copies(report, device, stream, most);
    measure_product(report, device, stream, most);
    gpur_stream_destroy(stream);
}
