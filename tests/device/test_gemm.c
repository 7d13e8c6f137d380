/* SPDX-License-Identifier: MIT */
/* GEMMs against their definition: every transpose, odd sizes, pitches, accumulation, fewer rows than planned, addresses
 * of any alignment, every arithmetic and epilogue; and impossible ones, which are refused with the numbers. */
#include "test.h"
#include "device/cpu/cpu.h"
#include "gpureplay/learner.h"
#include "reference/reference_gemm.h"

#include <signal.h>
#include <sys/time.h>

#ifdef GPUR_HAS_BLAS
#include <cblas.h>
#endif

/* OpenMP's, if OpenBLAS is linked with it. */
int omp_get_max_threads(void) __attribute__((weak));

gpur_status plain_sgemm(gpur_device *device, const gpur_gemm_shape *shape, int64_t rows, const float *a, const float *b,
                        float *c);

/* Host copies of the matrices. A is stored as (a_rows, lda), B as (b_rows, ldb), C as (m, ldc). */
typedef struct problem {
    gpur_gemm_shape shape;
    int64_t offset; /* of each array on the device from a multiple of 256 bytes, in floats */
    int64_t a_count, b_count, c_count;
    float *a, *b, *c, *bias, *before; /* `before` is C before the run */
} problem;

static float next_float(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static void open_problem(problem *p, gpur_gemm_shape s)
{
    uint32_t state = (uint32_t)(s.m * 31 + s.n * 7 + s.k);
    p->shape = s;
    p->offset = 0;
    p->a_count = (s.transpose_a ? s.k : s.m) * s.lda;
    p->b_count = (s.transpose_b ? s.n : s.k) * s.ldb;
    p->c_count = s.m * s.ldc;
    float *const all = (float *)malloc((size_t)(p->a_count + p->b_count + 2 * p->c_count + s.n) * sizeof *all);
    p->a = all, p->b = p->a + p->a_count, p->c = p->b + p->b_count, p->bias = p->c + p->c_count;
    p->before = p->bias + s.n;
    for (float *x = all; x < p->before; x++)
        *x = next_float(&state);
    memcpy(p->before, p->c, (size_t)p->c_count * sizeof *p->c);
}

static double activated(const problem *p, double x, int64_t column)
{
    if (p->shape.epilogue != GPUR_EPILOGUE_NONE)
        x += p->bias[column];
    return p->shape.epilogue == GPUR_EPILOGUE_BIAS_RELU && x < 0.0 ? 0.0 : x;
}

/* The first `rows` rows must be the product; the relative rounding error of a term is 2^-24 in FP32, 2^-11 for both
 * operands in TF32 and 2^-8 in BF16, which the CPU has in FP32. The padding of rows, and on the CPU the rows beyond
 * `rows`, must be unchanged. */
static void check_product(const problem *p, int64_t rows)
{
    static const double relative[] = {[GPUR_MATH_FP32] = 4e-7, [GPUR_MATH_TF32] = 2e-3, [GPUR_MATH_BF16] = 1e-2};
    const gpur_gemm_shape *const s = &p->shape;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->ldc; j++) {
            const float got = p->c[i * s->ldc + j];
            if (j >= s->n || (i >= rows && !test_on_cuda())) {
                CHECK(got == p->before[i * s->ldc + j]);
            } else if (i < rows) {
                double size = 0.0;
                const double want = activated(p, reference_gemm(s, p->a, p->b, p->before, i, j, &size), j);
                CHECK_NEAR(got, want, 1e-6 + relative[s->math] * size);
            }
        }
}

static gpur_status upload(gpur_device *device, const float *host, int64_t bytes, int64_t offset, float **memory)
{
    GPUR_TRY(gpur_device_alloc(device, bytes + offset * 4, (void **)memory));
    *memory += offset;
    return gpur_device_copy(device, *memory, host, bytes);
}

/* Runs the GEMM by the device's library on device memory. Memory that is left after a failure goes with the device. */
static gpur_status run_on_device(gpur_device *device, problem *p, int64_t rows)
{
    gpur_gemm *gemm = NULL;
    gpur_stream *stream = NULL;
    float *arrays[4] = {NULL};
    const float *const host[4] = {p->a, p->b, p->c, p->bias};
    const int64_t operand = p->shape.bf16 ? 2 : 4;
    const int64_t bytes[4] = {p->a_count * operand, p->b_count * operand, p->c_count * 4, p->shape.n * 4};
    void *workspace = NULL;
    GPUR_TRY(gpur_gemm_create(device, &p->shape, &gemm));
    GPUR_TRY(gpur_stream_create(device, &stream));
    for (int i = 0; i < 4; i++)
        GPUR_TRY(upload(device, host[i], bytes[i], p->offset, &arrays[i]));
    if (gpur_gemm_workspace_bytes(gemm))
        GPUR_TRY(gpur_device_alloc(device, gpur_gemm_workspace_bytes(gemm), &workspace));
    GPUR_TRY(gpur_gemm_run(gemm, stream, rows, arrays[0], arrays[1], arrays[2], arrays[3], workspace));
    gpur_gemm_destroy(gemm); /* while its product may be under way */
    GPUR_TRY(gpur_copy(stream, p->c, arrays[2], p->c_count * 4));
    GPUR_TRY(gpur_stream_sync(stream));
    for (int i = 0; i < 4; i++)
        gpur_device_free(device, arrays[i] - p->offset);
    gpur_device_free(device, workspace);
    gpur_stream_destroy(stream);
    return GPUR_OK;
}

static const int64_t sizes[][3] = {{1, 1, 1},    {1, 5, 3},    {2, 64, 64},   {7, 1, 130},   {32, 128, 27},
                                   {33, 65, 67}, {64, 512, 8}, {100, 3, 129}, {128, 63, 32}, {17, 127, 1}};
enum { SIZES = sizeof sizes / sizeof *sizes, VARIANTS = 8 };

/* An epilogue may be unavailable; the CPU has none. */
static void check_on_device(gpur_device *device, gpur_gemm_shape shape, int64_t rows, int64_t offset)
{
    problem p;
    const int is_optional = shape.epilogue != GPUR_EPILOGUE_NONE;
    open_problem(&p, shape);
    p.offset = offset;
    const gpur_status status = run_on_device(device, &p, rows);
    if (status == GPUR_OK)
        check_product(&p, rows);
    free(p.a);
    TEST_REQUIRE(status == GPUR_OK ? test_on_cuda() || !is_optional : status == GPUR_UNAVAILABLE && is_optional,
                 "(%d, %d) by (%d, %d), epilogue %d, math %d: %s", (int)shape.m, (int)shape.k, (int)shape.k,
                 (int)shape.n, shape.epilogue, shape.math, gpur_status_name(status));
}

static gpur_device *open_with_threads(const char *name, int32_t threads)
{
    gpur_device_config config = test_device_config();
    gpur_device *device = NULL;
    config.threads = threads;
    return gpur_device_open(name, &config, &device) == GPUR_OK ? device : NULL;
}

static void check_plain(gpur_device *cpu, gpur_gemm_shape shape)
{
    problem p;
    const int64_t rows = shape.transpose_a ? shape.m : (shape.m + 1) / 2;
    open_problem(&p, shape);
    CHECK_OK(plain_sgemm(cpu, &p.shape, rows, p.a, p.b, p.c));
    check_product(&p, rows);
    free(p.a);
}

TEST(every_transpose_size_and_pitch_agrees_with_the_definition)
{
    gpur_device *const device = test_device(), *const cpu = open_with_threads("cpu", 3);
    CHECK(cpu);
    for (int size = 0; size < SIZES; size++)
        for (int variant = 0; variant < VARIANTS; variant++)
            for (int64_t pad = 0; pad < 2; pad++) {
                const gpur_gemm_shape s =
                    reference_gemm_shape(sizes[size][0], sizes[size][1], sizes[size][2], variant, pad);
                check_on_device(device, s, s.m, 0);
                check_plain(cpu, s);
            }
    for (int variant = 0; variant < VARIANTS; variant += 2) /* A is not transposed: fewer rows than planned */
        for (int64_t rows = 1; rows <= 33; rows += 8)
            check_on_device(device, reference_gemm_shape(33, 20, 40, variant, 1), rows, 0);
    gpur_device_close(cpu);
    gpur_device_close(device);
}

/* Repeats the GEMM while helpers are running: its bits must not depend on which thread ran which piece. */
static void check_shared(gpur_device *device, gpur_gemm_shape shape)
{
    problem p[2];
    for (int repeat = 0; repeat < 4; repeat++) {
        problem *const each = &p[repeat > 0];
        open_problem(each, shape);
        CHECK_OK(run_on_device(device, each, shape.m));
        if (repeat == 0)
            check_product(each, shape.m);
        else
            CHECK(memcmp(each->c, p->c, (size_t)p->c_count * sizeof *p->c) == 0 || test_on_cuda());
        if (repeat > 0)
            free(each->a);
    }
    free(p->a);
}

TEST(a_product_that_several_threads_share_agrees_with_the_definition)
{
    static const int64_t large[][3] = {{200, 333, 150}, {32, 1030, 130}, {1030, 33, 129}, {64, 64, 2500}};
    for (int32_t threads = 2; threads <= 5; threads++) {
        gpur_device *const device = open_with_threads(test_device_name(), threads);
        CHECK(device);
        for (int i = 0; i < 4 * VARIANTS; i++) {
            const int64_t *const size = large[i / VARIANTS];
            check_shared(device, reference_gemm_shape(size[0], size[1], size[2], i % VARIANTS, i & 1));
        }
        gpur_device_close(device);
    }
}

/* Layers of 128 units on 27 features and of 1024 units on 128: forward, weight gradient, input gradient. */
static const gpur_gemm_shape layers[] = {
    {.m = 32, .n = 64, .k = 28, .lda = 28, .ldb = 28, .ldc = 64, .transpose_b = 1},
    {.m = 64, .n = 128, .k = 27, .lda = 32, .ldb = 27, .ldc = 128, .transpose_b = 1},
    {.m = 64, .n = 1024, .k = 128, .lda = 128, .ldb = 128, .ldc = 1024, .transpose_b = 1},
    {.m = 128, .n = 27, .k = 64, .lda = 128, .ldb = 32, .ldc = 27, .transpose_a = 1},
    {.m = 64, .n = 128, .k = 1024, .lda = 1024, .ldb = 128, .ldc = 128},
};

/* Cuts numbers to bfloat16, in place. */
static void narrow(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const uint16_t bf16 = (uint16_t)(bits >> 16);
        memcpy((char *)x + 2 * i, &bf16, sizeof bf16);
    }
}

/* Of operands that bfloat16 holds exactly, products are as exact as those of float32. */
static void check_bf16(gpur_device *device, gpur_gemm_shape shape)
{
    problem p;
    shape.bf16 = 1;
    open_problem(&p, shape);
    narrow(p.a, p.a_count), narrow(p.b, p.b_count);
    const gpur_status status = run_on_device(device, &p, shape.m);
    if (status == GPUR_OK)
        check_product(&p, shape.m);
    free(p.a);
    CHECK(status == GPUR_OK || (status == GPUR_UNAVAILABLE && shape.epilogue != GPUR_EPILOGUE_NONE));
}

TEST(products_of_bfloat16_agree_with_the_definition)
{
    static const int64_t multiples[][3] = {{8, 8, 8}, {32, 64, 24}, {40, 16, 136}, {256, 512, 64}};
    gpur_device *const device = test_device();
    for (int i = 0; i < 4 * VARIANTS; i++) {
        const int64_t *const size = multiples[i / VARIANTS];
        gpur_gemm_shape s = reference_gemm_shape(size[0], size[1], size[2], i % VARIANTS, 0);
        check_bf16(device, s);
        s.epilogue = s.accumulate ? GPUR_EPILOGUE_NONE : GPUR_EPILOGUE_BIAS_RELU;
        check_bf16(device, s);
    }
    gpur_device_close(device);
}

/* With an offset, arrays are aligned as floats only. */
TEST(layers_agree_in_every_arithmetic_and_epilogue_at_any_address)
{
    gpur_device *const device = test_device();
    for (int32_t math = GPUR_MATH_FP32; math <= GPUR_MATH_BF16; math++)
        for (int64_t offset = 0; offset <= (math == GPUR_MATH_BF16 ? 0 : 1); offset++)
            for (int32_t epilogue = GPUR_EPILOGUE_NONE; epilogue <= GPUR_EPILOGUE_BIAS_RELU; epilogue++)
                for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
                    gpur_gemm_shape s = layers[i];
                    s.math = math, s.epilogue = epilogue;
                    check_on_device(device, s, s.m, offset);
                }
    gpur_device_close(device);
}

static int host_threads(int *blas)
{
    *blas = 0;
#ifdef GPUR_HAS_BLAS
    *blas = openblas_get_num_threads();
#endif
    return omp_get_max_threads ? omp_get_max_threads() : 0;
}

TEST(the_host_programs_thread_counts_stay_as_found)
{
    for (int32_t threads = 0; threads <= 3; threads++) {
        int blas_before = 0, blas_after = 0;
        const int before = host_threads(&blas_before);
        gpur_device *const device = open_with_threads(test_device_name(), threads);
        CHECK(device);
        check_on_device(device, reference_gemm_shape(256, 256, 256, 0, 0), 256, 0);
        CHECK_EQUAL(host_threads(&blas_after), before);
        CHECK_EQUAL(blas_after, blas_before);
        gpur_device_close(device);
    }
}

static _Atomic int64_t signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* While oneDNN 2 multiplies by AVX-512 it keeps numbers below the stack, where the frame of a handler is put. */
TEST(signals_do_not_disturb_products)
{
    const struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    struct sigaction before;
    gpur_device *const device = open_with_threads(test_device_name(), 1);
    CHECK(sigaction(SIGALRM, &action, &before) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 60 && !atomic_load(&test_state.failures); i++)
        check_on_device(device, reference_gemm_shape(512, 128, 128, i % 2, 1), 512, 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && sigaction(SIGALRM, &before, NULL) == 0);
    CHECK(atomic_load(&signals) > 0);
    gpur_device_close(device);
}

static void count_lines(void *user, const char *line)
{
    *(int *)user += strstr(line, "libopenblas-openmp-dev") != NULL;
}

TEST(the_library_has_a_name_and_a_slow_one_is_logged_once)
{
    gpur_device *device = NULL;
    gpur_device_config config = test_device_config();
    int lines = 0;
    config.log = count_lines;
    config.log_user = &lines;
    CHECK_OK(gpur_device_open(test_device_name(), &config, &device));
    check_on_device(device, reference_gemm_shape(4, 5, 6, 0, 0), 4, 0);
    check_on_device(device, reference_gemm_shape(4, 5, 6, 0, 0), 4, 0);
    const char *const name = gpur_gemm_library(device);
    CHECK(strstr(name, "OpenBLAS ") || strstr(name, "oneDNN ") || strstr(name, "cuBLAS") || strstr(name, "plain"));
    CHECK_EQUAL(lines, strstr(name, "plain") ? 1 : 0);
    gpur_device_close(device);
}

static const gpur_gemm_shape good = {.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5};

TEST(impossible_shapes_are_refused)
{
    static const struct {
        gpur_gemm_shape shape;
        const char *message;
    } cases[] = {
        {{.m = 0, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5}, "(0, 6) by (6, 5)"},
        {{.m = 4, .n = 5, .k = 6, .lda = 5, .ldb = 5, .ldc = 5}, "A are 5 apart"},
        {{.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 4}, "C are 4 apart"},
        {{.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5, .accumulate = 2},
         "accumulate of a matrix product is 2"},
        {{.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5, .epilogue = 4}, "epilogue of a matrix product is 4"},
        {{.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5, .math = -1}, "math of a matrix product is -1"},
        {{.m = 4, .n = 5, .k = 6, .lda = 3, .ldb = 5, .ldc = 5, .transpose_a = 1}, "A are 3 apart"},
        {{.m = 4, .n = 5, .k = 6, .lda = 6, .ldb = 5, .ldc = 5, .transpose_b = 1}, "B are 5 apart"},
    };
    gpur_device *const device = test_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_gemm *gemm = NULL;
        CHECK_FAILS(gpur_gemm_create(device, &cases[i].shape, &gemm), GPUR_INVALID_ARGUMENT, cases[i].message);
        CHECK(!gemm);
    }
    gpur_device_close(device);
}

TEST(impossible_runs_are_refused)
{
    gpur_device *const device = test_device();
    const gpur_gemm_shape transposed = reference_gemm_shape(4, 5, 6, 1, 0);
    gpur_gemm *gemm = NULL, *other = NULL;
    gpur_stream *stream = NULL;
    float x[64] = {0};
    CHECK_OK(gpur_stream_create(device, &stream));
    CHECK_OK(gpur_gemm_create(device, &good, &gemm));
    CHECK_OK(gpur_gemm_create(device, &transposed, &other));
    CHECK_STATUS(gpur_gemm_run(gemm, stream, 0, x, x, x, NULL, NULL), GPUR_INVALID_ARGUMENT);
    CHECK_FAILS(gpur_gemm_run(gemm, stream, 5, x, x, x, NULL, NULL), GPUR_INVALID_ARGUMENT, "5 rows");
    CHECK_FAILS(gpur_gemm_run(gemm, stream, 4, x, NULL, x, NULL, NULL), GPUR_INVALID_ARGUMENT, "matrix B");
    CHECK_FAILS(gpur_gemm_run(other, stream, 3, x, x, x, NULL, NULL), GPUR_INVALID_ARGUMENT, "transposed");
    gpur_gemm_destroy(other), gpur_gemm_destroy(gemm), gpur_gemm_destroy(NULL);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(every_transpose_size_and_pitch_agrees_with_the_definition);
    RUN(a_product_that_several_threads_share_agrees_with_the_definition);
    RUN(products_of_bfloat16_agree_with_the_definition);
    RUN(layers_agree_in_every_arithmetic_and_epilogue_at_any_address);
    RUN(the_host_programs_thread_counts_stay_as_found);
    RUN(signals_do_not_disturb_products);
    RUN(the_library_has_a_name_and_a_slow_one_is_logged_once);
    RUN(impossible_shapes_are_refused);
    RUN(impossible_runs_are_refused);
    return test_main_end();
}
