/* SPDX-License-Identifier: MIT */
/* layer_backward and conv_bias_backward: their gradients are right for every type and alignment, and the same to the
 * bit in every launch shape. */
#include "test.h"
#include "device/device.h"
#include "kernels/target/thread.h"

static gpur_device *device;
static gpur_stream *stream;

enum { ROWS = 300, WIDTH = 36, COUNT = ROWS * WIDTH, RUNS = (ROWS + GPUR_CONV_BIAS_ROWS - 1) / GPUR_CONV_BIAS_ROWS };

/* Which numbers are bfloat16. With ROUNDED the result is; with HALF_Y y, and with HALVES dy, too. */
enum { FLOATS = 0, ROUNDED = 1, HALF_Y = 2, HALVES = 3, TYPES = 4 };

typedef struct layer {
    int64_t rows, features, pitch;
    int32_t type, activation, is_conv;
} layer;

typedef struct arrays {
    float dy[COUNT], y[COUNT], sums[RUNS * WIDTH];
    uint16_t half_dy[COUNT], half_y[COUNT];
} arrays;

static uint16_t upper_half(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float widened(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float wide = 0.0f;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

/* All numbers are those of bfloat16. */
static void fill(arrays *p)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < COUNT; i++) {
        p->half_dy[i] = upper_half((float)(i * 31 % 1009) / 500.0f - 1.0f);
        p->half_y[i] = upper_half((float)(i * 17 % 509) / 300.0f - 0.8f);
        p->dy[i] = widened(p->half_dy[i]);
        p->y[i] = widened(p->half_y[i]);
    }
}

static gpur_status launch(const layer *l, arrays *p)
{
    const int dy_bf16 = l->type == HALVES, y_bf16 = l->type >= HALF_Y;
    void *const dy = dy_bf16 ? (void *)p->half_dy : (void *)p->dy;
    const void *const y = y_bf16 ? (const void *)p->half_y : (const void *)p->y;
    uint16_t *const rounded = l->type == FLOATS ? NULL : p->half_dy;
    if (!l->is_conv) {
        const gpur_layer_backward_args args = {dy,       y,        rounded,       p->sums, l->rows, l->features,
                                               l->pitch, l->pitch, l->activation, dy_bf16, y_bf16};
        return gpur_launch_layer_backward(stream, gpur_grid_rows(device, 5, 1, 4096), &args);
    }
    const gpur_conv_bias_backward_args args = {dy,      y,     rounded, p->sums, l->rows, l->features, l->activation,
                                               dy_bf16, y_bf16};
    return gpur_launch_conv_bias_backward(stream, gpur_grid_rows(device, 5, 1, 4096), &args);
}

static gpur_status run(const layer *l, arrays *p)
{
    arrays *on_device = NULL;
    fill(p);
    GPUR_TRY(gpur_memory_alloc(device, sizeof *p, "the test", (void **)&on_device));
    GPUR_TRY(gpur_copy(stream, on_device, p, sizeof *p));
    GPUR_TRY(launch(l, on_device));
    GPUR_TRY(gpur_copy(stream, p, on_device, sizeof *p));
    GPUR_TRY(gpur_stream_sync(stream));
    gpur_memory_free(device, on_device);
    return GPUR_OK;
}

static double slope_of(double y, int32_t activation)
{
    return activation == GPUR_RELU ? y > 0.0 : activation == GPUR_TANH ? 1.0 - y * y : 1.0;
}

static void check(const layer *l, const arrays *got)
{
    static arrays given;
    fill(&given);
    for (int64_t f = 0; f < l->pitch; f++) {
        double sum = 0.0, total = 0.0;
        for (int64_t b = 0; b < l->rows; b++) {
            const int64_t i = b * l->pitch + f;
            const double slope = f < l->features ? slope_of(given.y[i], l->activation) : 1.0;
            const double dy = given.dy[i] * slope, result = l->type ? widened(got->half_dy[i]) : got->dy[i];
            CHECK_NEAR(result, dy, l->type ? 0.00391 * fabs(dy) : 1e-6);
            sum += dy;
        }
        for (int run = 0; run < (l->is_conv ? RUNS : 1); run++)
            total += got->sums[run * l->features + f];
        if (f < l->features)
            CHECK_NEAR(total, sum, 1e-4);
    }
}

static void check_shapes(const layer *l)
{
    static const int32_t race[] = {4, 12, 32}, cuda[] = {32, 96, 512};
    static const int64_t blocks[] = {1, 3, 9};
    static arrays first, again;
    gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
    CHECK_OK(run(l, &first));
    check(l, &first);
    for (int shape = 0; shape < 3; shape++) {
        const int32_t threads = test_on_cuda() ? cuda[shape] : GPUR_WARP > 1 ? race[shape] : 1;
        gpur_device_force_grid(device, (gpur_grid){blocks[shape], threads, 0});
        CHECK_OK(run(l, &again));
        CHECK(memcmp(&first, &again, sizeof first) == 0);
    }
}

/* Rows of 36 and of 8 numbers are aligned for a GPU that loads four columns at a time, those of 7 and 33 are not. */
TEST(the_gradients_are_right_and_the_same_in_every_launch_shape)
{
    static const int64_t sizes[][3] = {{ROWS, 36, 36}, {ROWS, 33, 33}, {5, 8, 8}, {ROWS, 7, 7}, {37, 6, 8}};
    for (int32_t size = 0; size < 5; size++)
        for (int32_t activation = GPUR_LINEAR; activation <= GPUR_TANH; activation++)
            for (int32_t type = FLOATS; type < TYPES; type++) {
                layer l = {sizes[size][0], sizes[size][1], sizes[size][2], type, activation, 0};
                check_shapes(&l);
                l.is_conv = 1;
                if (l.features == l.pitch)
                    check_shapes(&l);
            }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(the_gradients_are_right_and_the_same_in_every_launch_shape);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
