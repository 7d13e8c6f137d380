/* SPDX-License-Identifier: MIT */
/* The matrix products of a melee-gpu step, each alone: 27 -> 128 -> two streams of 512 -> 1 value and 5 advantages. */
#include "bench/device/parts.h"
#include "bench/device/recorded.h"
#include "bench/setup.h"
#include "device/gemm.h"

#include <stdlib.h>

enum { F = MELEE_OBS, X = (F + 3) / 4 * 4, H = 128, S = 512, A = MELEE_ACTIONS, Z = (1 + A + 3) / 4 * 4 };
enum { MOST = 1 << 20, PRODUCTS = 16, SHAPES = 11 };

/* A product of the step. The layers right below the head are float32 always, and their bias is the head's. */
typedef struct product {
    const char *name;
    gpur_gemm_shape shape;
    int32_t epilogue; /* that it may carry, or NONE */
    int is_below_head;
} product;

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
        {"27 -> 128", forward(rows, H, F, X, H), GPUR_EPILOGUE_BIAS_RELU, 0},
        {"128 -> 1024", forward(rows, 2 * S, H, H, 2 * S), GPUR_EPILOGUE_BIAS_RELU, 0},
        {"512 -> 1", forward(rows, 1, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1},
        {"512 -> 5", forward(rows, A, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1},
        {"weights of 27 -> 128", to_weight(rows, H, F, X, H), GPUR_EPILOGUE_NONE, 0},
        {"weights of 128 -> 1024", to_weight(rows, 2 * S, H, H, 2 * S), GPUR_EPILOGUE_NONE, 0},
        {"weights of 512 -> 1", to_weight(rows, 1, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1},
        {"weights of 512 -> 5", to_weight(rows, A, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1},
        {"inputs of 128 -> 1024", to_input(rows, 2 * S, H, H, 2 * S), GPUR_EPILOGUE_NONE, 0},
        {"inputs of 512 -> 1", to_input(rows, 1, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1},
        {"inputs of 512 -> 5", to_input(rows, A, S, 2 * S, Z), GPUR_EPILOGUE_NONE, 1},
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

static void measure_plan(bench_report *report, gpur_device *device, const char *name, product_context *c,
                         const gpur_gemm_shape *shape)
{
    const int64_t bytes = gpur_gemm_workspace_bytes(c->gemm);
    recorded r;
    c->rows = shape->m;
    c->workspace = NULL;
    if (bytes)
        bench_must(gpur_device_alloc(device, bytes, &c->workspace), "workspace");
    recorded_open(&r, device, record, c, 1, 1);
    const bench_figure figure = {.name = name,
                                 .items = PRODUCTS,
                                 .item = "product",
                                 .work = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k,
                                 .unit = "FLOP",
                                 .body = recorded_run,
                                 .context = &r};
    bench_measure(report, &figure);
    recorded_close(&r);
    gpur_device_free(device, c->workspace);
}

/* 0 when the device has no such product; gpur_last_error says why. An epilogue may be missing, which is no news. */
static int measure_product(bench_report *report, gpur_device *device, product_context *c, const product *p,
                           int64_t batch, int32_t math, int32_t epilogue)
{
    static const char *const epilogues[] = {"", " + bias", " + bias, relu"};
    char name[96];
    gpur_gemm_shape shape = p->shape;
    shape.math = math;
    shape.epilogue = epilogue;
    const gpur_status status = gpur_gemm_create(device, &shape, &c->gemm);
    if (status == GPUR_UNAVAILABLE)
        return 0;
    bench_must(status, p->name);
    snprintf(name, sizeof name, "%s%s, batch %lld, %s", p->name, epilogues[epilogue], (long long)batch,
             math == GPUR_MATH_TF32 ? "tf32" : "fp32");
    measure_plan(report, device, name, c, &shape);
    gpur_gemm_destroy(c->gemm);
    return 1;
}

static int measure_batch(bench_report *report, gpur_device *device, product_context *c, int64_t batch)
{
    product list[SHAPES];
    list_products(list, batch);
    for (int i = 0; i < SHAPES; i++) {
        const int has_tf32 = gpur_device_is_cuda(device) && !list[i].is_below_head;
        for (int32_t math = GPUR_MATH_FP32; math <= (has_tf32 ? GPUR_MATH_TF32 : GPUR_MATH_FP32); math++) {
            if (!measure_product(report, device, c, &list[i], batch, math, GPUR_EPILOGUE_NONE))
                return 0;
            if (list[i].epilogue != GPUR_EPILOGUE_NONE)
                (void)measure_product(report, device, c, &list[i], batch, math, list[i].epilogue);
        }
    }
    return 1;
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
    static const int64_t batches[] = {32, 1024, 64, 128, 256, 512};
    const int count = report->options->quick ? 2 : 6;
    product_context c = {.a = noise(device), .b = noise(device), .c = noise(device), .bias = noise(device)};
    for (int i = 0; i < count; i++)
        if (!measure_batch(report, device, &c, batches[i])) {
            printf("no matrix products: %s\n", gpur_last_error());
            break;
        }
    gpur_device_free(device, c.a), gpur_device_free(device, c.b);
    gpur_device_free(device, c.c), gpur_device_free(device, c.bias);
}
