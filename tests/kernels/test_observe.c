/* SPDX-License-Identifier: MIT */
/* The kernel `observe` (preprocessing): observations become the input of the first layer. */
#include "test.h"
#include "support/learn_rig.h"

static gpur_device *device;
static gpur_stream *stream;

enum { IMAGES = 3, GAP = 5 };

typedef struct observe_case {
    int height, width, channels, block, floats, planes, bf16;
} observe_case;

/* Value (n, y, x, c) of the case's observations, a small integer. */
static int value_of(int n, int y, int x, int c)
{
    return (n * 89 + y * 31 + x * 7 + c * 3) % 251;
}

/* Observations as a replay stores them, `pitch` bytes apart. */
static unsigned char *make_observations(const observe_case *k, int64_t pitch)
{
    unsigned char *const obs = calloc(IMAGES, (size_t)pitch);
    for (int n = 0; n < IMAGES; n++)
        for (int y = 0; y < k->height; y++)
            for (int x = 0; x < k->width; x++)
                for (int c = 0; c < k->channels; c++) {
                    const int at =
                        k->planes ? (c * k->height + y) * k->width + x : (y * k->width + x) * k->channels + c;
                    const float wide = (float)value_of(n, y, x, c);
                    if (k->floats)
                        memcpy(obs + n * pitch + at * 4, &wide, 4);
                    else
                        obs[n * pitch + at] = (unsigned char)wide;
                }
    return obs;
}

static double read_number(const observe_case *k, const unsigned char *x, int64_t i)
{
    uint16_t half;
    float wide;
    if (!k->bf16) {
        memcpy(&wide, x + i * 4, 4);
        return wide;
    }
    memcpy(&half, x + i * 2, 2);
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&wide, &bits, 4);
    return wide;
}

/* Pixel blocks are in row-major order, so are the pixels of a block; a pixel's channels are contiguous. */
static void check_numbers(const observe_case *k, const unsigned char *x, int64_t x_pitch)
{
    const int b = k->block;
    for (int n = 0; n < IMAGES; n++) {
        int64_t at = n * x_pitch;
        for (int top = 0; top < k->height; top += b)
            for (int left = 0; left < k->width; left += b)
                for (int i = 0; i < b * b * k->channels; i++, at++) {
                    const int pixel = i / k->channels, c = i % k->channels;
                    const double want = 0.25 * value_of(n, top + pixel / b, left + pixel % b, c);
                    CHECK_NEAR(read_number(k, x, at), want, 0); /* at most 8 significant bits, so exact in bfloat16 */
                }
        for (int gap = 0; gap < GAP; gap++, at++)
            CHECK_NEAR(read_number(k, x, at), 0, 0);
    }
}

static gpur_status observe(const observe_case *k, gpur_grid grid, unsigned char *x, int64_t x_pitch)
{
    const int64_t features = (int64_t)k->height * k->width * k->channels;
    const int64_t obs_pitch = features * (k->floats ? 4 : 1) + 3 - 3 * k->floats, bytes = IMAGES * x_pitch * 4;
    unsigned char *const obs = make_observations(k, obs_pitch);
    void *const from = rig_upload(device, obs, IMAGES * obs_pitch), *const to = rig_upload(device, x, bytes);
    free(obs);
    gpur_observe_args args = {.obs = from, .x = to, .count = IMAGES, .obs_pitch = obs_pitch, .x_pitch = x_pitch};
    args.height = k->height, args.width = k->width, args.channels = k->channels, args.block = k->block;
    args.floats = k->floats, args.planes = k->planes, args.bf16 = k->bf16, args.scale = 0.25f;
    gpur_status status = from && to ? gpur_launch_observe(stream, grid, &args) : GPUR_OUT_OF_MEMORY;
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, x, to, bytes);
    gpur_device_free(device, from);
    gpur_device_free(device, to);
    return status;
}

static void check_case(const observe_case *k, gpur_grid grid)
{
    const int64_t x_pitch = (int64_t)k->height * k->width * k->channels + GAP;
    unsigned char *const x = calloc(IMAGES, (size_t)x_pitch * 4);
    const gpur_status status = observe(k, grid, x, x_pitch);
    if (status == GPUR_OK)
        check_numbers(k, x, x_pitch);
    free(x);
    CHECK_OK(status);
}

TEST(every_layout_becomes_what_the_first_layer_reads_at_every_launch_shape)
{
    static const int sizes[][4] = {{8, 12, 4, 4}, {6, 4, 3, 2}, {5, 7, 2, 1}, {1, 33, 1, 1}, {3, 3, 1, 3}};
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 96, 0}};
    for (int size = 0; size < 5; size++)
        for (int flags = 0; flags < 8; flags++)
            for (int grid = 0; grid < 3; grid++) {
                const int *const s = sizes[size];
                const observe_case k = {s[0], s[1], s[2], s[3], flags & 1, flags >> 1 & 1, flags >> 2};
                check_case(&k, grids[grid]);
            }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(every_layout_becomes_what_the_first_layer_reads_at_every_launch_shape);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
