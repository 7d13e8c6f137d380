/* SPDX-License-Identifier: MIT */
/* A kernel gives the same result in every launch shape, and the collectives of a block and a warp are correct. */
#include "test.h"
#include "device/device.h"
#include "kernels/lib/collective.h"

static gpur_device *device;
static gpur_stream *stream;

/* Returns the lanes of a warp on the device under test. */
static int warp(void)
{
    return test_on_cuda() ? 32 : GPUR_WARP;
}

enum { MAX_PROBE = 1024 };
typedef struct probe {
    float in[MAX_PROBE], sum, lane_zero[MAX_PROBE];
    uint64_t prefix[MAX_PROBE];
    int32_t first[MAX_PROBE];
} probe;

static gpur_status run_probe(int32_t threads, int64_t n, probe *p)
{
    probe *on_device = NULL;
    GPUR_TRY(gpur_memory_alloc(device, sizeof *p, "the test", (void **)&on_device));
    GPUR_TRY(gpur_copy(stream, on_device, p, sizeof *p));
    const gpur_collective_probe_args args = {.in = on_device->in,
                                             .n = n,
                                             .sum = &on_device->sum,
                                             .prefix = on_device->prefix,
                                             .first = on_device->first,
                                             .lane_zero = on_device->lane_zero};
    GPUR_TRY(gpur_launch_collective_probe(stream, (gpur_grid){1, threads, 0}, &args));
    GPUR_TRY(gpur_copy(stream, p, on_device, sizeof *p));
    GPUR_TRY(gpur_stream_sync(stream));
    gpur_memory_free(device, on_device);
    return GPUR_OK;
}

static int32_t first_positive(const probe *p, int64_t n, int64_t begin)
{
    for (int64_t i = begin; i < begin + warp() && i < n; i++)
        if (p->in[i] > 0.0f)
            return (int32_t)(i - begin);
    return -1;
}

static void check_probe(const probe *p, int64_t n)
{
    double sum = 0.0, size = 0.0;
    uint64_t prefix = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t begin = i / warp() * warp();
        prefix = (i == begin ? 0 : prefix) + (uint64_t)i + ((uint64_t)1 << 33);
        sum += p->in[i], size += fabs((double)p->in[i]);
        CHECK(p->prefix[i] == prefix);
        CHECK_EQUAL(p->first[i], first_positive(p, n, begin));
        CHECK(p->lane_zero[i] == p->in[begin]);
    }
    CHECK_NEAR(p->sum, sum, 1e-6 * size);
}

static const int32_t *block_sizes(int *count)
{
    static const int32_t cpu[] = {1}, race[] = {4, 8, 12, 32}, cuda[] = {32, 64, 96, 256, 1024};
    *count = test_on_cuda() ? 5 : GPUR_WARP > 1 ? 4 : 1;
    return test_on_cuda() ? cuda : GPUR_WARP > 1 ? race : cpu;
}

TEST(the_collectives_of_a_block_and_of_a_warp_are_right)
{
    static probe p;
    int sizes = 0;
    const int32_t *const threads = block_sizes(&sizes);
    for (int size = 0; size < sizes; size++)
        for (int64_t n = threads[size]; n >= 1; n = n * 2 / 3) {
            for (int64_t i = 0; i < n; i++) /* some warps have no positive value */
                p.in[i] = (float)((i * 37 + 11) % 23) * (i / warp() % 3 == 1 ? -0.25f : i % 4 == 2 ? 0.5f : -0.125f);
            CHECK_OK(run_probe(threads[size], n, &p));
            check_probe(&p, n);
        }
}

enum { BATCH = 37, FEATURES = 129, PITCH = 131, COUNT = BATCH * PITCH };

static gpur_status run_bias(int32_t activation, float *y)
{
    float *on_device = NULL, bias[FEATURES];
    for (int f = 0; f < FEATURES; f++)
        bias[f] = (float)(f % 7) * 0.3f - 1.0f;
    for (int i = 0; i < COUNT; i++)
        y[i] = (float)(i * 31 % 1009) / 500.0f - 1.0f;
    GPUR_TRY(gpur_memory_alloc(device, (COUNT + FEATURES) * 4, "the test", (void **)&on_device));
    GPUR_TRY(gpur_copy(stream, on_device, y, COUNT * 4));
    GPUR_TRY(gpur_copy(stream, on_device + COUNT, bias, FEATURES * 4));
    const gpur_bias_activation_args args = {.y = on_device,
                                            .bias = on_device + COUNT,
                                            .batch = BATCH,
                                            .features = FEATURES,
                                            .pitch = PITCH,
                                            .activation = activation};
    GPUR_TRY(gpur_launch_bias_activation(stream, gpur_grid_rows(device, BATCH, 1, FEATURES * 4), &args));
    GPUR_TRY(gpur_copy(stream, y, on_device, COUNT * 4));
    GPUR_TRY(gpur_stream_sync(stream));
    gpur_memory_free(device, on_device);
    return GPUR_OK;
}

static void check_bias(const float *y, int32_t activation)
{
    for (int i = 0; i < COUNT; i++) {
        const double before = (float)(i * 31 % 1009) / 500.0f - 1.0f;
        const double sum = before + (double)((float)(i % PITCH % 7) * 0.3f - 1.0f);
        const double active = activation == GPUR_TANH ? tanh(sum) : activation == GPUR_RELU && sum < 0.0 ? 0.0 : sum;
        CHECK_NEAR(y[i], i % PITCH < FEATURES ? active : before, 1e-6);
    }
}

TEST(any_number_of_blocks_and_threads_gives_the_same_bits)
{
    static const int64_t blocks[] = {1, 2, 7, 64};
    static float first[COUNT], y[COUNT];
    int sizes = 0;
    const int32_t *const threads = block_sizes(&sizes);
    for (int32_t activation = GPUR_LINEAR; activation <= GPUR_TANH; activation++) {
        gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
        CHECK_OK(run_bias(activation, first));
        check_bias(first, activation);
        for (int shape = 0; shape < 4 * sizes; shape++) {
            gpur_device_force_grid(device, (gpur_grid){blocks[shape % 4], threads[shape / 4], 0});
            CHECK(gpur_grid_rows(device, 1000, 4, 256).blocks == blocks[shape % 4] &&
                  gpur_grid_elements(device, 1000).threads == threads[shape / 4]);
            CHECK_EQUAL(gpur_grid_single(device).blocks, 1);
            CHECK_OK(run_bias(activation, y));
            CHECK(memcmp(first, y, sizeof y) == 0);
        }
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(the_collectives_of_a_block_and_of_a_warp_are_right);
    RUN(any_number_of_blocks_and_threads_gives_the_same_bits);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
