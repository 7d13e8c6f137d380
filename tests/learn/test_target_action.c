/* SPDX-License-Identifier: MIT */
/* The target_action kernel: clipped noise on the target policy's actions against Philox and Box-Muller in double, and
 * by statistics. */
#include "device/device.h"
#include "reference/reference_dpg.h"
#include "support/learner_fixture.h"
#include "support/noise_statistics.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { B = 64, ACTIONS = 6, Z_PITCH = 8, Y_PITCH = 12 };

static gpur_device *device;
static gpur_stream *stream;
static const gpur_grid any_grid = {0, 0, 0};

/* Inputs, and what the kernel writes. */
typedef struct batch {
    gpur_train_state state;
    float z[B * Z_PITCH], bias[ACTIONS], y[B * Y_PITCH];
} batch;

/* Step t = 1, 2, ...; reads back all of it. */
static gpur_status run(batch *c, int64_t t, uint64_t seed, float sigma, float clip, gpur_grid grid)
{
    c->state.step = (uint64_t)t - 1;
    batch *const there = upload_to_device(device, c, sizeof *c);
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    const gpur_target_action_args args = {
        .z = there->z,
        .bias = there->bias,
        .state = &there->state,
        .y = there->y,
        .batch = B,
        .z_pitch = Z_PITCH,
        .y_pitch = Y_PITCH,
        .num_actions = ACTIONS,
        .sigma = sigma,
        .clip = clip,
        .seed = seed,
    };
    gpur_device_force_grid(device, grid);
    gpur_status status = gpur_launch_target_action(stream, gpur_grid_elements(device, B), &args);
    gpur_device_force_grid(device, any_grid);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_device_free(device, there);
    return status;
}

/* Also of a step above 2^32, and where the actions' limits clip, too. */
TEST(actions_are_clipped_sums_of_mu_and_clipped_noise)
{
    static const struct {
        int64_t t;
        float sigma, clip;
    } cases[] = {{1, 0.2f, 0.5f}, {7, 0.2f, 0.1f}, {((int64_t)5 << 32) + 3, 2, 0}, {1000, 1, 0.3f}};
    static batch c;
    int clipped = 0, at_bounds = 0;
    random_floats(1, c.z, B * Z_PITCH);
    random_floats(2, c.bias, ACTIONS);
    for (int i = 0; i < 4; i++) {
        const uint64_t seed = ((uint64_t)9 << 40) + (uint64_t)i;
        CHECK_OK(run(&c, cases[i].t, seed, cases[i].sigma, cases[i].clip, any_grid));
        for (int b = 0; b < B; b++)
            for (int k = 0; k < Y_PITCH; k++) {
                const float got = c.y[b * Y_PITCH + k];
                const double noise =
                    ref_dpg_noise(seed, cases[i].t, (uint32_t)b, k, (double)cases[i].sigma, (double)cases[i].clip);
                const double mu = k < ACTIONS ? tanh((double)c.z[b * Z_PITCH + k] + (double)c.bias[k]) : 0;
                CHECK_NEAR(got, k < ACTIONS ? fmax(-1, fmin(1, mu + noise)) : 0, 1e-5);
                clipped += fabs(noise) == (double)cases[i].clip, at_bounds += fabsf(got) == 1;
            }
    }
    CHECK(clipped > B && at_bounds > B);
}

/* Limits that one seed in millions crosses by chance; the seed is fixed. */
TEST(noise_is_normal_independent_and_clipped_as_often_as_it_should_be)
{
    static noise_statistics s;
    static double noise[2][B * ACTIONS];
    static batch c;
    const int steps = IN_RACE_CHECK ? 40 : 400;
    int64_t clipped = 0;
    for (int t = 0; t < steps; t++) {
        CHECK_OK(run(&c, t + 1, 11, 0.1f, 0, any_grid));
        for (int i = 0; i < B * ACTIONS; i++) {
            noise[t % 2][i] = (double)c.y[i / ACTIONS * Y_PITCH + i % ACTIONS] / (double)0.1f;
            clipped += fabs(noise[t % 2][i]) > 2.5;
        }
        noise_statistics_add(&s, noise[t % 2], t % 2 ? noise[0] : NULL, B, ACTIONS);
    }
    noise_statistics_check(&s);
    const double n = (double)s.count, p = erfc(2.5 / sqrt(2)); /* 0.2 clipped to 0.5, as in the paper */
    CHECK_NEAR((double)clipped / n, p, 5 * sqrt(p * (1 - p) / n));
    int64_t at_limit = 0;
    for (int t = 0; t < steps; t++) {
        CHECK_OK(run(&c, t + 1, 11, 0.2f, 0.5f, any_grid));
        for (int i = 0; i < B * ACTIONS; i++) {
            const float y = c.y[i / ACTIONS * Y_PITCH + i % ACTIONS];
            CHECK(fabsf(y) <= 0.5f);
            at_limit += fabsf(y) == 0.5f;
        }
    }
    CHECK_NEAR((double)at_limit, (double)clipped, 2);
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static batch first, c;
    random_floats(1, c.z, B * Z_PITCH);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(run(&c, 5, 3, 0.2f, 0.5f, grids[i]));
        first = i == 0 ? c : first;
        CHECK(memcmp(first.y, c.y, sizeof c.y) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) == GPUR_OK) {
        RUN(actions_are_clipped_sums_of_mu_and_clipped_noise);
        RUN(noise_is_normal_independent_and_clipped_as_often_as_it_should_be);
        RUN(no_launch_shape_changes_a_bit);
    }
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
