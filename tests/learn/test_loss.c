/* SPDX-License-Identifier: MIT */
/* The heads, forward and backward, and the td_error kernel (targets, loss and gradient) against the reference and its
 * finite differences. */
#include "support/replay_fixture.h"
#include "test.h"
#include "device/device.h"
#include "support/learner_fixture.h"

#include <float.h>

enum { B = 37, MAX_ACTIONS = 18, Z_PITCH = 20 };

static gpur_device *device;
static gpur_stream *stream;
static const gpur_grid any_grid = {0, 0, 0};

/* A batch for the forward and backward pass of a head: inputs, and the outputs of the device. */
typedef struct passage {
    int head, actions, columns, width; /* columns of z and of y */
    float z[B * Z_PITCH], bias[MAX_ACTIONS + 1], dy[B * (MAX_ACTIONS + 1)];
    float y[B * (MAX_ACTIONS + 1)], dz[B * Z_PITCH];
} passage;

static void make_passage(passage *p, int head, int actions)
{
    memset(p, 0, sizeof *p);
    p->head = head, p->actions = actions;
    p->columns = actions + (head == GPUR_HEAD_DUELING || head == GPUR_HEAD_SOFTMAX_VALUE);
    p->width = actions + (head == GPUR_HEAD_SOFTMAX_VALUE);
    random_floats(21, p->z, B * Z_PITCH);
    random_floats(22, p->bias, MAX_ACTIONS + 1);
    random_floats(23, p->dy, B * (MAX_ACTIONS + 1));
    for (int i = 0; i < B * Z_PITCH; i++)
        p->z[i] *= 3;
}

/* Runs both passes on a copy on the device, and reads all of it back. */
static gpur_status pass_through(passage *p)
{
    const gpur_grid grid = gpur_grid_elements(device, B);
    passage *const there = upload_to_device(device, p, sizeof *p);
    gpur_head_forward_args forward = {0};
    gpur_head_backward_args backward = {0};
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    forward.z = there->z, forward.bias = there->bias, forward.y = there->y;
    forward.batch = B, forward.z_pitch = Z_PITCH, forward.y_pitch = p->width;
    forward.head = p->head, forward.num_actions = p->actions;
    backward.y = there->y, backward.dy = there->dy, backward.dz = there->dz;
    backward.batch = B, backward.dz_pitch = Z_PITCH, backward.head = p->head, backward.num_actions = p->actions;
    gpur_status status = gpur_launch_head_forward(stream, grid, &forward);
    if (status == GPUR_OK)
        status = gpur_launch_head_backward(stream, grid, &backward);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, p, there, sizeof *p);
    gpur_device_free(device, there);
    return status;
}

/* sum(dy * y) of row b, as a function of its z + bias. */
static double weighted_sum(const passage *p, int b, const double *in)
{
    double out[MAX_ACTIONS + 1], sum = 0;
    ref_head(p->head, p->actions, in, out);
    for (int k = 0; k < p->width; k++)
        sum += p->dy[b * p->width + k] * out[k];
    return sum;
}

static void check_passage_row(const passage *p, int b)
{
    double in[MAX_ACTIONS + 1], out[MAX_ACTIONS + 1];
    for (int k = 0; k < p->columns; k++)
        in[k] = (double)p->z[b * Z_PITCH + k] + (double)p->bias[k];
    ref_head(p->head, p->actions, in, out);
    for (int k = 0; k < p->width; k++)
        CHECK_NEAR(p->y[b * p->width + k], out[k], 3e-6);
    for (int j = 0; j < p->columns; j++) {
        const double at = in[j];
        in[j] = at + 1e-6;
        const double up = weighted_sum(p, b, in);
        in[j] = at - 1e-6;
        const double down = weighted_sum(p, b, in);
        in[j] = at;
        CHECK_NEAR(p->dz[b * Z_PITCH + j], (up - down) / 2e-6, 1e-5);
    }
}

static void check_head(int head, int actions)
{
    static passage p;
    make_passage(&p, head, actions);
    CHECK_OK(pass_through(&p));
    for (int b = 0; b < B; b++)
        check_passage_row(&p, b);
}

TEST(every_head_agrees_with_finite_differences)
{
    for (int head = GPUR_HEAD_Q; head <= GPUR_HEAD_TANH_ACTION; head++) {
        check_head(head, 1);
        check_head(head, 4);
        check_head(head, MAX_ACTIONS);
    }
}

TEST(large_logits_do_not_overflow)
{
    static passage p;
    const float z[4] = {1000.0f, 999.0f, -1000.0f, 5.0f};
    make_passage(&p, GPUR_HEAD_SOFTMAX_VALUE, 3);
    memcpy(p.z, z, sizeof z);
    memset(p.bias, 0, sizeof p.bias);
    CHECK_OK(pass_through(&p));
    CHECK_NEAR(p.y[0], 1 / (1 + exp(-1)), 1e-6);
    CHECK_NEAR(p.y[2], 0, FLT_MIN);
    CHECK_NEAR(p.y[3], 5, 0);
}

/* A batch of made-up network outputs, and the results of td_error. */
typedef struct batch {
    gpur_td_error_args args; /* pointers are set by run_td_error */
    float z[2 * B * Z_PITCH], z_target[B * Z_PITCH], bias[MAX_ACTIONS + 1], bias_target[MAX_ACTIONS + 1];
    int64_t action[B];
    int32_t narrow_action[B];
    float reward[B], discount[B], weight[B];
    int64_t id[B];
    int is_given; /* 1: rewards are the targets, and some rows are missing */
    float q[2 * B * MAX_ACTIONS], q_target[B * MAX_ACTIONS], dq[B * MAX_ACTIONS], dz[B * Z_PITCH];
    float td[B], loss[B], q_taken[B], invalid[B], missing[B];
} batch;

/* The columns of z. */
static int columns_of(const batch *c)
{
    return c->args.num_actions + (c->args.head == GPUR_HEAD_DUELING);
}

static int is_unknown(const batch *c, int b)
{
    return c->action[b] < 0 || c->action[b] >= c->args.num_actions;
}

static int is_missing(const batch *c, int b)
{
    return c->is_given && c->id[b] < 0;
}

/* `spoiled`: the action of every third row is out of range. */
static void make_batch(batch *c, int head, int actions, int double_dqn, int loss, int wide, int spoiled)
{
    static const int64_t narrow_bad[] = {MAX_ACTIONS, -1, INT32_MAX, INT32_MIN};
    static const int64_t wide_bad[] = {MAX_ACTIONS, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    memset(c, 0, sizeof *c);
    c->args.batch = B, c->args.z_pitch = Z_PITCH;
    c->args.head = head, c->args.num_actions = actions;
    c->args.action_is_int64 = wide, c->args.double_dqn = double_dqn;
    c->args.loss_kind = loss == GPUR_LOSS_SQUARED, c->args.huber_delta = 0.75f;
    random_floats(1, c->z, 2 * B * Z_PITCH);
    random_floats(2, c->z_target, B * Z_PITCH);
    random_floats(3, c->bias, MAX_ACTIONS + 1);
    random_floats(4, c->bias_target, MAX_ACTIONS + 1);
    random_floats(6, c->reward, B);
    random_floats(7, c->weight, B);
    for (int b = 0; b < B; b++) {
        c->action[b] = (b * 7 + 3) % actions;
        if (spoiled && b % 3 == 0)
            c->action[b] = wide ? wide_bad[b / 3 % 5] : narrow_bad[b / 3 % 4];
        c->narrow_action[b] = (int32_t)c->action[b];
        c->discount[b] = b % 5 == 0 ? 0.0f : 0.97f;
        c->reward[b] *= 3; /* errors on both sides of Huber's delta */
        c->weight[b] = 0.5f + 0.4f * c->weight[b];
        c->id[b] = b % 4 == 1 ? -1 : b;
    }
}

/* Runs td_error on a copy on the device, and reads all of it back. */
static gpur_status run_td_error(batch *c, gpur_grid grid)
{
    batch *const there = upload_to_device(device, c, sizeof *c);
    gpur_td_error_args a = c->args;
    if (!there)
        return GPUR_OUT_OF_MEMORY;
    a.z = there->z, a.z_target = there->z_target, a.bias = there->bias, a.bias_target = there->bias_target;
    a.action = a.action_is_int64 ? (const void *)there->action : there->narrow_action;
    a.reward = there->reward, a.discount = there->discount, a.weight = there->weight;
    a.q = there->q, a.q_target = there->q_target, a.dq = there->dq, a.dz = there->dz;
    if (c->is_given)
        a.discount = NULL, a.z_target = NULL, a.q_target = NULL, a.id = there->id, a.missing = there->missing;
    a.td = there->td, a.loss = there->loss, a.q_taken = there->q_taken, a.invalid = there->invalid;
    gpur_device_force_grid(device, grid);
    gpur_status status = gpur_launch_td_error(stream, gpur_grid_elements(device, B), &a);
    gpur_device_force_grid(device, any_grid);
    if (status == GPUR_OK)
        status = gpur_stream_sync(stream);
    if (status == GPUR_OK)
        status = gpur_device_copy(device, c, there, sizeof *c);
    gpur_device_free(device, there);
    return status;
}

static void head_of(const batch *c, const float *z, const float *bias, double *y)
{
    double sum[MAX_ACTIONS + 1];
    for (int k = 0; k < columns_of(c); k++)
        sum[k] = (double)z[k] + (double)bias[k];
    ref_head(c->args.head, c->args.num_actions, sum, y);
}

static int best_of(const double *y, int count)
{
    int best = 0;
    for (int k = 1; k < count; k++)
        best = y[k] > y[best] ? k : best;
    return best;
}

static double target_of(const batch *c, int b)
{
    double online[MAX_ACTIONS], target[MAX_ACTIONS];
    head_of(c, c->z + (B + b) * Z_PITCH, c->bias, online);
    head_of(c, c->z_target + b * Z_PITCH, c->bias_target, target);
    if (c->is_given)
        return (double)c->reward[b];
    const int best = best_of(c->args.double_dqn ? online : target, c->args.num_actions);
    return c->reward[b] + (c->discount[b] > 0 ? (double)c->discount[b] * target[best] : 0);
}

/* The weighted loss of row b as a function of its z; 0 if its action is out of range. Fills in *error and *taken if not
 * NULL. */
static double loss_of(const batch *c, int b, const float *z, double *error, double *taken)
{
    double y[MAX_ACTIONS];
    if (error)
        *error = *taken = 0;
    if (is_unknown(c, b) || is_missing(c, b))
        return 0;
    head_of(c, z, c->bias, y);
    const double d = y[c->action[b]] - target_of(c, b);
    if (error)
        *error = d, *taken = y[c->action[b]];
    return c->weight[b] * ref_loss(c->args.loss_kind ? GPUR_LOSS_SQUARED : GPUR_LOSS_HUBER, c->args.huber_delta, d);
}

/* The gradient of row b, which is exactly 0 if its action is out of range. */
static void check_gradient(const batch *c, int b, double tolerance)
{
    const float h = 0x1p-12f;
    float z[Z_PITCH];
    memcpy(z, c->z + b * Z_PITCH, sizeof z);
    for (int k = 0; k < columns_of(c); k++) {
        const float at = z[k], up = at + h, down = at - h;
        z[k] = up;
        const double above = loss_of(c, b, z, NULL, NULL);
        z[k] = down;
        const double below = loss_of(c, b, z, NULL, NULL);
        z[k] = at;
        CHECK_NEAR(c->dz[b * Z_PITCH + k], (above - below) / ((double)up - (double)down) / B, 5 * tolerance);
    }
}

static void check_batch(batch *c)
{
    CHECK_OK(run_td_error(c, any_grid));
    for (int b = 0; b < B; b++) {
        double error, q;
        const double want = loss_of(c, b, c->z + b * Z_PITCH, &error, &q);
        const double tolerance = is_unknown(c, b) || is_missing(c, b) ? 0 : 2e-6;
        CHECK_NEAR(c->missing[b], is_missing(c, b), 0);
        CHECK_NEAR(c->invalid[b], is_unknown(c, b), 0);
        CHECK_NEAR(c->loss[b], want, tolerance);
        CHECK_NEAR(c->td[b], fabs(error), tolerance);
        CHECK_NEAR(c->q_taken[b], q, tolerance);
        check_gradient(c, b, tolerance);
    }
}

TEST(targets_losses_and_gradients_agree_with_the_reference)
{
    static batch c;
    for (int variant = 0; variant < 64; variant++) {
        make_batch(&c, variant & 1 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q, variant & 16 ? MAX_ACTIONS : 3, variant >> 1 & 1,
                   variant >> 2 & 1, variant >> 3 & 1, variant >> 5);
        check_batch(&c);
    }
}

TEST(losses_and_gradients_of_given_returns_agree_with_the_reference)
{
    static batch c;
    for (int variant = 0; variant < 16; variant++) {
        make_batch(&c, variant & 1 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q, 3, 0, variant >> 1 & 1, variant >> 2 & 1,
                   variant >> 3);
        c.is_given = 1;
        check_batch(&c);
    }
}

/* Row 0 has discount 0. */
TEST(the_next_observation_of_a_terminal_step_has_no_effect)
{
    static batch c;
    make_batch(&c, GPUR_HEAD_DUELING, 4, 1, GPUR_LOSS_HUBER, 0, 0);
    for (int k = 0; k < Z_PITCH; k++)
        c.z_target[k] = k % 2 ? INFINITY : NAN;
    CHECK_OK(run_td_error(&c, any_grid));
    CHECK_NEAR(c.loss[0], loss_of(&c, 0, c.z, NULL, NULL), 2e-6);
}

/* In row 1 the online values of next_obs are all 0. */
TEST(the_first_of_equal_actions_is_the_best)
{
    static batch c;
    make_batch(&c, GPUR_HEAD_Q, 4, 1, GPUR_LOSS_SQUARED, 0, 0);
    for (int k = 0; k < Z_PITCH; k++)
        c.z[(B + 1) * Z_PITCH + k] = -c.bias[k % (MAX_ACTIONS + 1)];
    CHECK_OK(run_td_error(&c, any_grid));
    CHECK_NEAR(c.loss[1], loss_of(&c, 1, c.z + Z_PITCH, NULL, NULL), 2e-6);
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 256, 0}};
    static batch first, c;
    for (int i = 0; i < 3; i++) {
        make_batch(&c, GPUR_HEAD_DUELING, 5, 1, GPUR_LOSS_HUBER, 0, 0);
        CHECK_OK(run_td_error(&c, grids[i]));
        first = i == 0 ? c : first;
        CHECK(memcmp(first.dz, c.dz, sizeof c.dz) == 0 && memcmp(first.loss, c.loss, sizeof c.loss) == 0);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(every_head_agrees_with_finite_differences);
    RUN(large_logits_do_not_overflow);
    RUN(targets_losses_and_gradients_agree_with_the_reference);
    RUN(losses_and_gradients_of_given_returns_agree_with_the_reference);
    RUN(the_next_observation_of_a_terminal_step_has_no_effect);
    RUN(the_first_of_equal_actions_is_the_best);
    RUN(no_launch_shape_changes_a_bit);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
