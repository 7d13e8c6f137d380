/* SPDX-License-Identifier: MIT */
/*
 * The matrix products of a melee-gpu step, each alone: 27 -> 128 -> two streams of 512 -> 1 value and 5 advantages; and
 * those of a Nature network's hidden layer, 3136 -> 512. On CUDA by cuBLASLt and, where cuDNN has one, by a graph of
 * cuDNN's; in each arithmetic, bare and with each epilogue a layer may want. What a library has not is a case, too.
 */
#include "bench/device/absent.h"
#include "bench/device/parts.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"
#include "device/gemm.h"

#include <stdlib.h>
#include <string.h>

enum { F = MELEE_OBS, X = (F + 3) / 4 * 4, H = 128, S = 512, A = MELEE_ACTIONS, Z = (1 + A + 3) / 4 * 4 };
enum { N = 3136, U = 512 }; /* of the Nature network */
enum { MOST = 1 << 22, PRODUCTS = 16, SHAPES = 14, ROUNDS = 15 };

/* A product of the step. The layers right below the head are float32 always, and their bias is the head's. */
typedef struct product {
    const char *name;
    gpur_gemm_shape shape;
    int32_t epilogue; /* that it may carry, or NONE */
    int is_below_head;
    int is_nature;
} product;

/* One way to compute it. */
typedef struct way {
    int64_t batch;
    int32_t math, epilogue, by_graph;
} way;

/* Y (rows, units) = X (rows, inputs) W^T. */
static gpur_gemm_shape forward(int64_t rows, int64_t units, int64_t inputs, int64_t ldx, int64_t ldy)
{
    const gpur_gemm_shape shape = {
        .m = rows, .n = units, .k = inputs, .lda = ldx, .ldb = inputs, .ldc = ldy, .transpose_b = 1};
    return shape;
}

/* dW (units, inputs) = dY^T X. */
static gpur_gemm_shape to_weight(int64_t rows, int64_t units, int64_t inputs, int64_t ldx, int64_t ldy)
{
    const gpur_gemm_shape shape = {
        .m = units, .n = inputs, .k = rows, .lda = ldy, .ldb = ldx, .ldc = inputs, .transpose_a = 1};
    return shape;
}

/* dX (rows, inputs) = dY W. */
static gpur_gemm_shape to_input(int64_t rows, int64_t units, int64_t inputs, int64_t ldx, int64_t ldy)
{
    const gpur_gemm_shape shape = {.m = rows, .n = inputs, .k = units, .lda = ldy, .ldb = inputs, .ldc = ldx};
    return shape;
}

static void list_products(product list[SHAPES], int64_t rows)
{
    const product all[SHAPES] = {
        {"27 -> 128", forward(rows, H, F, X, H), GPUR_EPILOGUE_BIAS_RELU, 0, 0},
        {"128 -> 1024", forward(rows, 2 * S, H, H, 2 * S), GPUR_EPILOGUE_BIAS_RELU, 0, 0},
        {"512 -> 1", forward(rows, 1, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1, 0},
        {"512 -> 5", forward(rows, A, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1, 0},
        {"weights of 27 -> 128", to_weight(rows, H, F, X, H), GPUR_EPILOGUE_NONE, 0, 0},
        {"weights of 128 -> 1024", to_weight(rows, 2 * S, H, H, 2 * S), GPUR_EPILOGUE_NONE, 0, 0},
        {"weights of 512 -> 1", to_weight(rows, 1, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1, 0},
        {"weights of 512 -> 5", to_weight(rows, A, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1, 0},
        {"inputs of 128 -> 1024", to_input(rows, 2 * S, H, H, 2 * S), GPUR_EPILOGUE_NONE, 0, 0},
        {"inputs of 512 -> 1", to_input(rows, 1, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1, 0},
        {"inputs of 512 -> 5", to_input(rows, A, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1, 0},
        {"3136 -> 512", forward(rows, U, N, N, U), GPUR_EPILOGUE_BIAS_RELU, 0, 1},
        {"weights of 3136 -> 512", to_weight(rows, U, N, N, U), GPUR_EPILOGUE_NONE, 0, 1},
        {"inputs of 3136 -> 512", to_input(rows, U, N, N, U), GPUR_EPILOGUE_NONE, 0, 1},
    };
    for (int i = 0; i < SHAPES; i++)
        list[i] = all[i];
}

typedef struct product_context {
    gpur_gemm *gemm;
    int64_t rows;
    float *a, *b, *c, *bias; /* (MOST) */
    void *workspace;
} product_context;

static gpur_status record(void *context, gpur_stream *stream)
{
    const product_context *const c = context;
    for (int i = 0; i < PRODUCTS; i++)
        GPUR_TRY(gpur_gemm_run(c->gemm, stream, c->rows, c->a, c->b, c->c, c->bias, c->workspace));
    return GPUR_OK;
}

/* There are hundreds of cases, and every sample holds many products. */
static int fewer_rounds(const bench_report *report)
{
    return report->options->rounds < ROUNDS ? report->options->rounds : ROUNDS;
}

static void measure_plan(bench_report *report, gpur_device *device, const char *name, product_context *c,
                         const gpur_gemm_shape *shape)
{
    const int64_t bytes = gpur_gemm_workspace_bytes(c->gemm);
    const recorded_work work = {record, c, 1, 1};
    c->rows = shape->m;
    c->workspace = NULL;
    if (bytes)
        bench_must(gpur_device_alloc(device, bytes, &c->workspace), "workspace");
    const bench_figure figure = {.name = name,
                                 .items = PRODUCTS,
                                 .item = "product",
                                 .work = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k,
                                 .unit = "FLOP",
                                 .rounds = fewer_rounds(report)};
    recorded_measure(report, device, figure, &work);
    gpur_device_free(device, c->workspace);
}

static void name_product(char *name, size_t bytes, const product *p, const way *w, const char *by)
{
    static const char *const epilogues[] = {"", " + bias", " + bias, relu"}, *const maths[] = {"fp32", "tf32", "bf16"};
    snprintf(name, bytes, "%s%s, batch %lld, %s%s%s", p->name, epilogues[w->epilogue], (long long)w->batch,
             maths[w->math], by ? ", by " : "", by ? by : "");
}

/* A graph is told that its arrays are aligned, which is what a learner's are: a cuDNN engine may need it. */
static gpur_status plan_product(gpur_device *device, const product *p, const way *w, gpur_gemm **gemm)
{
    gpur_gemm_shape shape = p->shape;
    shape.math = w->math;
    shape.epilogue = w->epilogue;
    shape.by_graph = w->by_graph;
    shape.aligned = w->by_graph;
    return gpur_gemm_create(device, &shape, gemm);
}

/* On CUDA the name says which way was asked for; where the library goes the other one, there is no such plan. */
static void measure_product(bench_report *report, gpur_device *device, product_context *c, const product *p,
                            const way *w)
{
    char name[112];
    const gpur_status status = plan_product(device, p, w, &c->gemm);
    name_product(name, sizeof name, p, w,
                 !gpur_device_is_cuda(device) ? NULL : w->by_graph ? "a graph" : "cuBLASLt");
    if (status != GPUR_OK) {
        bench_missing(report, name, status);
        return;
    }
    const int is_graph = strncmp(gpur_gemm_way(c->gemm), "cuDNN", 5) == 0;
    if (w->by_graph != is_graph)
        bench_absent(report, name, is_graph ? "cuBLASLt has it not, and a graph stands in for it" : "cuDNN has none");
    else
        measure_plan(report, device, name, c, &p->shape);
    gpur_gemm_destroy(c->gemm);
}

/* Graphs take half a second each to compile: the smallest batch and the largest will do. Of float32, which the layers
 * right below the head are, there are none. */
static int has_graphs(const product *p, const way *w, int on_cuda)
{
    return on_cuda && w->math != GPUR_MATH_FP32 && !p->is_below_head && (w->batch == 32 || w->batch == 1024);
}

static void measure_ways(bench_report *report, gpur_device *device, product_context *c, const product *p, way w)
{
    const int on_cuda = gpur_device_is_cuda(device), graphs = has_graphs(p, &w, on_cuda);
    const int32_t last = on_cuda ? p->epilogue : GPUR_EPILOGUE_NONE; /* a CPU's libraries have no others */
    for (w.epilogue = GPUR_EPILOGUE_NONE; w.epilogue <= last; w.epilogue++)
        for (w.by_graph = 0; w.by_graph <= graphs; w.by_graph++)
            measure_product(report, device, c, p, &w);
}

/* On a CPU there is FP32 alone, and the Nature network's layer at one batch: others take seconds. */
static void measure_batch(bench_report *report, gpur_device *device, product_context *c, int64_t batch)
{
    const int on_cuda = gpur_device_is_cuda(device);
    product list[SHAPES];
    list_products(list, batch);
    for (int i = 0; i < SHAPES; i++) {
        const int32_t last = on_cuda && !list[i].is_below_head ? GPUR_MATH_BF16 : GPUR_MATH_FP32;
        for (int32_t math = GPUR_MATH_FP32; math <= last; math++) {
            const way w = {batch, math, GPUR_EPILOGUE_NONE, 0};
            if (on_cuda || batch == 32 || !list[i].is_nature)
                measure_ways(report, device, c, &list[i], w);
        }
    }
}

/* Noise, as the time of a product of zeros is not that of a product of numbers. */
static float *noise(gpur_device *device)
{
    float *const host = malloc(MOST * sizeof *host);
    void *memory = NULL;
    uint64_t state = 3;
    if (!host)
        bench_must(GPUR_OUT_OF_MEMORY, "numbers to multiply");
    for (int i = 0; i < MOST; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        host[i] = (float)(state >> 40) * 0x1p-23f - 1.0f;
    }
    bench_must(gpur_device_alloc(device, MOST * (int64_t)sizeof *host, &memory), "numbers to multiply");
    bench_must(gpur_device_copy(device, memory, host, MOST * (int64_t)sizeof *host), "numbers to multiply");
    free(host);
    return memory;
}

void bench_products(bench_report *report, gpur_device *device)
{
    static const int64_t batches[] = {32, 1024, 256};
    const int count = report->options->quick ? 2 : 3;
    product_context c = {.a = noise(device), .b = noise(device), .c = noise(device), .bias = noise(device)};
    if (!gpur_device_is_cuda(device))
        bench_absent(report, "matrix products by graphs of cuDNN's", "they are CUDA's");
    for (int i = 0; i < count; i++)
        measure_batch(report, device, &c, batches[i]);
    gpur_device_free(device, c.a), gpur_device_free(device, c.b);
    gpur_device_free(device, c.c), gpur_device_free(device, c.bias);
}
