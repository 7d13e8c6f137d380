/* SPDX-License-Identifier: MIT */
/* Convolutions and both gradients against their definition: by the device's library and by im2col. */
#include "test.h"
#include "support/conv_problem.h"

/* OpenMP's, if the library is linked with it. */
int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));

static gpur_device *device;

/* Images, height, width; channels, filters, kernel, stride, padding. The first three are the Nature network's layers,
 * smaller; the fourth is its first layer as blocks of 4 x 4 pixels. The last but two needs several chunks of im2col.
 * The last two are enough work for several threads. */
typedef struct conv_case {
    int images, height, width;
    int numbers[5];
} conv_case;
static const conv_case cases[] = {
    {2, 20, 20, {4, 32, 8, 4, 0}}, {3, 9, 9, {32, 64, 4, 2, 0}},   {2, 7, 7, {64, 64, 3, 1, 0}},
    {4, 5, 5, {64, 32, 2, 1, 0}},  {1, 1, 1, {1, 1, 1, 1, 0}},     {1, 5, 4, {3, 2, 1, 1, 0}},
    {5, 6, 9, {1, 7, 2, 2, 1}},    {2, 11, 7, {5, 3, 3, 2, 1}},    {1, 13, 13, {2, 9, 5, 3, 2}},
    {3, 8, 10, {16, 16, 4, 4, 3}}, {2, 9, 9, {3, 17, 6, 1, 5}},    {1, 10, 21, {8, 4, 7, 4, 0}},
    {2, 16, 16, {4, 8, 8, 3, 1}},  {7, 4, 4, {10, 33, 4, 1, 0}},   {13, 3, 5, {2, 3, 2, 1, 1}},
    {64, 6, 6, {8, 16, 3, 2, 1}},  {33, 12, 12, {4, 16, 4, 2, 0}}, {97, 21, 3, {16, 32, 2, 1, 0}},
    {12, 16, 16, {8, 8, 5, 1, 2}}, {33, 20, 20, {4, 32, 8, 4, 0}}, {24, 9, 9, {32, 64, 4, 2, 0}},
};
#if defined(GPUR_RACE_CHECK) && defined(__SANITIZE_THREAD__) /* slow: every GPU thread is a real, instrumented thread */
enum { CASES = sizeof cases / sizeof *cases / 2 };
#else
enum { CASES = sizeof cases / sizeof *cases };
#endif

/* Rounding errors grow with the sum of the magnitudes of the terms. */
static void check_result(const conv_problem *p, const char *way, const double *want, const double *size)
{
    const float *const got = conv_problem_result(p);
    for (int64_t i = 0; i < conv_problem_count(p); i++)
        TEST_REQUIRE(
            fabs(got[i] - want[i]) <= 1e-6 + 1e-6 * size[i],
            "pass %d by %s, %d x %d x %d by %d, kernel %d, stride %d, padding %d: number %d is %.9g, wanted %.9g",
            (int)p->shape.pass, way, p->one.height, p->one.width, p->one.channels, p->one.filters, p->one.kernel,
            p->one.stride, p->one.padding, (int)i, (double)got[i], want[i]);
}

/* The library and im2col must both be correct; an epilogue may be unavailable. Counts the runs by im2col. */
static void check_shape(const gpur_conv_shape *shape, int *by_patches)
{
    conv_problem p;
    const char *way = "";
    double *size = NULL;
    conv_problem_open(&p, shape);
    double *const want = conv_problem_expected(&p, &size);
    const gpur_status status = conv_problem_run(&p, device, shape->images, &way);
    if (status == GPUR_OK)
        check_result(&p, way, want, size);
    *by_patches += strcmp(way, "patches") == 0;
    conv_problem_close(&p);
    free(want), free(size);
    CHECK(status == GPUR_OK || (status == GPUR_UNAVAILABLE && shape->epilogue != GPUR_EPILOGUE_NONE));
}

static void check_pass(int pass)
{
    for (int ways = 0; ways < 2; ways++) {
        int by_patches = 0;
        for (int i = 0; i < CASES; i++) {
            gpur_conv_shape shape =
                conv_shape_of(pass, cases[i].images, cases[i].height, cases[i].width, cases[i].numbers);
            shape.by_patches = ways;
            check_shape(&shape, &by_patches);
        }
        CHECK(!ways || by_patches == CASES);
#ifdef GPUR_HAS_DNNL
        CHECK(ways || test_on_cuda() || by_patches < CASES / 2);
#endif
    }
}

TEST(forward_agrees_with_the_definition)
{
    check_pass(GPUR_CONV_FORWARD);
}

TEST(the_gradient_by_the_input_agrees_with_the_definition)
{
    check_pass(GPUR_CONV_TO_INPUT);
}

TEST(the_gradient_by_the_weights_agrees_with_the_definition)
{
    check_pass(GPUR_CONV_TO_WEIGHT);
}

TEST(an_epilogue_is_right_or_unavailable)
{
    int by_patches = 0;
    for (int32_t epilogue = GPUR_EPILOGUE_BIAS; epilogue <= GPUR_EPILOGUE_BIAS_RELU; epilogue++)
        for (int i = 0; i < CASES; i++) {
            gpur_conv_shape shape =
                conv_shape_of(GPUR_CONV_FORWARD, cases[i].images, cases[i].height, cases[i].width, cases[i].numbers);
            shape.epilogue = epilogue;
            check_shape(&shape, &by_patches);
        }
}

TEST(bfloat16_input_agrees_with_the_definition)
{
    int by_patches = 0;
    for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass += GPUR_CONV_TO_WEIGHT)
        for (int i = 0; i < CASES; i++) {
            gpur_conv_shape shape =
                conv_shape_of(pass, cases[i].images, cases[i].height, cases[i].width, cases[i].numbers);
            shape.x_bf16 = 1;
            check_shape(&shape, &by_patches);
        }
}

/* Runs a plan for `planned` images with every smaller number, too. More images may be computed than asked for; those
 * asked for differ only in rounding, since a GEMM of fewer rows may sum in another order. */
static void check_fewer(int way, int64_t planned, const int numbers[5])
{
    conv_problem all;
    const char *name = "";
    double *size = NULL;
    gpur_conv_shape shape = conv_shape_of(GPUR_CONV_FORWARD, (int)planned, 9, 8, numbers);
    shape.by_patches = way;
    conv_problem_open(&all, &shape);
    free(conv_problem_expected(&all, &size));
    gpur_status status = conv_problem_run(&all, device, planned, &name);
    int64_t different = 0;
    for (int64_t images = 1; images <= planned && status == GPUR_OK; images++) {
        conv_problem few;
        conv_problem_open(&few, &shape);
        status = conv_problem_run(&few, device, images, &name);
        for (int64_t i = 0; i < images * all.y_count / planned; i++)
            different += fabs((double)all.y[i] - few.y[i]) > 2e-6 + 2e-6 * size[i];
        conv_problem_close(&few);
    }
    conv_problem_close(&all);
    free(size);
    CHECK_OK(status);
    CHECK_EQUAL(different, 0);
}

TEST(fewer_images_than_planned_are_right)
{
    static const int small[5] = {4, 16, 3, 2, 1}, large[5] = {32, 64, 4, 2, 0};
    for (int way = 0; way < 2; way++) {
        check_fewer(way, 12, small);
        for (int64_t planned = 13; planned <= 16; planned++)
            check_fewer(way, planned, large);
    }
}

TEST(shapes_out_of_range_are_refused_with_their_values)
{
    static const int good[5] = {4, 8, 3, 1, 0};
    gpur_conv *conv = NULL;
    gpur_conv_shape s = conv_shape_of(GPUR_CONV_FORWARD, 2, 2, 5, good);
    CHECK_STATUS(gpur_conv_create(device, &s, &conv), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("a kernel of 3 on an image of 2 x 5 with padding 0");
    s = conv_shape_of(GPUR_CONV_FORWARD, 2, 5, 5, good), s.padding = 3;
    CHECK_STATUS(gpur_conv_create(device, &s, &conv), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("kernel 3, stride 1, padding 3");
    s = conv_shape_of(GPUR_CONV_TO_WEIGHT, 2, 5, 5, good), s.epilogue = GPUR_EPILOGUE_BIAS;
    CHECK_STATUS(gpur_conv_create(device, &s, &conv), GPUR_INVALID_ARGUMENT);
    s = conv_shape_of(GPUR_CONV_FORWARD, 0, 5, 5, good);
    CHECK_STATUS(gpur_conv_create(device, &s, &conv), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("a convolution of 0 images");
    s = conv_shape_of(GPUR_CONV_FORWARD, 2, 5, 5, good), s.math = 3;
    CHECK_STATUS(gpur_conv_create(device, &s, &conv), GPUR_INVALID_ARGUMENT);
    CHECK(!conv);
}

TEST(the_host_programs_thread_count_stays_as_found)
{
    if (!omp_get_max_threads || !omp_set_num_threads)
        return;
    const int before = omp_get_max_threads();
    int by_patches = 0;
    const gpur_conv_shape shape = conv_shape_of(GPUR_CONV_FORWARD, 8, 20, 20, cases[0].numbers);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        check_shape(&shape, &by_patches);
        const int after = omp_get_max_threads();
        omp_set_num_threads(before);
        CHECK_EQUAL(after, threads);
    }
}

/* Runs the same shape twice: also the weights' gradient, to whose sum several threads contribute, must have the same
 * bits. */
TEST(a_repeated_run_gives_the_same_bits)
{
    for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass++) {
        conv_problem p[2];
        const char *way = "";
        gpur_conv_shape shape = conv_shape_of(pass, 32, 20, 20, cases[0].numbers);
        shape.deterministic = 1;
        gpur_status status = GPUR_OK;
        for (int i = 0; i < 2; i++) {
            conv_problem_open(&p[i], &shape);
            if (status == GPUR_OK)
                status = conv_problem_run(&p[i], device, 32, &way);
        }
        const size_t bytes = (size_t)conv_problem_count(&p[0]) * sizeof(float);
        const int same = memcmp(conv_problem_result(&p[0]), conv_problem_result(&p[1]), bytes) == 0;
        conv_problem_close(&p[0]);
        conv_problem_close(&p[1]);
        CHECK_OK(status);
        CHECK(same);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(forward_agrees_with_the_definition);
    RUN(the_gradient_by_the_input_agrees_with_the_definition);
    RUN(the_gradient_by_the_weights_agrees_with_the_definition);
    RUN(an_epilogue_is_right_or_unavailable);
    RUN(bfloat16_input_agrees_with_the_definition);
    RUN(fewer_images_than_planned_are_right);
    RUN(shapes_out_of_range_are_refused_with_their_values);
    RUN(the_host_programs_thread_count_stays_as_found);
    RUN(a_repeated_run_gives_the_same_bits);
    gpur_device_close(device);
    return test_main_end();
}
