/* SPDX-License-Identifier: MIT */
/*
 * A train step of preset "melee-gpu" on the CPU device (draw to target copy) against the matrix products it is made of,
 * called bare, in order, on memory of the same sizes. Floor: those products.
 */
#include "bench.h"
#include "setup.h"

#include <cblas.h>
#include <stdlib.h>
#include <unistd.h>

enum { F = MELEE_OBS, H = 128, S = 512, A = MELEE_ACTIONS };

/* C (m, n) = op(A) (m, k) op(B) (k, n); which of the buffers is which does not matter to the time. */
typedef struct product {
    CBLAS_TRANSPOSE ta, tb;
    int m, n, k, lda, ldb, ldc;
} product;

enum { PRODUCTS = 15, BUFFER = 4 << 20 };

typedef struct train_context {
    gpur_learner *learner;
    product products[PRODUCTS];
    float *a, *b, *c; /* (BUFFER) */
} train_context;

static void train(void *context, int64_t repeats)
{
    const train_context *const c = context;
    bench_must(gpur_learner_train(c->learner, repeats), "train");
    bench_must(gpur_learner_sync(c->learner), "sync");
}

static void products(void *context, int64_t repeats)
{
    const train_context *const c = context;
    for (int64_t i = 0; i < repeats; i++)
        for (int p = 0; p < PRODUCTS; p++) {
            const product *const q = &c->products[p];
            cblas_sgemm(CblasRowMajor, q->ta, q->tb, q->m, q->n, q->k, 1.0f, c->a, q->lda, c->b, q->ldb, 0.0f, c->c,
                        q->ldc);
        }
}

/* Dense layer forward: Y (rows, units) = X (rows, inputs) W^T, W (units, inputs). */
static product forward(int rows, int units, int inputs, int ldx, int ldy)
{
    return (product){CblasNoTrans, CblasTrans, rows, units, inputs, ldx, inputs, ldy};
}

/* dW (units, inputs) = dY^T X. */
static product weight_gradient(int rows, int units, int inputs, int ldy, int ldx)
{
    return (product){CblasTrans, CblasNoTrans, units, inputs, rows, ldy, ldx, inputs};
}

/* dX (rows, inputs) = dY W. */
static product input_gradient(int rows, int units, int inputs, int ldy, int ldx)
{
    return (product){CblasNoTrans, CblasNoTrans, rows, inputs, units, ldy, inputs, ldx};
}

/* The paper's network is plain DQN: online on B rows of obs, target on B rows of next_obs, backward on B rows. */
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

static float *buffer(void)
{
    float *const x = malloc(BUFFER * sizeof *x);
    if (!x)
        bench_must(GPUR_OUT_OF_MEMORY, "baseline memory");
    for (int i = 0; i < BUFFER; i++)
        x[i] = (float)(i % 17) * 0.01f;
    return x;
}

static void run_case(bench_report *report, train_context *c, gpur_replay *replay, int64_t batch)
{
    char name[64];
    gpur_learner_config config;
    snprintf(name, sizeof name, "melee-gpu train step, batch %lld", (long long)batch);
    bench_must(gpur_learner_config_init(&config, sizeof config), "learner config");
    bench_must(gpur_learner_config_preset(&config, "melee-gpu"), "preset");
    config.batch_size = batch;
    bench_must(gpur_learner_create(replay, &config, &c->learner), "learner");
    list_products(c->products, (int)batch);
    const bench_case step = {.name = name,
                             .baseline = "its 15 products by CBLAS",
                             .items = 1,
                             .item = "step",
                             .goal = batch < 256 ? 1.7 : 1.5,
                             .ours = train,
                             .bare = products,
                             .context = c};
    bench_run(report, &step);
    gpur_learner_destroy(c->learner);
}

int main(int argc, char **argv)
{
    static const int64_t batches[] = {32, 256, 16, 64, 128, 512, 1024};
    bench_options options;
    bench_report report;
    char settings[256];
    /* OpenBLAS's team, if it is OpenMP's, would keep the cores after each of its products, while ours are timed. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
    const int stop = bench_parse(&options, argc, argv, "train step against its own matrix products (CPU device)");
    if (stop)
        return stop - 1;
    gpur_device *const device = bench_open(options.device, 0);
    gpur_replay *const replay = bench_melee_replay(device, MELEE_CAPACITY);
    train_context c = {.a = buffer(), .b = buffer(), .c = buffer()};
    bench_fill(replay, MELEE_CAPACITY);
    const int cases = options.quick ? 2 : 7;
    if (bench_begin(&report, &options, "train step", bench_describe(device, settings, sizeof settings), cases))
        return 1;
    for (int i = 0; i < cases; i++)
        run_case(&report, &c, replay, batches[i]);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    free(c.a);
    free(c.b);
    free(c.c);
    return bench_end(&report);
}
