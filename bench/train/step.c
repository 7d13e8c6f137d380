/* SPDX-License-Identifier: MIT */
/*
 * A train step of preset "melee-gpu" on the CPU device (sample to target copy) against the matrix products it is made
 * of, called bare, in order, on memory of the same sizes. Floor: those products.
 */
#include "bench/lib/bench.h"
#include "bench/lib/setup.h"

#ifdef HAS_BLAS
#include <cblas.h>
#else
#include <oneapi/dnnl/dnnl.h>
#endif
#include <stdlib.h>
#include <unistd.h>

enum { F = MELEE_OBS, H = 128, S = 512, A = MELEE_ACTIONS };

/* C (m, n) = op(A) (m, k) op(B) (k, n). Every product uses the same three buffers, which does not change its time. */
typedef struct product {
    int transpose_a, transpose_b;
    int m, n, k, lda, ldb, ldc;
} product;

enum { PRODUCTS = 15, BUFFER = 4 << 20 };

typedef struct step_context {
    gpur_learner *learner;
    product products[PRODUCTS];
    float *a, *b, *c; /* (BUFFER) */
} step_context;

static void train(void *context, int64_t repeats)
{
    const step_context *const c = context;
    bench_must(gpur_learner_train(c->learner, repeats), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

/* By the library that the train step multiplies with. */
static void multiply_by_library(const product *q, const float *a, const float *b, float *c)
{
#ifdef HAS_BLAS
    cblas_sgemm(CblasRowMajor, q->transpose_a ? CblasTrans : CblasNoTrans, q->transpose_b ? CblasTrans : CblasNoTrans,
                q->m, q->n, q->k, 1.0f, a, q->lda, b, q->ldb, 0.0f, c, q->ldc);
#else
    dnnl_sgemm(q->transpose_a ? 'T' : 'N', q->transpose_b ? 'T' : 'N', q->m, q->n, q->k, 1.0f, a, q->lda, b, q->ldb,
               0.0f, c, q->ldc);
#endif
}

static void multiply(void *context, int64_t repeats)
{
    const step_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        for (int p = 0; p < PRODUCTS; p++)
            multiply_by_library(&c->products[p], c->a, c->b, c->c);
}

/* Dense layer forward: Y (rows, units) = X (rows, inputs) W^T, W (units, inputs). */
static product forward(int rows, int units, int inputs, int ldx, int ldy)
{
    return (product){0, 1, rows, units, inputs, ldx, inputs, ldy};
}

/* dW (units, inputs) = dY^T X. */
static product weight_gradient(int rows, int units, int inputs, int ldy, int ldx)
{
    return (product){1, 0, units, inputs, rows, ldy, ldx, inputs};
}

/* dX (rows, inputs) = dY W. */
static product input_gradient(int rows, int units, int inputs, int ldy, int ldx)
{
    return (product){0, 0, rows, inputs, units, ldy, inputs, ldx};
}

/* The paper's agent is plain DQN: online on B rows of obs, target on B rows of next_obs, backward on B rows. */
static void list_products(product *p, int rows)
{
    const int x = (F + 3) / 4 * 4, out = 1 + A;
    for (int network = 0; network < 2; network++) {
        *p++ = forward(rows, H, F, x, H);
        *p++ = forward(rows, 2 * S, H, H, 2 * S);
        *p++ = forward(rows, 1, S, 2 * S, out);
        *p++ = forward(rows, A, S, 2 * S, out);
    }
    *p++ = weight_gradient(rows, 1, S, out, 2 * S);
    *p++ = weight_gradient(rows, A, S, out, 2 * S);
    *p++ = input_gradient(rows, 1, S, out, 2 * S);
    *p++ = input_gradient(rows, A, S, out, 2 * S);
    *p++ = weight_gradient(rows, 2 * S, H, 2 * S, H);
    *p++ = input_gradient(rows, 2 * S, H, 2 * S, H);
    *p++ = weight_gradient(rows, H, F, H, x);
}

static float *new_buffer(void)
{
    float *const x = bench_allocate(BUFFER * sizeof *x);
    for (int i = 0; i < BUFFER; i++)
        x[i] = (float)(i % 17) * 0.01f;
    return x;
}

static void run_case(bench_report *report, step_context *c, gpur_replay *replay, int64_t batch)
{
    char name[64];
    snprintf(name, sizeof name, "melee-gpu train step, batch %lld", (long long)batch);
    c->learner = bench_learner(replay, "melee-gpu", batch, 0);
    list_products(c->products, (int)batch);
    bench_case one = bench_versus(name, "step", 1, train, "its 15 products, bare", multiply, c);
    one.goal = batch < 256 ? 1.7 : 1.5;
    bench_run(report, &one);
    gpur_learner_destroy(c->learner);
}

int main(int argc, char **argv)
{
    static const int64_t batches[] = {32, 256, 16, 64, 128, 512, 1024};
    /* The threads of an OpenMP OpenBLAS would otherwise spin after each product while our step is timed. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
    const bench_options options = bench_parse(argc, argv, "a train step against its matrix products", NULL, 0);
    const int cases = options.quick ? 2 : 7;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = bench_melee_replay(device, MELEE_CAPACITY);
    step_context c = {.a = new_buffer(), .b = new_buffer(), .c = new_buffer()};
    bench_melee_fill(replay, MELEE_CAPACITY);
    bench_report report = bench_begin(&options, "train step", bench_describe(device), cases);
    for (int i = 0; i < cases; i++)
        run_case(&report, &c, replay, batches[i]);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    free(c.a);
    free(c.b);
    free(c.c);
    return bench_end(&report);
}
