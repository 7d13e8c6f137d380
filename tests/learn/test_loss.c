/* SPDX-License-Identifier: MIT */
/* The heads, forward and backward, and the td_error kernel (targets, loss and gradient) against the reference and its
 * finite differences. */
#include "test.h"
#include "device/device.h"
#include "support/learner_fixture.h"

#include <float.h>

enum { B = 37, MOST_A = 18, Z_PITCH = 20 };

static gpur_device *device;
static gpur_stream *stream;

static gpur_status fetch(void *to, const void *from, int64_t floats)
{
    return gpur_device_copy(device, to, from, floats * (int64_t)sizeof(float));
}

/* A batch for the forward and backward pass of a head: inputs, and the outputs of the device. */
typedef struct passage {
    int head, actions, columns, width; /* columns of z and of y */
    float z[B * Z_PITCH], bias[MOST_A + 1], dy[B * (MOST_A + 1)];
    float y[B * (MOST_A + 1)], dz[B * Z_PITCH];
} passage;

static void make_passage(passage *p, int head, int actions)
{
    memset(p, 0, sizeof *p);
    p->head = head, p->actions = actions;
    p->columns = actions + (head == GPUR_HEAD_DUELING || head == GPUR_HEAD_SOFTMAX_VALUE);
    p->width = actions + (head == GPUR_HEAD_SOFTMAX_VALUE);
    random_floats(21, p->z, B * Z_PITCH);
    random_floats(22, p->bias, MOST_A + 1);
    random_floats(23, p->dy, B * (MOST_A + 1));
    for (int i = 0; i < B * Z_PITCH; i++)
        p->z[i] *= 3;
}

/* Runs both passes on `there`, the copy of `p` on the device. */
static gpur_status pass_through(passage *p, passage *there)
{
    const gpur_grid grid = gpur_grid_elements(device, B);
    gpur_head_forward_args forward = {0};
    forward.z = there->z, forward.bias = there->bias, forward.y = there->y;
    forward.batch = B, forward.z_pitch = Z_PITCH, forward.head = p->head, forward.num_actions = p->actions;
    gpur_head_backward_args backward = {0};
    backward.y = there->y, backward.dy = there->dy, backward.dz = there->dz;
    backward.batch = B, backward.dz_pitch = Z_PITCH, backward.head = p->head, backward.num_actions = p->actions;
    GPUR_TRY(gpur_launch_head_forward(stream, grid, &forward));
    GPUR_TRY(gpur_launch_head_backward(stream, grid, &backward));
    GPUR_TRY(gpur_stream_sync(stream));
    return gpur_device_copy(device, p, there, sizeof *p);
}

/* sum(dy * y) of row b, as a function of its z + bias. */
static double weighted_sum(const passage *p, int b, const double *in)
{
    double out[MOST_A + 1], sum = 0;
    ref_head(p->head, p->actions, in, out);
    for (int k = 0; k < p->width; k++)
        sum += p->dy[b * p->width + k] * out[k];
    return sum;
}

static void check_passage_row(const passage *p, int b)
{
    double in[MOST_A + 1], out[MOST_A + 1];
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
    passage *const there = device_copy_of(device, &p, sizeof p);
    CHECK(there);
    const gpur_status status = pass_through(&p, there);
    gpur_device_free(device, there);
    CHECK_OK(status);
    for (int b = 0; b < B; b++)
        check_passage_row(&p, b);
}

TEST(every_head_agrees_with_finite_differences)
{
    for (int head = GPUR_HEAD_Q; head <= GPUR_HEAD_TANH_ACTION; head++) {
        check_head(head, 1);
        check_head(head, 4);
        check_head(head, MOST_A);
    }
}

TEST(large_logits_do_not_overflow)
{
    const float z[4] = {1000.0f, 999.0f, -1000.0f, 5.0f}, bias[4] = {0};
    float y[4] = {0};
    gpur_head_forward_args args = {0};
    float *const on_device = device_copy_of(device, z, sizeof z), *const zero =
                                                                      device_copy_of(device, bias, sizeof bias);
    args.z = on_device, args.bias = zero, args.y = device_copy_of(device, y, sizeof y);
    args.batch = 1, args.z_pitch = 4, args.head = GPUR_HEAD_SOFTMAX_VALUE, args.num_actions = 3;
    CHECK_OK(gpur_launch_head_forward(stream, gpur_grid_elements(device, 1), &args));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(fetch(y, args.y, 4));
    CHECK_NEAR(y[0], 1 / (1 + exp(-1)), 1e-6);
    CHECK_NEAR(y[2], 0, FLT_MIN);
    CHECK_NEAR(y[3], 5, 0);
    gpur_device_free(device, on_device);
    gpur_device_free(device, zero);
    gpur_device_free(device, args.y);
}

/* A batch of made-up network outputs, on host and device. */
typedef struct batch {
    int head, actions, columns; /* columns of z */
    float z[2 * B * Z_PITCH], z_target[B * Z_PITCH], bias[MOST_A + 1], bias_target[MOST_A + 1];
    int64_t action[B];
    float reward[B], discount[B], weight[B];
    gpur_td_error_args args;
    void *held[16];
    int holds;
} batch;

static void *hold(batch *c, const void *host, int64_t bytes)
{
    return c->held[c->holds++] = device_copy_of(device, host, bytes);
}

static void *hold_empty(batch *c, int64_t floats)
{
    void *memory = NULL;
    (void)gpur_device_alloc(device, floats * (int64_t)sizeof(float), &memory);
    return c->held[c->holds++] = memory;
}

/* `spoiled`: the action of every third row is out of range. */
static void make_numbers(batch *c, int spoiled)
{
    static const int64_t narrow[] = {MOST_A, -1, INT32_MAX, INT32_MIN};
    static const int64_t wide[] = {MOST_A, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    random_floats(1, c->z, 2 * B * Z_PITCH);
    random_floats(2, c->z_target, B * Z_PITCH);
    random_floats(3, c->bias, MOST_A + 1);
    random_floats(4, c->bias_target, MOST_A + 1);
    random_floats(6, c->reward, B);
    random_floats(7, c->weight, B);
    for (int b = 0; b < B; b++) {
        c->action[b] = (b * 7 + 3) % c->actions;
        if (spoiled && b % 3 == 0)
            c->action[b] = c->args.action_is_int64 ? wide[b / 3 % 5] : narrow[b / 3 % 4];
        c->discount[b] = b % 5 == 0 ? 0.0f : 0.97f;
        c->reward[b] *= 3; /* errors on both sides of Huber's delta */
        c->weight[b] = 0.5f + 0.4f * c->weight[b];
    }
}

static void place(batch *c)
{
    int32_t narrow[B];
    gpur_td_error_args *const a = &c->args;
    for (int b = 0; b < B; b++)
        narrow[b] = (int32_t)c->action[b];
    a->z = hold(c, c->z, sizeof c->z);
    a->z_target = hold(c, c->z_target, sizeof c->z_target);
    a->bias = hold(c, c->bias, sizeof c->bias);
    a->bias_target = hold(c, c->bias_target, sizeof c->bias_target);
    a->action = a->action_is_int64 ? hold(c, c->action, sizeof c->action) : hold(c, narrow, sizeof narrow);
    a->reward = hold(c, c->reward, sizeof c->reward);
    a->discount = hold(c, c->discount, sizeof c->discount);
    a->weight = hold(c, c->weight, sizeof c->weight);
    a->q = hold_empty(c, 2 * B * MOST_A);
    a->q_target = hold_empty(c, B * MOST_A);
    a->dq = hold_empty(c, B * MOST_A);
    a->dz = hold_empty(c, B * Z_PITCH);
    a->td = hold_empty(c, B);
    a->loss = hold_empty(c, B);
    a->q_taken = hold_empty(c, B);
    a->invalid = hold_empty(c, B);
}

static void batch_open(batch *c, int head, int actions, int double_dqn, int loss, int wide, int spoiled)
{
    memset(c, 0, sizeof *c);
    c->head = head, c->actions = actions;
    c->columns = actions + (head == GPUR_HEAD_DUELING);
    c->args.batch = B, c->args.z_pitch = Z_PITCH;
    c->args.head = head, c->args.num_actions = actions;
    c->args.action_is_int64 = wide, c->args.double_dqn = double_dqn;
    c->args.loss_kind = loss == GPUR_LOSS_SQUARED, c->args.huber_delta = 0.75f;
    make_numbers(c, spoiled);
    place(c);
}

static void batch_close(batch *c)
{
    for (int i = 0; i < c->holds; i++)
        gpur_device_free(device, c->held[i]);
}

static gpur_status launch(const batch *c)
{
    GPUR_TRY(gpur_launch_td_error(stream, gpur_grid_elements(device, B), &c->args));
    return gpur_stream_sync(stream);
}

static void head_of(const batch *c, const float *z, const float *bias, double *y)
{
    double sum[MOST_A + 1];
    for (int k = 0; k < c->columns; k++)
        sum[k] = (double)z[k] + (double)bias[k];
    ref_head(c->head, c->actions, sum, y);
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
    double online[MOST_A], target[MOST_A];
    head_of(c, c->z + (B + b) * Z_PITCH, c->bias, online);
    head_of(c, c->z_target + b * Z_PITCH, c->bias_target, target);
    const int best = best_of(c->args.double_dqn ? online : target, c->actions);
    return c->reward[b] + (c->discount[b] > 0 ? (double)c->discount[b] * target[best] : 0);
}

/* The weighted loss of row b as a function of its z; 0 if its action is out of range. Fills in *error and *taken if not
 * NULL. */
static double loss_of(const batch *c, int b, const float *z, double *error, double *taken)
{
    double y[MOST_A];
    if (error)
        *error = *taken = 0;
    if (c->action[b] < 0 || c->action[b] >= c->actions)
        return 0;
    head_of(c, z, c->bias, y);
    const double d = y[c->action[b]] - target_of(c, b);
    if (error)
        *error = d, *taken = y[c->action[b]];
    return c->weight[b] * ref_loss(c->args.loss_kind ? GPUR_LOSS_SQUARED : GPUR_LOSS_HUBER, c->args.huber_delta, d);
}

/* The gradient of row b, which is exactly 0 if its action is out of range. */
static void check_row(const batch *c, int b, const float *dz, double tolerance)
{
    const float h = 0x1p-12f;
    float z[Z_PITCH];
    memcpy(z, c->z + b * Z_PITCH, sizeof z);
    for (int k = 0; k < c->columns; k++) {
        const float at = z[k], up = at + h, down = at - h;
        z[k] = up;
        const double above = loss_of(c, b, z, NULL, NULL);
        z[k] = down;
        const double below = loss_of(c, b, z, NULL, NULL);
        z[k] = at;
        CHECK_NEAR(dz[b * Z_PITCH + k], (above - below) / ((double)up - (double)down) / B, 5 * tolerance);
    }
}

static void check_batch(const batch *c)
{
    float loss[B], td[B], taken[B], invalid[B], dz[B * Z_PITCH];
    CHECK_OK(launch(c));
    CHECK_OK(fetch(loss, c->args.loss, B));
    CHECK_OK(fetch(td, c->args.td, B));
    CHECK_OK(fetch(taken, c->args.q_taken, B));
    CHECK_OK(fetch(invalid, c->args.invalid, B));
    CHECK_OK(fetch(dz, c->args.dz, B * Z_PITCH));
    for (int b = 0; b < B; b++) {
        double error, q;
        const double want = loss_of(c, b, c->z + b * Z_PITCH, &error, &q);
        const int is_none = c->action[b] < 0 || c->action[b] >= c->actions;
        const double tolerance = is_none ? 0 : 2e-6;
        CHECK_NEAR(invalid[b], is_none, 0);
        CHECK_NEAR(loss[b], want, tolerance);
        CHECK_NEAR(td[b], fabs(error), tolerance);
        CHECK_NEAR(taken[b], q, tolerance);
        check_row(c, b, dz, tolerance);
    }
}

TEST(targets_losses_and_gradients_agree_with_the_reference)
{
    for (int variant = 0; variant < 64; variant++) {
        static batch c;
        batch_open(&c, variant & 1 ? GPUR_HEAD_DUELING : GPUR_HEAD_Q, variant & 16 ? MOST_A : 3, variant >> 1 & 1,
                   variant >> 2 & 1, variant >> 3 & 1, variant >> 5);
        check_batch(&c);
        batch_close(&c);
    }
}

TEST(what_lies_behind_a_terminal_step_never_comes_through)
{
    static batch c;
    float loss[B];
    batch_open(&c, GPUR_HEAD_DUELING, 4, 1, GPUR_LOSS_HUBER, 0, 0);
    for (int k = 0; k < Z_PITCH; k++)
        c.z_target[k] = k % 2 ? INFINITY : NAN; /* row 0 has discount 0 */
    CHECK_OK(gpur_device_copy(device, c.held[1], c.z_target, sizeof c.z_target));
    CHECK_OK(launch(&c));
    CHECK_OK(fetch(loss, c.args.loss, B));
    CHECK_NEAR(loss[0], loss_of(&c, 0, c.z, NULL, NULL), 2e-6);
    batch_close(&c);
}

TEST(the_first_of_equal_actions_is_the_best)
{
    static batch c;
    float loss[B];
    batch_open(&c, GPUR_HEAD_Q, 4, 1, GPUR_LOSS_SQUARED, 0, 0);
    for (int k = 0; k < Z_PITCH; k++)
        c.z[(B + 1) * Z_PITCH + k] = -c.bias[k % (MOST_A + 1)]; /* row 1: online values of next_obs all 0 */
    CHECK_OK(gpur_device_copy(device, c.held[0], c.z, sizeof c.z));
    CHECK_OK(launch(&c));
    CHECK_OK(fetch(loss, c.args.loss, B));
    const double y = (double)c.reward[1] + 0.97 * ((double)c.z_target[Z_PITCH] + (double)c.bias_target[0]);
    const double d = (double)c.z[Z_PITCH + c.action[1]] + (double)c.bias[c.action[1]] - y;
    CHECK_NEAR(loss[1], c.weight[1] * d * d / 2, 2e-6);
    batch_close(&c);
}

TEST(no_launch_shape_changes_a_bit)
{
    static const gpur_grid grids[] = {{1, 32, 0}, {3, 64, 0}, {64, 256, 0}};
    static batch c;
    float dz[2][B * Z_PITCH], loss[2][B];
    batch_open(&c, GPUR_HEAD_DUELING, 5, 1, GPUR_LOSS_HUBER, 0, 0);
    for (int i = 0; i < 3; i++) {
        gpur_device_force_grid(device, grids[i]);
        const gpur_status status = launch(&c);
        gpur_device_force_grid(device, (gpur_grid){0, 0, 0});
        CHECK_OK(status);
        CHECK_OK(fetch(dz[i > 0], c.args.dz, B * Z_PITCH));
        CHECK_OK(fetch(loss[i > 0], c.args.loss, B));
        CHECK(i == 0 || (memcmp(dz[0], dz[1], sizeof dz[0]) == 0 && memcmp(loss[0], loss[1], sizeof loss[0]) == 0));
    }
    batch_close(&c);
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
    RUN(what_lies_behind_a_terminal_step_never_comes_through);
    RUN(the_first_of_equal_actions_is_the_best);
    RUN(no_launch_shape_changes_a_bit);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
