/* SPDX-License-Identifier: MIT */
/* The critic_error kernel: targets, loss, errors and gradient of one critic and of two, with an entropy and without,
 * against the formulas in double and finite differences of the loss. */
#include "device/device.h"
#include "support/learner_fixture.h"
#include "support/replay_fixture.h"
#include "test.h"

enum { B = 37, ACTIONS = 3, ACTION_PITCH = 8, Z_PITCH = 4 };

static gpur_device *device;
static gpur_stream *stream;
static const gpur_grid any_grid = {0, 0, 0};

/* A batch of made-up outputs of critics, and the results of the kernel. */
typedef struct batch {
    int critics, has_entropy;
    float z[B * Z_PITCH], z_target[B * Z_PITCH], bias[2], bias_target[2];
    float action[B * ACTION_PITCH], reward[B], discount[B], weight[B], entropy[B];
    float dz[B * Z_PITCH], td[B], loss[B], q_taken[B], invalid[B];
} batch;

/* Every seventh row has an action that no actor gives. */
static void make_batch(batch *c, int critics, int has_entropy)
{
    static const float bad[] = {1.5f, -1.0000001f, NAN, INFINITY, -INFINITY, 2.0f};
    memset(c, 0, sizeof *c);
    c->critics = critics, c->has_entropy = has_entropy;
    random_floats(1, c->z, B * Z_PITCH);
    random_floats(2, c->z_target, B * Z_PITCH);
    random_floats(3, c->bias, 2);
    random_floats(4, c->bias_target, 2);
    random_floats(5, c->action, B * ACTION_PITCH);
    random_floats(6, c->reward, B);
    random_floats(7, c->weight, B);
    random_floats(8, c->entropy, B);
    for (int b = 0; b < B; b++) {
        c->discount[b] = b % 5 == 0 ? 0.0f : 0.97f;
        c->weight[b] = 0.5f + 0.4f * c->weight[b];
        if (b % 7 == 6)
            c->action[b * ACTION_PITCH + b % ACTIONS] = bad[b / 7];
    }
    c->action[1] = 1.0f, c->action[2] = -1.0f; /* the limits themselves are fine */
}

/* Runs the kernel on a copy on the device, and reads all of it back. */
static gpur_status run(batch *c, gpur_grid grid)
{
    batch *const there = upload_to_device(device, c, sizeof *c);
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    const gpur_critic_error_args args = {
        .z = there->z,
        .z_target = there->z_target,
        .bias = there->bias,
        .bias_target = there->bias_target,
        .action = there->action,
        .reward = there->reward,
        .discount = there->discount,
        .entropy = c->has_entropy ? there->entropy : NULL,
        .weight = there->weight,
        .dz = there->dz,
        .td = there->td,
        .loss = there->loss,
        .q_taken = there->q_taken,
        .invalid = there->invalid,
        .batch = B,
        .z_pitch = Z_PITCH,
        .action_pitch = ACTION_PITCH,
        .critics = c->critics,
        .num_actions = ACTIONS,
    };
    gpur_device_force_grid(device, grid);
    gpur_status status = gpur_launch_critic_error(stream, gpur_grid_elements(device, B), &args);
    gpur_device_force_grid(device, any_grid);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_device_free(device, there);
    return status;
}

static double target_of(const batch *c, int b)
{
    double least = INFINITY;
    for (int i = 0; i < c->critics; i++)
        least = fmin(least, (double)c->z_target[b * Z_PITCH + i] + (double)c->bias_target[i]);
    least -= c->has_entropy ? (double)c->entropy[b] : 0;
    return (double)c->reward[b] + (double)c->discount[b] * least;
}

/* The weighted loss of row b whose values are moved by `step`. */
static double loss_of(const batch *c, int b, const double *step)
{
    double sum = 0;
    for (int i = 0; i < c->critics; i++) {
        const double q = (double)c->z[b * Z_PITCH + i] + (double)c->bias[i] + step[i];
        sum += (double)c->weight[b] * pow(q - target_of(c, b), 2) / 2;
    }
    return sum;
}

static void check_row(const batch *c, int b)
{
    const int is_trained = b % 7 != 6;
    double td = 0, mean = 0;
    for (int i = 0; i < c->critics; i++) {
        const double q = (double)c->z[b * Z_PITCH + i] + (double)c->bias[i];
        double up[2] = {0, 0}, down[2] = {0, 0};
        up[i] = 1e-6, down[i] = -1e-6;
        td += fabs(q - target_of(c, b)) / c->critics, mean += q / c->critics;
        const double slope = (loss_of(c, b, up) - loss_of(c, b, down)) / 2e-6 / B;
        CHECK_NEAR(c->dz[b * Z_PITCH + i], is_trained ? slope : 0, 1e-6);
    }
    CHECK_NEAR(c->td[b], is_trained ? td : 0, 1e-6);
    CHECK_NEAR(c->q_taken[b], is_trained ? mean : 0, 1e-6);
    CHECK_NEAR(c->loss[b], is_trained ? loss_of(c, b, (double[2]){0, 0}) : 0, 1e-6);
    CHECK_EQUAL(c->invalid[b], is_trained ? 0 : 1);
}

TEST(targets_losses_errors_and_gradients_agree_with_the_formulas)
{
    for (int which = 0; which < 4; which++) {
        static batch c, untouched;
        make_batch(&c, 1 + which % 2, which / 2);
        untouched = c;
        CHECK_OK(run(&c, any_grid));
        for (int b = 0; b < B; b++) {
            check_row(&c, b);
            for (int i = c.critics; i < Z_PITCH; i++) /* no other columns are written */
                CHECK_EQUAL(c.dz[b * Z_PITCH + i], untouched.dz[b * Z_PITCH + i]);
        }
    }
}

/* The value of what follows a terminal step may be anything. */
TEST(the_next_observation_of_a_terminal_step_has_no_effect)
{
    static batch c, other;
    make_batch(&c, 2, 1);
    other = c;
    for (int b = 0; b < B; b += 5)
        other.z_target[b * Z_PITCH] = b % 2 ? NAN : INFINITY, other.entropy[b] = INFINITY;
    CHECK_OK(run(&c, any_grid));
    CHECK_OK(run(&other, any_grid));
    CHECK(memcmp(c.dz, other.dz, sizeof c.dz) == 0 && memcmp(c.td, other.td, sizeof c.td) == 0);
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {2, 64, 0}, {7, 96, 0}, {64, 256, 0}};
    static batch first, c;
    for (int i = 0; i < 4; i++) {
        make_batch(&c, 2, 1);
        CHECK_OK(run(&c, grids[i]));
        first = i == 0 ? c : first;
        CHECK(memcmp(first.dz, c.dz, sizeof c.dz) == 0 && memcmp(first.td, c.td, sizeof c.td) == 0 &&
              memcmp(first.loss, c.loss, sizeof c.loss) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) == GPUR_OK) {
        RUN(targets_losses_errors_and_gradients_agree_with_the_formulas);
        RUN(the_next_observation_of_a_terminal_step_has_no_effect);
        RUN(no_launch_shape_changes_a_bit);
    }
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
