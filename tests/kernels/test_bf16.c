/* SPDX-License-Identifier: MIT */
/* The kernels round_bf16, to bfloat16 with optional bias and activation, and widen_bf16, back to float32, at every
 * launch shape. */
#include "support/replay_fixture.h"
#include "test.h"
#include "device/device.h"

static gpur_device *device;
static gpur_stream *stream;

static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 96, 0}};

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

TEST(rounding_to_bfloat16_is_to_nearest_even)
{
    struct {
        uint32_t from[ROUNDINGS]; /* the bits of float32 */
        uint16_t to[ROUNDINGS];
    } a = {0};
    for (int i = 0; i < ROUNDINGS; i++)
        a.from[i] = roundings[i].from;
    for (int g = 0; g < 3; g++) {
        unsigned char *const there = upload_to_device(device, &a, sizeof a);
        const gpur_round_bf16_args args = {
            .from = (void *)there, .to = (void *)(there + sizeof a.from), .count = ROUNDINGS};
        CHECK_OK(gpur_launch_round_bf16(stream, grids[g], &args));
        CHECK_OK(gpur_stream_sync(stream));
        CHECK_OK(gpur_device_copy(device, &a, there, sizeof a));
        gpur_device_free(device, there);
        for (int i = 0; i < ROUNDINGS; i++)
            TEST_REQUIRE(a.to[i] == roundings[i].to, "%08x is rounded to %04x", roundings[i].from, a.to[i]);
        memset(a.to, 0, sizeof a.to);
    }
}

/* ROWS rows of `columns` values, in arrays that start `shift` elements after a multiple of 256 bytes. */
enum { ROWS = 37, LIMIT = 40 * 33, MAX_COLUMNS = 32 };

typedef struct rows_case {
    int columns, shift, biased, activation;
} rows_case;

typedef struct rows_arrays {
    uint16_t narrow[LIMIT], again[LIMIT], bias[MAX_COLUMNS];
    float wide[LIMIT];
} rows_arrays;

static void fill(rows_arrays *a)
{
    memset(a, 0, sizeof *a);
    for (int i = 0; i < LIMIT; i++)
        a->narrow[i] = (uint16_t)((i % 50 ? 0x3f80 + i % 97 : 0) + (i % 3 == 0 ? 0x8000 : 0));
    for (int f = 0; f < MAX_COLUMNS; f++)
        a->bias[f] = (uint16_t)(0x3f80 + f + (f % 2 ? 0x8000 : 0));
}

static float widened(uint16_t number)
{
    const uint32_t bits = (uint32_t)number << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Widens `narrow` to `wide`, and rounds `wide` back to `again`. */
static void run(const rows_case *c, rows_arrays *a, gpur_grid grid)
{
    rows_arrays *const there = upload_to_device(device, a, sizeof *a);
    const int64_t count = (int64_t)ROWS * c->columns;
    const gpur_widen_bf16_args widen = {there->narrow + c->shift, there->wide + c->shift, count};
    const gpur_round_bf16_args round = {
        there->wide + c->shift, there->again + c->shift, c->biased ? there->bias : NULL, count, c->columns,
        c->activation};
    CHECK_OK(gpur_launch_widen_bf16(stream, grid, &widen));
    CHECK_OK(gpur_launch_round_bf16(stream, grid, &round));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(gpur_device_copy(device, a, there, sizeof *a));
    gpur_device_free(device, there);
}

/* Widening is exact; rounding adds the bias of the column, applies the activation, and gives one of the nearest numbers
 * of 8 bits. Nothing around the rows is written. */
static void check_rows(const rows_case *c, gpur_grid grid)
{
    static rows_arrays a;
    fill(&a);
    run(c, &a, grid);
    for (int i = 0; i < LIMIT; i++) {
        const int is_in = i >= c->shift && i < c->shift + ROWS * c->columns;
        const float x = is_in ? widened(a.narrow[i]) : 0.0f;
        const float sum = x + (is_in && c->biased ? widened(a.bias[(i - c->shift) % c->columns]) : 0.0f);
        const float want = c->activation == GPUR_RELU && sum < 0 ? 0.0f : sum;
        CHECK_NEAR(a.wide[i], x, 0);
        CHECK_NEAR(widened(a.again[i]), want, want == 0 ? 0 : ldexp(1, ilogb(want) - 8));
        if (!c->biased)
            CHECK_EQUAL(a.again[i], is_in ? a.narrow[i] : 0);
    }
}

TEST(rows_are_widened_and_rounded_back_wherever_they_lie)
{
    static const int columns[] = {1, 3, 4, 6, 32};
    for (int i = 0; i < 5 * 5 * 3 * 3; i++) {
        const int kind = i / 3 % 3;
        check_rows(&(rows_case){columns[i / 45], i / 9 % 5, kind > 0, kind > 1 ? GPUR_RELU : GPUR_LINEAR},
                   grids[i % 3]);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(rounding_to_bfloat16_is_to_nearest_even);
    RUN(rows_are_widened_and_rounded_back_wherever_they_lie);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
