/* SPDX-License-Identifier: MIT */
/* The kernels round_bf16, to bfloat16, and widen_bf16, back to float32 with optional bias and activation. */
#include "test.h"
#include "support/learn_rig.h"

static gpur_device *device;
static gpur_stream *stream;

/* Round to nearest, ties to even. */
static const struct {
    uint32_t from;
    uint16_t to;
} roundings[] = {
    {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82}, {0x3f817fff, 0x3f81},
    {0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80}, {0x7f800001, 0x7fc0},
    {0xffc12345, 0xffc1}, {0xbf80c000, 0xbf81}, {0x00008001, 0x0001},
};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

TEST(rounding_to_bfloat16_is_to_nearest_even_at_every_launch_shape)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 96, 0}};
    float from[ROUNDINGS];
    for (int i = 0; i < ROUNDINGS; i++)
        memcpy(&from[i], &roundings[i].from, 4);
    for (int g = 0; g < 3; g++) {
        uint16_t to[ROUNDINGS] = {0};
        gpur_round_bf16_args args = {rig_upload(device, from, sizeof from), rig_upload(device, to, sizeof to),
                                     ROUNDINGS};
        CHECK_OK(gpur_launch_round_bf16(stream, grids[g], &args));
        CHECK_OK(gpur_stream_sync(stream));
        CHECK_OK(gpur_device_copy(device, to, args.to, sizeof to));
        gpur_device_free(device, (void *)(uintptr_t)args.from);
        gpur_device_free(device, args.to);
        for (int i = 0; i < ROUNDINGS; i++)
            CHECK_EQUAL(to[i], roundings[i].to);
    }
}

/* Widening is exact; with a bias it adds the bias of the column and applies the activation. */
static void check_widening(const float *bias, int activation, gpur_grid grid)
{
    enum { COLUMNS = 3, COUNT = 3 * COLUMNS };
    const uint16_t from[COUNT] = {0x3f80, 0xbf80, 0x4000, 0xc000, 0x3e80, 0x4120, 0x8000, 0x0000, 0xc120};
    const double values[COUNT] = {1, -1, 2, -2, 0.25, 10, 0, 0, -10};
    float to[COUNT] = {0};
    gpur_widen_bf16_args args = {.from = rig_upload(device, from, sizeof from),
                                 .to = rig_upload(device, to, sizeof to)};
    args.bias = bias ? rig_upload(device, bias, COLUMNS * 4) : NULL;
    args.count = COUNT, args.features = COLUMNS, args.activation = activation;
    CHECK_OK(gpur_launch_widen_bf16(stream, grid, &args));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(gpur_device_copy(device, to, args.to, sizeof to));
    gpur_device_free(device, (void *)(uintptr_t)args.from);
    gpur_device_free(device, args.to);
    gpur_device_free(device, (void *)(uintptr_t)args.bias);
    for (int i = 0; i < COUNT; i++) {
        const double x = values[i] + (bias ? bias[i % COLUMNS] : 0);
        CHECK_NEAR(to[i], activation == GPUR_RELU && x < 0 ? 0 : x, 0);
    }
}

TEST(widening_is_exact_and_takes_bias_and_activation_along_at_every_launch_shape)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 96, 0}};
    const float bias[3] = {0.5f, -0.25f, 1.0f};
    for (int g = 0; g < 3; g++) {
        check_widening(NULL, GPUR_LINEAR, grids[g]);
        check_widening(bias, GPUR_LINEAR, grids[g]);
        check_widening(bias, GPUR_RELU, grids[g]);
    }
}

/* ROWS rows of `columns` values, in arrays that start `shift` elements after a multiple of 256 bytes. */
enum { ROWS = 37, MOST = 40 * 33, MOST_COLUMNS = 32 };

typedef struct rows_case {
    int columns, shift, biased;
} rows_case;

typedef struct rows_arrays {
    uint16_t narrow[MOST], again[MOST];
    float wide[MOST], bias[MOST_COLUMNS];
} rows_arrays;

static void fill(rows_arrays *a)
{
    memset(a, 0, sizeof *a);
    for (int i = 0; i < MOST; i++)
        a->narrow[i] = (uint16_t)(0x3f80 + i % 97 + (i % 3 == 0 ? 0x8000 : 0));
    for (int f = 0; f < MOST_COLUMNS; f++)
        a->bias[f] = 0.0625f * (float)f;
}

/* Widens `narrow` to `wide`, and rounds `wide` back to `again`. */
static void run(const rows_case *c, rows_arrays *a, gpur_grid grid)
{
    rows_arrays *const there = rig_upload(device, a, sizeof *a);
    const int64_t count = (int64_t)ROWS * c->columns;
    const gpur_widen_bf16_args widen = {there->narrow + c->shift, there->wide + c->shift,
                                        c->biased ? there->bias : NULL, count, c->columns, GPUR_LINEAR};
    const gpur_round_bf16_args round = {there->wide + c->shift, there->again + c->shift, count};
    CHECK_OK(gpur_launch_widen_bf16(stream, grid, &widen));
    CHECK_OK(gpur_launch_round_bf16(stream, grid, &round));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(gpur_device_copy(device, a, there, sizeof *a));
    gpur_device_free(device, there);
}

/* Checks the rows, and that nothing around them was written. */
static void check_rows(const rows_case *c, gpur_grid grid)
{
    static rows_arrays a;
    fill(&a);
    run(c, &a, grid);
    for (int i = 0; i < MOST; i++) {
        const int is_in = i >= c->shift && i < c->shift + ROWS * c->columns;
        const uint32_t bits = is_in ? (uint32_t)a.narrow[i] << 16 : 0;
        float x;
        memcpy(&x, &bits, sizeof x);
        CHECK_NEAR(a.wide[i], is_in && c->biased ? x + a.bias[(i - c->shift) % c->columns] : x, 0);
        if (!c->biased)
            CHECK_EQUAL(a.again[i], is_in ? a.narrow[i] : 0);
    }
}

TEST(rows_are_widened_and_rounded_back_wherever_they_lie_at_every_launch_shape)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 96, 0}};
    static const int columns[] = {1, 3, 4, 6, 32};
    for (int i = 0; i < 5 * 5 * 2 * 3; i++) {
        const rows_case c = {columns[i / 30], i / 6 % 5, i / 3 % 2};
        check_rows(&c, grids[i % 3]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(rounding_to_bfloat16_is_to_nearest_even_at_every_launch_shape);
    RUN(rows_are_widened_and_rounded_back_wherever_they_lie_at_every_launch_shape);
    RUN(widening_is_exact_and_takes_bias_and_activation_along_at_every_launch_shape);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
