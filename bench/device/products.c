/* SPDX-License-Identifier: MIT */
/*
 * The matrix products of the hidden layers of melee-gpu (27 -> 128 -> two streams of 512) and of the Nature networks
 * (3136 -> 512), each alone. On CUDA in every arithmetic.
 */
#include "bench/device/parts.h"

#include "device/gemm.h"

#include <stdlib.h>

enum { F = MELEE_OBS, X = (F + 3) / 4 * 4, H = 128, S = 512 };
enum { N = 3136, U = 512 }; /* of the Nature network */
enum { MAX_NUMBERS = 1 << 22, PRODUCTS = 16, SHAPES = 8, MELEE_SHAPES = 5, ROUNDS = 15 };

typedef struct product {
    const char *name;
    gpur_gemm_shape shape;
} product;

/* Y (rows, units) = max(X (rows, inputs) W^T + bias, 0). */
static gpur_gemm_shape forward(int64_t rows, int64_t units, int64_t inputs, int64_t ldx, int64_t ldy)
{
    return (gpur_gemm_shape){.m = rows,
                             .n = units,
                             .k = inputs,
                             .lda = ldx,
                             .ldb = inputs,
                             .ldc = ldy,
                             .transpose_b = 1,
                             .epilogue = GPUR_EPILOGUE_BIAS_RELU};
}

/* dW (units, inputs) = dY^T X. */
static gpur_gemm_shape to_weight(int64_t rows, int64_t units, int64_t inputs, int64_t ldx, int64_t ldy)
{
    return (gpur_gemm_shape){
        .m = units, .n = inputs, .k = rows, .lda = ldy, .ldb = ldx, .ldc = inputs, .transpose_a = 1};
}

/* dX (rows, inputs) = dY W. */
static gpur_gemm_shape to_input(int64_t rows, int64_t units, int64_t inputs, int64_t ldx, int64_t ldy)
{
    return (gpur_gemm_shape){.m = rows, .n = inputs, .k = units, .lda = ldy, .ldb = inputs, .ldc = ldx};
}

static void list_products(product list[SHAPES], int64_t rows)
{
    const product all[SHAPES] = {
        {"27 -> 128", forward(rows, H, F, X, H)},
        {"128 -> 1024", forward(rows, 2 * S, H, H, 2 * S)},
        {"weights of 27 -> 128", to_weight(rows, H, F, X, H)},
        {"weights of 128 -> 1024", to_weight(rows, 2 * S, H, H, 2 * S)},
        {"inputs of 128 -> 1024", to_input(rows, 2 * S, H, H, 2 * S)},
        {"3136 -> 512", forward(rows, U, N, N, U)},
        {"weights of 3136 -> 512", to_weight(rows, U, N, N, U)},
        {"inputs of 3136 -> 512", to_input(rows, U, N, N, U)},
    };
    for (int i = 0; i < SHAPES; i++)
        list[i] = all[i];
}

typedef struct product_context {
    gpur_gemm *gemm;
    int64_t rows;
    float *a, *b, *c, *bias; /* (MAX_NUMBERS) */
    void *workspace;
} product_context;

static gpur_status record_products(void *context, gpur_stream *stream)
{
    const product_context *const c = context;
    for (int i = 0; i < PRODUCTS; i++)
        GPUR_TRY(gpur_gemm_run(c->gemm, stream, c->rows, c->a, c->b, c->c, c->bias, c->workspace));
    return GPUR_OK;
}

static void run_product(bench_report *report, gpur_device *device, product_context *c, const product *p, int64_t batch,
                        int32_t math)
{
    static const char *const maths[] = {"fp32", "tf32", "bf16"};
    char name[96];
    recorded products;
    gpur_gemm_shape shape = p->shape;
    shape.math = math;
    snprintf(name, sizeof name, "%s, batch %lld, %s", p->name, (long long)batch, maths[math]);
    gpur_status status = gpur_gemm_create(device, &shape, &c->gemm);
    if (status == GPUR_UNAVAILABLE && shape.epilogue) { /* a CPU's library has no epilogues */
        shape.epilogue = GPUR_EPILOGUE_NONE;
        status = gpur_gemm_create(device, &shape, &c->gemm);
    }
    if (status != GPUR_OK) {
        bench_absent(report, name, status);
        return;
    }
    const int64_t bytes = gpur_gemm_workspace_bytes(c->gemm);
    c->rows = shape.m;
    c->workspace = NULL;
    if (bytes)
        bench_must(gpur_device_alloc(device, bytes, &c->workspace), "workspace");
    bench_must(recorded_open(&products, device, record_products, c, 1, 1), name);
    bench_case one = bench_alone(name, "product", PRODUCTS, gpur_gemm_library(device), recorded_run, &products);
    one.work = 2.0 * (double)shape.m * (double)shape.n * (double)shape.k, one.unit = "FLOP";
    one.rounds = ROUNDS;
    bench_run(report, &one);
    recorded_close(&products);
    gpur_device_free(device, c->workspace);
    gpur_gemm_destroy(c->gemm);
}

/* A CPU computes in float32 only, and takes long for the Nature network's layer. */
static void run_batch(bench_report *report, gpur_device *device, product_context *c, int64_t batch)
{
    const int is_cuda = bench_is_cuda(device);
    product list[SHAPES];
    list_products(list, batch);
    for (int i = 0; i < (is_cuda ? SHAPES : MELEE_SHAPES); i++)
        for (int32_t math = GPUR_MATH_FP32; math <= (is_cuda ? GPUR_MATH_BF16 : GPUR_MATH_FP32); math++)
            run_product(report, device, c, &list[i], batch, math);
}

/* Not zeros: a product of zeros takes less power, and another time. */
static float *new_noise(gpur_device *device)
{
    float *const host = bench_allocate(MAX_NUMBERS * sizeof *host);
    void *memory = NULL;
    uint64_t state = 3;
    for (int i = 0; i < MAX_NUMBERS; i++)
        host[i] = 2 * bench_random_unit(&state) - 1;
    bench_must(gpur_device_alloc(device, MAX_NUMBERS * (int64_t)sizeof *host, &memory), "numbers to multiply");
    bench_must(gpur_device_copy(device, memory, host, MAX_NUMBERS * (int64_t)sizeof *host), "numbers to multiply");
    free(host);
    return memory;
}

void bench_products(bench_report *report, gpur_device *device)
{
    static const int64_t batches[] = {32, 1024, 256};
    const int count = report->options->quick ? 1 : 3;
    product_context c = {
        .a = new_noise(device), .b = new_noise(device), .c = new_noise(device), .bias = new_noise(device)};
    for (int i = 0; i < count; i++)
        run_batch(report, device, &c, batches[i]);
    gpur_device_free(device, c.a), gpur_device_free(device, c.b);
    gpur_device_free(device, c.c), gpur_device_free(device, c.bias);
}
