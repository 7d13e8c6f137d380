/* SPDX-License-Identifier: MIT */
/* The kernels of heads of distributions: targets, losses, gradients and greedy actions against the reference and its
 * finite differences. */
#include "reference/reference_distribution.h"
#include "support/replay_fixture.h"
#include "test.h"
#include "device/device.h"
#include "support/learner_fixture.h"

#include <float.h>

enum { B = 19, MAX_ACTIONS = 4, MAX_ATOMS = 53, PITCH = 216 };

static gpur_device *device;
static gpur_stream *stream;
static const gpur_grid any_grid = {0, 0, 0};

/* A batch of made-up network outputs, and the results of distribution_error or distribution_greedy. */
typedef struct batch {
    gpur_network_config network; /* head, actions, atoms and support */
    float kappa, epsilon;
    int double_dqn, wide;
    float z[2 * B * PITCH], z_target[B * PITCH], bias[PITCH], bias_target[PITCH];
    int64_t wide_action[B];
    int32_t action[B];
    float reward[B], discount[B], weight[B];
    float q[2 * B * MAX_ACTIONS], q_target[B * MAX_ACTIONS], dz[B * PITCH], target[B * MAX_ATOMS],
        parts[2 * B * MAX_ATOMS];
    float td[B], loss[B], q_taken[B], invalid[B];
    int32_t chosen[B];
} batch;

/* `spoiled`: the action of every third row is out of range. */
static void make_batch(batch *c, int head, int actions, int atoms, int spoiled)
{
    memset(c, 0, sizeof *c);
    c->network.head = head, c->network.num_actions = actions, c->network.atoms = atoms;
    if (head == GPUR_HEAD_CATEGORICAL)
        c->network.v_min = -1.5f, c->network.v_max = 2.0f;
    c->kappa = 1.0f;
    random_floats(1, c->z, 2 * B * PITCH);
    random_floats(2, c->z_target, B * PITCH);
    random_floats(3, c->bias, PITCH);
    random_floats(4, c->bias_target, PITCH);
    random_floats(6, c->reward, B);
    random_floats(7, c->weight, B);
    for (int b = 0; b < B; b++) {
        c->action[b] = spoiled && b % 3 == 0 ? (b % 2 ? -1 : MAX_ACTIONS) : (b * 7 + 3) % actions;
        c->wide_action[b] = c->action[b];
        c->discount[b] = b % 5 == 0 ? 0.0f : 0.97f;
        c->weight[b] = 0.5f + 0.4f * c->weight[b];
        c->reward[b] *= 3;
    }
}

static gpur_distribution distribution_of(const batch *c)
{
    const gpur_distribution d = {c->network.atoms, c->network.v_min, c->network.v_max};
    return d;
}

static gpur_status launch_error(const batch *c, batch *there)
{
    gpur_distribution_error_args a = {.distribution = distribution_of(c)};
    gpur_td_error_args *const td = &a.td;
    td->z = there->z, td->z_target = there->z_target, td->bias = there->bias, td->bias_target = there->bias_target;
    td->action = c->wide ? (const void *)there->wide_action : there->action, td->action_is_int64 = c->wide;
    td->reward = there->reward, td->discount = there->discount, td->weight = there->weight;
    td->q = there->q, td->q_target = there->q_target, td->dz = there->dz, td->td = there->td, td->loss = there->loss;
    td->q_taken = there->q_taken, td->invalid = there->invalid;
    td->batch = B, td->z_pitch = PITCH, td->head = c->network.head, td->num_actions = c->network.num_actions;
    td->double_dqn = c->double_dqn, td->huber_delta = c->kappa;
    a.target = there->target, a.atom_loss = there->parts;
    return gpur_launch_distribution_error(stream, gpur_grid_rows(device, B, 1, PITCH * 4), &a);
}

static gpur_status launch_greedy(const batch *c, batch *there)
{
    const gpur_distribution_greedy_args a = {.z = there->z,
                                             .bias = there->bias,
                                             .per_action = there->q,
                                             .action = there->chosen,
                                             .batch = B,
                                             .z_pitch = PITCH,
                                             .head = c->network.head,
                                             .num_actions = c->network.num_actions,
                                             .seed = 9,
                                             .step = 4,
                                             .epsilon = c->epsilon,
                                             .distribution = distribution_of(c)};
    return gpur_launch_distribution_greedy(stream, gpur_grid_rows(device, B, 1, PITCH * 4), &a);
}

/* Launches on a copy on the device, and reads all of it back. */
static gpur_status run(batch *c, gpur_status (*launch)(const batch *c, batch *there), gpur_grid grid)
{
    batch *const there = upload_to_device(device, c, sizeof *c);
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    gpur_device_force_grid(device, grid);
    gpur_status status = launch(c, there);
    gpur_device_force_grid(device, any_grid);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_device_free(device, there);
    return status;
}

/* The numbers of all actions of a row. */
static void numbers_of(const batch *c, const float *z, const float *bias, double *x)
{
    for (int k = 0; k < c->network.num_actions * c->network.atoms; k++)
        x[k] = (double)(z[k] + bias[k]);
}

static int best_of(const batch *c, const double *x, double *means)
{
    int best = 0;
    for (int k = 0; k < c->network.num_actions; k++) {
        means[k] = ref_distribution_mean(&c->network, x + k * c->network.atoms);
        best = means[k] > means[best] ? k : best;
    }
    return best;
}

static void target_of(const batch *c, int b, double *target)
{
    double online[PITCH], next[PITCH], means[MAX_ACTIONS];
    numbers_of(c, c->z + (B + b) * PITCH, c->bias, online);
    numbers_of(c, c->z_target + b * PITCH, c->bias_target, next);
    const int best = best_of(c, c->double_dqn ? online : next, means);
    ref_distribution_target(&c->network, c->reward[b], c->discount[b], next + best * c->network.atoms, target);
}

/* The slopes of the reference's own loss, by differences. */
static void check_slopes(const batch *c, double *x, const double *target, const double *gradient)
{
    for (int i = 0; i < c->network.atoms; i++) {
        const double at = x[i];
        x[i] = at + 1e-6;
        const double up = ref_distribution_loss(&c->network, c->kappa, x, target, NULL);
        x[i] = at - 1e-6;
        const double down = ref_distribution_loss(&c->network, c->kappa, x, target, NULL);
        x[i] = at;
        CHECK_NEAR(gradient[i], (up - down) / 2e-6, 1e-5);
    }
}

static void check_row(const batch *c, int b)
{
    const int atoms = c->network.atoms, action = c->action[b];
    const int is_known = action >= 0 && action < c->network.num_actions;
    double x[PITCH], target[MAX_ATOMS], gradient[MAX_ATOMS], loss = 0, mean = 0;
    numbers_of(c, c->z + b * PITCH, c->bias, x);
    target_of(c, b, target);
    if (is_known) {
        loss = ref_distribution_loss(&c->network, c->kappa, x + action * atoms, target, gradient);
        mean = ref_distribution_mean(&c->network, x + action * atoms);
        if (c->kappa > 0) /* the loss of quantile regression has corners */
            check_slopes(c, x + action * atoms, target, gradient);
    }
    for (int i = 0; i < atoms; i++)
        CHECK_NEAR(c->target[b * atoms + i], target[i], 2e-6 * (1 + fabs(target[i])));
    CHECK_NEAR(c->invalid[b], !is_known, 0);
    CHECK_NEAR(c->td[b], loss, 1e-5 * loss);
    CHECK_NEAR(c->loss[b], c->weight[b] * loss, 1e-5 * loss);
    CHECK_NEAR(c->q_taken[b], mean, is_known ? 2e-6 : 0);
    for (int k = 0; k < c->network.num_actions * atoms; k++) {
        const int is_taken = is_known && k / atoms == action;
        CHECK_NEAR(c->dz[b * PITCH + k], is_taken ? c->weight[b] / B * gradient[k % atoms] : 0, is_taken ? 1e-6 : 0);
    }
}

static void check_batch(batch *c)
{
    CHECK_OK(run(c, launch_error, any_grid));
    for (int b = 0; b < B; b++)
        check_row(c, b);
}

TEST(targets_losses_and_gradients_agree_with_the_reference)
{
    static const int numbers[] = {2, 8, 11, MAX_ATOMS};
    static batch c;
    for (int variant = 0; variant < 64; variant++) {
        make_batch(&c, variant & 1 ? GPUR_HEAD_CATEGORICAL : GPUR_HEAD_QUANTILES, variant & 2 ? MAX_ACTIONS : 1,
                   numbers[variant >> 2 & 3], variant >> 5);
        c.double_dqn = variant >> 4 & 1, c.wide = variant & 1;
        check_batch(&c);
    }
}

/* From the loss of quantile regression to half the squared error over kappa. */
TEST(quantile_losses_of_every_kappa_agree_with_the_reference)
{
    static const float kappas[] = {0.0f, FLT_MIN / 4, 1e-6f, 0.3f, 1.0f, 1000.0f};
    static batch c;
    for (int i = 0; i < 6; i++) {
        make_batch(&c, GPUR_HEAD_QUANTILES, 3, i % 2 ? 1 : 21, 0);
        c.kappa = kappas[i];
        CHECK_OK(run(&c, launch_error, any_grid));
        c.kappa = kappas[i] < 1e-5f ? 0 : kappas[i]; /* no error of the batch is smaller */
        for (int b = 0; b < B; b++)
            check_row(&c, b);
    }
}

/* Rewards and returns on atoms, between them, at both ends, beyond, and not finite. */
TEST(the_projection_keeps_all_probability_and_its_place)
{
    static const float rewards[] = {-1.5f, 2.0f, 0.25f, 0.3f, -1.49999f, 1.99999f, 7.0f, -7.0f, 0.0f, 3e38f, -3e38f};
    static batch c;
    for (int variant = 0; variant < 6; variant++) {
        make_batch(&c, GPUR_HEAD_CATEGORICAL, 2, variant < 3 ? 15 : 2, 0);
        for (int b = 0; b < B; b++) {
            c.reward[b] = rewards[b % 11];
            c.discount[b] = variant % 3 == 0 ? 0.0f : variant % 3 == 1 ? 1.0f : 0.5f;
        }
        check_batch(&c);
        for (int b = 0; b < B; b++) {
            double sum = 0;
            for (int i = 0; i < c.network.atoms; i++) {
                CHECK(c.target[b * c.network.atoms + i] >= 0);
                sum += c.target[b * c.network.atoms + i];
            }
            CHECK_NEAR(sum, 1, 2e-6);
        }
        if (variant == 0)
            CHECK(c.target[0] == 1 && c.target[15 + 14] == 1 && c.target[2 * 15 + 7] == 1 &&
                  c.target[6 * 15 + 14] == 1);
    }
}

TEST(returns_that_are_not_finite_stay_on_the_support)
{
    static batch c;
    make_batch(&c, GPUR_HEAD_CATEGORICAL, 2, 15, 0);
    c.reward[1] = INFINITY, c.reward[2] = -INFINITY, c.reward[3] = NAN;
    CHECK_OK(run(&c, launch_error, any_grid));
    CHECK_NEAR(c.target[15 + 14], 1, 2e-6);
    CHECK_NEAR(c.target[2 * 15], 1, 2e-6);
    CHECK_NEAR(c.target[3 * 15], 1, 2e-6);
    CHECK(isfinite(c.loss[1]) && isfinite(c.loss[2]));
}

/* Row 0 has discount 0. */
TEST(the_next_observation_of_a_terminal_step_has_no_effect)
{
    static batch c;
    for (int head = GPUR_HEAD_QUANTILES; head <= GPUR_HEAD_CATEGORICAL; head++) {
        make_batch(&c, head, 3, 11, 0);
        double target[MAX_ATOMS], x[PITCH];
        target_of(&c, 0, target);
        numbers_of(&c, c.z, c.bias, x);
        const double want =
            c.weight[0] * ref_distribution_loss(&c.network, c.kappa, x + c.action[0] * 11, target, NULL);
        for (int k = 0; k < PITCH; k++)
            c.z_target[k] = k % 2 ? INFINITY : NAN;
        CHECK_OK(run(&c, launch_error, any_grid));
        CHECK_NEAR(c.loss[0], want, 1e-5 * want);
    }
}

TEST(large_logits_do_not_overflow)
{
    static batch c;
    make_batch(&c, GPUR_HEAD_CATEGORICAL, 1, 3, 0);
    const float z[3] = {1000.0f, 999.0f, -1000.0f};
    memset(c.bias, 0, sizeof c.bias);
    memcpy(c.z + PITCH, z, sizeof z);
    CHECK_OK(run(&c, launch_error, any_grid));
    CHECK_NEAR(c.q_taken[1], -1.5 / (1 + exp(-1)) + 0.25 / (1 + exp(1)), 1e-6);
    CHECK(isfinite(c.loss[1]) && isfinite(c.dz[PITCH]));
}

TEST(greedy_actions_have_the_largest_mean)
{
    static batch c;
    for (int variant = 0; variant < 8; variant++) {
        make_batch(&c, variant & 1 ? GPUR_HEAD_CATEGORICAL : GPUR_HEAD_QUANTILES, MAX_ACTIONS, variant & 2 ? 51 : 3, 0);
        c.epsilon = variant & 4 ? 0.5f : 0.0f;
        CHECK_OK(run(&c, launch_greedy, any_grid));
        for (int b = 0; b < B; b++) {
            double x[PITCH], means[MAX_ACTIONS];
            numbers_of(&c, c.z + b * PITCH, c.bias, x);
            (void)best_of(&c, x, means);
            CHECK_EQUAL(c.chosen[b], ref_epsilon_greedy(9, 4, (uint32_t)b, c.epsilon, MAX_ACTIONS, means));
            for (int k = 0; k < MAX_ACTIONS; k++)
                CHECK_NEAR(c.q[b * MAX_ACTIONS + k], means[k], 2e-6);
        }
    }
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 256, 0}};
    static batch first, c;
    for (int i = 0; i < 6; i++) {
        make_batch(&c, i < 3 ? GPUR_HEAD_QUANTILES : GPUR_HEAD_CATEGORICAL, MAX_ACTIONS, 51, 1);
        c.double_dqn = 1;
        CHECK_OK(run(&c, launch_error, grids[i % 3]));
        first = i % 3 == 0 ? c : first;
        CHECK(memcmp(first.dz, c.dz, sizeof c.dz) == 0 && memcmp(first.loss, c.loss, sizeof c.loss) == 0);
        CHECK(memcmp(first.q_taken, c.q_taken, sizeof c.q_taken) == 0);
    }
}

/* Critics: the actions of the tests above are copies of a critic here, and each number of an action vector is -1 to 1
 * but in every seventh row. */
enum { VECTOR = 3 };

static float vector_of(int b, int k)
{
    return b % 7 == 6 && k == 1 ? 1.25f : 0.25f * (float)(k - 1);
}

static float entropy_of(int b)
{
    return 0.1f * (float)(b % 4) - 0.15f;
}

typedef struct critics_there {
    batch b;
    float action[B * VECTOR], entropy[B];
} critics_there;

static gpur_status run_critics(critics_there *c, int has_entropy, gpur_grid grid)
{
    critics_there *const there = upload_to_device(device, c, sizeof *c);
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    const gpur_critic_distribution_error_args args = {
        .critic = {.z = there->b.z,
                   .z_target = there->b.z_target,
                   .bias = there->b.bias,
                   .bias_target = there->b.bias_target,
                   .action = there->action,
                   .reward = there->b.reward,
                   .discount = there->b.discount,
                   .entropy = has_entropy ? there->entropy : NULL,
                   .weight = there->b.weight,
                   .dz = there->b.dz,
                   .td = there->b.td,
                   .loss = there->b.loss,
                   .q_taken = there->b.q_taken,
                   .invalid = there->b.invalid,
                   .batch = B,
                   .z_pitch = PITCH,
                   .action_pitch = VECTOR,
                   .critics = c->b.network.num_actions,
                   .num_actions = VECTOR},
        .distribution = distribution_of(&c->b),
        .head = c->b.network.head,
        .kappa = c->b.kappa,
        .target = there->b.target,
        .atom_loss = there->b.parts,
    };
    gpur_device_force_grid(device, grid);
    gpur_status status = gpur_launch_critic_distribution_error(stream, gpur_grid_rows(device, B, 1, PITCH * 4), &args);
    gpur_device_force_grid(device, any_grid);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_device_free(device, there);
    return status;
}

static void check_critics_row(const batch *c, int b, int has_entropy)
{
    const int atoms = c->network.atoms, critics = c->network.num_actions, is_known = b % 7 != 6;
    double x[PITCH], next[PITCH], target[MAX_ATOMS], gradient[MAX_ATOMS], loss = 0, mean = 0;
    int least = 0;
    numbers_of(c, c->z + b * PITCH, c->bias, x);
    numbers_of(c, c->z_target + b * PITCH, c->bias_target, next);
    for (int i = 1; i < critics; i++)
        if (ref_distribution_mean(&c->network, next + i * atoms) <
            ref_distribution_mean(&c->network, next + least * atoms))
            least = i;
    const double lost = has_entropy ? (double)c->discount[b] * (double)entropy_of(b) : 0;
    ref_distribution_target(&c->network, c->reward[b] - lost, c->discount[b], next + least * atoms, target);
    for (int i = 0; i < critics; i++) {
        const double of_one = ref_distribution_loss(&c->network, c->kappa, x + i * atoms, target, gradient);
        loss += is_known ? of_one : 0;
        mean += is_known ? ref_distribution_mean(&c->network, x + i * atoms) / critics : 0;
        for (int k = 0; k < atoms; k++)
            CHECK_NEAR(c->dz[b * PITCH + i * atoms + k], is_known ? c->weight[b] / B * gradient[k] : 0,
                       is_known ? 1e-6 : 0);
    }
    CHECK_NEAR(c->invalid[b], !is_known, 0);
    CHECK_NEAR(c->td[b], loss / critics, 1e-5 * loss);
    CHECK_NEAR(c->loss[b], c->weight[b] * loss, 1e-5 * loss);
    CHECK_NEAR(c->q_taken[b], mean, is_known ? 2e-6 : 0);
}

static void make_critics(critics_there *c, int head, int critics, int atoms)
{
    make_batch(&c->b, head, critics, atoms, 0);
    for (int b = 0; b < B; b++) {
        c->entropy[b] = entropy_of(b);
        for (int k = 0; k < VECTOR; k++)
            c->action[b * VECTOR + k] = vector_of(b, k);
    }
}

TEST(critics_learn_the_distribution_with_the_smaller_mean)
{
    static critics_there c;
    for (int variant = 0; variant < 16; variant++) {
        make_critics(&c, variant & 1 ? GPUR_HEAD_CATEGORICAL : GPUR_HEAD_QUANTILES, variant & 2 ? 2 : 1,
                     variant & 4 ? 11 : 51);
        CHECK_OK(run_critics(&c, variant >> 3, any_grid));
        for (int b = 0; b < B; b++)
            check_critics_row(&c.b, b, variant >> 3);
    }
}

TEST(no_launch_shape_changes_a_bit_of_critics)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 256, 0}};
    static critics_there first, c;
    for (int i = 0; i < 6; i++) {
        make_critics(&c, i < 3 ? GPUR_HEAD_QUANTILES : GPUR_HEAD_CATEGORICAL, 2, 51);
        CHECK_OK(run_critics(&c, 1, grids[i % 3]));
        first = i % 3 == 0 ? c : first;
        CHECK(memcmp(first.b.dz, c.b.dz, sizeof c.b.dz) == 0 && memcmp(first.b.loss, c.b.loss, sizeof c.b.loss) == 0);
    }
}

static gpur_status launch_slope(const batch *c, batch *there)
{
    const gpur_distribution_slope_args args = {.z = there->z,
                                               .bias = there->bias,
                                               .q = there->q_taken,
                                               .dz = there->dz,
                                               .batch = B,
                                               .z_pitch = PITCH,
                                               .distribution = distribution_of(c),
                                               .head = c->network.head};
    return gpur_launch_distribution_slope(stream, gpur_grid_elements(device, B), &args);
}

TEST(slopes_of_means_agree_with_finite_differences)
{
    static batch c;
    for (int variant = 0; variant < 4; variant++) {
        make_batch(&c, variant & 1 ? GPUR_HEAD_CATEGORICAL : GPUR_HEAD_QUANTILES, 1, variant & 2 ? 51 : 2, 0);
        CHECK_OK(run(&c, launch_slope, any_grid));
        for (int b = 0; b < B; b++) {
            double x[PITCH];
            numbers_of(&c, c.z + b * PITCH, c.bias, x);
            CHECK_NEAR(c.q_taken[b], ref_distribution_mean(&c.network, x), 2e-6);
            for (int i = 0; i < c.network.atoms; i++) {
                const double at = x[i];
                x[i] = at + 1e-6;
                const double up = ref_distribution_mean(&c.network, x);
                x[i] = at - 1e-6;
                const double down = ref_distribution_mean(&c.network, x);
                x[i] = at;
                CHECK_NEAR(c.dz[b * PITCH + i], (up - down) / 2e-6, 1e-6);
            }
        }
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(targets_losses_and_gradients_agree_with_the_reference);
    RUN(quantile_losses_of_every_kappa_agree_with_the_reference);
    RUN(the_projection_keeps_all_probability_and_its_place);
    RUN(returns_that_are_not_finite_stay_on_the_support);
    RUN(the_next_observation_of_a_terminal_step_has_no_effect);
    RUN(large_logits_do_not_overflow);
    RUN(greedy_actions_have_the_largest_mean);
    RUN(no_launch_shape_changes_a_bit);
    RUN(critics_learn_the_distribution_with_the_smaller_mean);
    RUN(no_launch_shape_changes_a_bit_of_critics);
    RUN(slopes_of_means_agree_with_finite_differences);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
