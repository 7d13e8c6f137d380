/* SPDX-License-Identifier: MIT */
/* Convolutions and both gradients against their definition: by the device's library and by im2col. */
#include "test.h"
#include "device/conv.h"
#include "gpureplay/math.h"
#include "reference/reference_conv.h"
#include "support/learner_fixture.h"

/* OpenMP's, if the library is linked with it. */
int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));

static gpur_device *device;

/* A convolution with random numbers. `made` is the result of its pass: p->y, p->x or p->w. */
typedef struct conv_problem {
    gpur_conv_shape shape;
    ref_conv one;            /* the same, of one image */
    int64_t count[4];        /* of x, w, y and bias, of all images */
    float *x, *w, *y, *bias; /* one allocation */
    uint16_t *bf16[4];       /* under GPUR_MATH_BF16 the same in bfloat16, to which they are rounded */
    float *made;
    int64_t made_count;
} conv_problem;

enum { SAME = -1 };

/* Channels C, filters F, kernel K, stride, padding; `pass` is GPUR_CONV_*. */
static gpur_conv_shape conv_shape_of(int pass, int64_t images, int64_t height, int64_t width, const int numbers[5])
{
    ref_conv c = {.height = (int)height, .width = (int)width, .kernel = numbers[2], .stride = numbers[3]};
    c.padding = numbers[4];
    ref_conv_size(&c);
    return (gpur_conv_shape){.pass = pass,
                             .images = images,
                             .height = height,
                             .width = width,
                             .channels = numbers[0],
                             .filters = numbers[1],
                             .kernel = numbers[2],
                             .stride = numbers[3],
                             .top = c.top,
                             .left = c.left,
                             .bottom = c.bottom,
                             .right = c.right};
}

/* Cuts numbers to 8 bits of mantissa, which bfloat16 holds exactly; returns them. */
static uint16_t *make_bf16(float *x, int64_t count)
{
    uint16_t *const bf16 = malloc((size_t)count * sizeof *bf16);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0xffff0000u;
        memcpy(&x[i], &bits, sizeof bits);
        bf16[i] = (uint16_t)(bits >> 16);
    }
    return bf16;
}

static void conv_problem_open(conv_problem *p, const gpur_conv_shape *shape)
{
    const gpur_conv_shape s = *shape;
    *p = (conv_problem){.shape = s,
                        .one = {.height = (int)s.height,
                                .width = (int)s.width,
                                .channels = (int)s.channels,
                                .filters = (int)s.filters,
                                .kernel = (int)s.kernel,
                                .stride = (int)s.stride,
                                .top = (int)s.top,
                                .left = (int)s.left,
                                .rows = (int)gpur_conv_out_height(&s),
                                .columns = (int)gpur_conv_out_width(&s)}};
    p->count[0] = s.images * s.height * s.width * s.channels;
    p->count[1] = s.filters * s.kernel * s.kernel * s.channels;
    p->count[2] = s.images * p->one.rows * p->one.columns * s.filters;
    p->count[3] = s.filters;
    float **const arrays[4] = {&p->x, &p->w, &p->y, &p->bias};
    for (int i = 0; i < 4; i++) {
        *arrays[i] = malloc((size_t)p->count[i] * sizeof(float));
        random_floats((uint64_t)i + 1, *arrays[i], p->count[i]);
    }
    for (int i = 0; i < 4 && s.math == GPUR_MATH_BF16; i++)
        p->bf16[i] = make_bf16(*arrays[i], p->count[i]);
    const int made = s.pass == GPUR_CONV_FORWARD ? 2 : s.pass == GPUR_CONV_TO_INPUT ? 0 : 1;
    p->made = *arrays[made], p->made_count = p->count[made];
}

static void conv_problem_close(conv_problem *p)
{
    free(p->x), free(p->w), free(p->y), free(p->bias);
    for (int i = 0; i < 4; i++)
        free(p->bf16[i]);
}

/* Uploads, runs and fetches. The plan goes before the work is waited for, as a plan may. */
static gpur_status run_with(conv_problem *p, gpur_conv *conv, int64_t images, gpur_stream *stream, void *d[5])
{
    const float *const host[4] = {p->x, p->w, p->y, p->bias};
    const gpur_conv_arrays arrays = {.x = d[0], .w = d[1], .y = d[2], .bias = p->shape.epilogue ? d[3] : NULL};
    for (int i = 0; i < 4; i++)
        GPUR_TRY(p->bf16[i] ? gpur_device_copy(device, d[i], p->bf16[i], p->count[i] * 2)
                            : gpur_device_copy(device, d[i], host[i], p->count[i] * 4));
    return gpur_conv_run(conv, stream, images, &arrays, d[4]);
}

/* Fetches the result from `d`; only the gradient of the weights is float32 in any case. */
static gpur_status fetch(conv_problem *p, void *d)
{
    uint16_t *const bf16 = p->made == p->w ? NULL : p->bf16[p->made == p->y ? 2 : 0];
    if (!bf16)
        return gpur_device_copy(device, p->made, d, p->made_count * 4);
    GPUR_TRY(gpur_device_copy(device, bf16, d, p->made_count * 2));
    for (int64_t i = 0; i < p->made_count; i++) {
        const uint32_t bits = (uint32_t)bf16[i] << 16;
        memcpy(&p->made[i], &bits, sizeof bits);
    }
    return GPUR_OK;
}

/* Runs it for `images` images on the device; `method` becomes the plan's. */
static gpur_status conv_problem_run(conv_problem *p, int64_t images, const char **method)
{
    gpur_conv *conv = NULL;
    gpur_stream *stream = NULL;
    void *d[5] = {NULL};
    GPUR_TRY(gpur_conv_create(device, &p->shape, &conv));
    *method = gpur_conv_method(conv);
    gpur_status status = gpur_stream_create(device, &stream);
    for (int i = 0; i < 5 && status == GPUR_OK; i++) {
        const int64_t bytes = i < 4 ? p->count[i] * 4 : gpur_conv_workspace_bytes(conv);
        status = bytes ? gpur_device_alloc(device, bytes, &d[i]) : GPUR_OK;
    }
    if (status == GPUR_OK)
        status = run_with(p, conv, images, stream, d);
    gpur_conv_destroy(conv);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = fetch(p, d[p->made == p->y ? 2 : p->made == p->w]);
    gpur_stream_destroy(stream);
    for (int i = 0; i < 5; i++)
        gpur_device_free(device, d[i]);
    return status;
}

static double *widen(const float *x, int64_t count, int magnitudes)
{
    double *const wide = malloc((size_t)count * sizeof *wide);
    for (int64_t i = 0; i < count; i++)
        wide[i] = magnitudes ? fabs((double)x[i]) : x[i];
    return wide;
}

/* What the pass should make, in double: (made_count), malloc'ed; the sums of the magnitudes of its terms instead if
 * `magnitudes`. */
static double *expected(const conv_problem *p, int magnitudes)
{
    double *const x = widen(p->x, p->count[0], magnitudes), *const w = widen(p->w, p->count[1], magnitudes);
    double *const dy = widen(p->y, p->count[2], magnitudes);
    double *const made = calloc((size_t)p->made_count, sizeof *made);
    const int64_t x_step = p->count[0] / p->shape.images, y_step = p->count[2] / p->shape.images;
    for (int64_t n = 0; n < p->shape.images; n++) {
        double *const xn = x + n * x_step, *const dyn = dy + n * y_step;
        if (p->shape.pass == GPUR_CONV_FORWARD)
            ref_conv_forward(&p->one, xn, w, made + n * y_step, NULL);
        else if (p->shape.pass == GPUR_CONV_TO_INPUT)
            ref_conv_backward(&p->one, xn, w, dyn, made + n * x_step, NULL);
        else
            ref_conv_backward(&p->one, xn, w, dyn, NULL, made);
    }
    for (int64_t i = 0; p->shape.epilogue != GPUR_EPILOGUE_NONE && !magnitudes && i < p->made_count; i++) {
        made[i] += p->bias[i % p->shape.filters];
        if (p->shape.epilogue == GPUR_EPILOGUE_BIAS_RELU && made[i] < 0)
            made[i] = 0;
    }
    free(x), free(w), free(dy);
    return made;
}

/* Images, height, width; channels, filters, kernel, stride, padding. The first three are the Nature network's layers,
 * smaller; the fourth is its first layer as blocks of 4 x 4 pixels. The one of 12 images needs several chunks of
 * im2col. The two behind it are enough work for several threads. The others have SAME padding, most of them more of it
 * behind the image than before it; the first two are those of an 84 x 84 screen. */
typedef struct conv_case {
    int images, height, width;
    int numbers[5];
} conv_case;
static const conv_case cases[] = {
    {2, 20, 20, {4, 32, 8, 4, 0}},    {3, 9, 9, {32, 64, 4, 2, 0}},      {2, 7, 7, {64, 64, 3, 1, 0}},
    {4, 5, 5, {64, 32, 2, 1, 0}},     {1, 1, 1, {1, 1, 1, 1, 0}},        {1, 5, 4, {3, 2, 1, 1, 0}},
    {5, 6, 9, {1, 7, 2, 2, 1}},       {2, 11, 7, {5, 3, 3, 2, 1}},       {1, 13, 13, {2, 9, 5, 3, 2}},
    {3, 8, 10, {16, 16, 4, 4, 3}},    {2, 9, 9, {3, 17, 6, 1, 5}},       {1, 10, 21, {8, 4, 7, 4, 0}},
    {2, 16, 16, {4, 8, 8, 3, 1}},     {7, 4, 4, {10, 33, 4, 1, 0}},      {13, 3, 5, {2, 3, 2, 1, 1}},
    {64, 6, 6, {8, 16, 3, 2, 1}},     {33, 12, 12, {4, 16, 4, 2, 0}},    {97, 21, 3, {16, 32, 2, 1, 0}},
    {12, 16, 16, {8, 8, 5, 1, 2}},    {33, 20, 20, {4, 32, 8, 4, 0}},    {24, 9, 9, {32, 64, 4, 2, 0}},
    {1, 84, 84, {4, 16, 8, 4, SAME}}, {2, 21, 21, {16, 32, 4, 2, SAME}}, {3, 10, 12, {8, 8, 4, 3, SAME}},
    {2, 7, 9, {5, 3, 4, 1, SAME}},    {2, 13, 18, {3, 6, 8, 4, SAME}},   {1, 5, 3, {2, 3, 2, 4, SAME}},
    {4, 2, 1, {3, 4, 8, 1, SAME}},    {1, 40, 40, {4, 32, 8, 3, SAME}},
};
#if defined(GPUR_RACE_CHECK) && defined(__SANITIZE_THREAD__) /* slow: every GPU thread is a real, instrumented thread */
enum { CASES = sizeof cases / sizeof *cases / 2 };
#else
enum { CASES = sizeof cases / sizeof *cases };
#endif

/* Rounding errors grow with the sum of the magnitudes of the terms. The result is rounded once to bfloat16, whose
 * numbers have 8 bits; of the weights' gradients only cuDNN's are. */
static void check_result(const conv_problem *p, const char *method, const double *want, const double *size)
{
    const int is_rounded = p->bf16[0] && (p->made != p->w || test_on_cuda());
    for (int64_t i = 0; i < p->made_count; i++)
        TEST_REQUIRE(
            fabs(p->made[i] - want[i]) <= 1e-6 + 1e-6 * size[i] + (is_rounded ? 0x1p-8 * fabs(want[i]) : 0),
            "pass %d by %s, %d x %d x %d by %d, kernel %d, stride %d, padding %d, %d: number %d is %.9g, wanted %.9g",
            (int)p->shape.pass, method, p->one.height, p->one.width, p->one.channels, p->one.filters, p->one.kernel,
            p->one.stride, p->one.top, p->one.left, (int)i, (double)p->made[i], want[i]);
}

/* The library and im2col must both be correct; an epilogue may be unavailable. Counts the runs by im2col. */
static void check_shape(const gpur_conv_shape *shape, int *by_im2col)
{
    conv_problem p;
    const char *method = "";
    conv_problem_open(&p, shape);
    double *const want = expected(&p, 0), *const size = expected(&p, 1);
    const gpur_status status = conv_problem_run(&p, shape->images, &method);
    if (status == GPUR_OK)
        check_result(&p, method, want, size);
    *by_im2col += strcmp(method, "patches") == 0;
    conv_problem_close(&p);
    free(want), free(size);
    CHECK(status == GPUR_OK || (status == GPUR_UNAVAILABLE && shape->epilogue != GPUR_EPILOGUE_NONE));
}

/* Runs all cases of a pass, in bfloat16 those with multiples of 8 channels and filters; returns how many ran by
 * im2col. */
static int check_cases(int pass, int32_t must_be_im2col, int32_t epilogue, int32_t math)
{
    int by_im2col = 0;
    for (int i = 0; i < CASES; i++) {
        gpur_conv_shape shape = conv_shape_of(pass, cases[i].images, cases[i].height, cases[i].width, cases[i].numbers);
        shape.by_im2col = must_be_im2col, shape.epilogue = epilogue, shape.math = math;
        if (math != GPUR_MATH_BF16 || (shape.channels % 8 == 0 && shape.filters % 8 == 0))
            check_shape(&shape, &by_im2col);
    }
    return by_im2col;
}

TEST(every_pass_agrees_with_the_definition_by_the_library_and_by_im2col)
{
    for (int pass = GPUR_CONV_FORWARD; pass <= GPUR_CONV_TO_WEIGHT; pass++) {
        CHECK_EQUAL(check_cases(pass, 1, GPUR_EPILOGUE_NONE, 0), CASES);
        const int by_im2col = check_cases(pass, 0, GPUR_EPILOGUE_NONE, 0);
#ifdef GPUR_HAS_DNNL
        CHECK(test_on_cuda() || by_im2col < CASES / 2);
#else
        (void)by_im2col;
#endif
    }
}

TEST(epilogues_are_right_or_unavailable)
{
    check_cases(GPUR_CONV_FORWARD, 0, GPUR_EPILOGUE_BIAS, GPUR_MATH_FP32);
    check_cases(GPUR_CONV_FORWARD, 0, GPUR_EPILOGUE_BIAS_RELU, GPUR_MATH_FP32);
}

TEST(in_bfloat16_every_pass_and_epilogue_agrees_and_is_rounded_once)
{
    for (int32_t by_im2col = 0; by_im2col < 2; by_im2col++) {
        check_cases(GPUR_CONV_FORWARD, by_im2col, GPUR_EPILOGUE_NONE, GPUR_MATH_BF16);
        check_cases(GPUR_CONV_FORWARD, by_im2col, GPUR_EPILOGUE_BIAS, GPUR_MATH_BF16);
        check_cases(GPUR_CONV_FORWARD, by_im2col, GPUR_EPILOGUE_BIAS_RELU, GPUR_MATH_BF16);
        check_cases(GPUR_CONV_TO_INPUT, by_im2col, GPUR_EPILOGUE_NONE, GPUR_MATH_BF16);
        check_cases(GPUR_CONV_TO_WEIGHT, by_im2col, GPUR_EPILOGUE_NONE, GPUR_MATH_BF16);
    }
}

/* Runs a plan for `planned` images with every smaller number, too. More images may be computed than asked for; those
 * asked for may differ by rounding only, since a GEMM of fewer rows may sum in another order. */
static void check_fewer(int32_t by_im2col, int64_t planned, const int numbers[5])
{
    conv_problem p;
    const char *method = "";
    gpur_conv_shape shape = conv_shape_of(GPUR_CONV_FORWARD, (int)planned, 9, 8, numbers);
    shape.by_im2col = by_im2col;
    conv_problem_open(&p, &shape);
    double *const want = expected(&p, 0), *const size = expected(&p, 1);
    const int64_t count = p.made_count;
    for (int64_t images = 1; images <= planned; images++) {
        p.made_count = images * count / planned;
        CHECK_OK(conv_problem_run(&p, images, &method));
        check_result(&p, method, want, size);
    }
    conv_problem_close(&p);
    free(want), free(size);
}

TEST(fewer_images_than_planned_are_right)
{
    static const int small[5] = {4, 16, 3, 2, 1}, large[5] = {32, 64, 4, 2, 0};
    for (int32_t by_im2col = 0; by_im2col < 2; by_im2col++) {
        check_fewer(by_im2col, 12, small);
        for (int64_t planned = 13; planned <= 16; planned++)
            check_fewer(by_im2col, planned, large);
    }
}

static void check_refused(gpur_conv_shape shape, const char *message)
{
    gpur_conv *conv = NULL;
    CHECK_FAILS(gpur_conv_create(device, &shape, &conv), GPUR_INVALID_ARGUMENT, message);
    CHECK(!conv);
}

TEST(shapes_out_of_range_are_refused_with_their_values)
{
    static const int numbers[5] = {4, 8, 3, 1, 0};
    const gpur_conv_shape good = conv_shape_of(GPUR_CONV_FORWARD, 2, 5, 5, numbers);
    gpur_conv_shape s = good;
    s.height = 2, check_refused(s, "a kernel of 3 on an image that with its padding has 2 x 5 pixels");
    s = good, s.width = 1, s.right = 1, check_refused(s, "with its padding has 5 x 2 pixels");
    s = good, s.bottom = 3, check_refused(s, "kernel 3, stride 1, padding 3");
    s = good, s.left = -1, check_refused(s, "kernel 3, stride 1, padding -1");
    s = good, s.pass = GPUR_CONV_TO_WEIGHT, s.epilogue = GPUR_EPILOGUE_BIAS, check_refused(s, "");
    s = good, s.images = 0, check_refused(s, "a convolution of 0 images");
    s = good, s.math = 3, check_refused(s, "3");
    s = good, s.math = GPUR_MATH_BF16, check_refused(s, "in bfloat16 of 4 channels by 8 filters");
}

TEST(the_host_programs_thread_count_stays_as_found)
{
    if (!omp_get_max_threads || !omp_set_num_threads)
        return;
    const int before = omp_get_max_threads();
    int by_im2col = 0;
    const gpur_conv_shape shape = conv_shape_of(GPUR_CONV_FORWARD, 8, 20, 20, cases[0].numbers);
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        check_shape(&shape, &by_im2col);
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
        conv_problem p;
        const char *method = "";
        gpur_conv_shape shape = conv_shape_of(pass, 32, 20, 20, cases[0].numbers);
        shape.deterministic = 1;
        conv_problem_open(&p, &shape);
        CHECK_OK(conv_problem_run(&p, 32, &method));
        float *const first = malloc((size_t)p.made_count * sizeof *first);
        memcpy(first, p.made, (size_t)p.made_count * sizeof *first);
        CHECK_OK(conv_problem_run(&p, 32, &method));
        const int same = memcmp(first, p.made, (size_t)p.made_count * sizeof *first) == 0;
        conv_problem_close(&p);
        free(first);
        CHECK(same);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(every_pass_agrees_with_the_definition_by_the_library_and_by_im2col);
    RUN(epilogues_are_right_or_unavailable);
    RUN(in_bfloat16_every_pass_and_epilogue_agrees_and_is_rounded_once);
    RUN(fewer_images_than_planned_are_right);
    RUN(shapes_out_of_range_are_refused_with_their_values);
    RUN(the_host_programs_thread_count_stays_as_found);
    RUN(a_repeated_run_gives_the_same_bits);
    gpur_device_close(device);
    return test_main_end();
}
