/* SPDX-License-Identifier: MIT */
/* Every head, forward and back, against the reference and its finite differences. */
#include "test.h"
#include "support/learn_rig.h"

#include <float.h>

enum { B = 37, MOST_A = 18, Z_PITCH = 20 };

static gpur_device *device;
static gpur_stream *stream;

static gpur_status fetch(void *to, const void *from, int64_t floats)
{
    return gpur_device_copy(device, to, from, floats * (int64_t)sizeof(float));
}

/* A batch through a head and back: what went in, and what came out of the device. */
typedef struct passage {
    int head, actions, columns, width; /* columns of z and of y */
    float z[B * Z_PITCH], bias[MOST_A + 1], dy[B * (MOST_A + 1)];
    float y[B * (MOST_A + 1)], dz[B * Z_PITCH];
} passage;

static void make_numbers(passage *p, int head, int actions)
{
    memset(p, 0, sizeof *p);
    p->head = head, p->actions = actions;
    p->columns = actions + (head == GPUR_HEAD_DUELING || head == GPUR_HEAD_SOFTMAX_VALUE);
    p->width = actions + (head == GPUR_HEAD_SOFTMAX_VALUE);
    rig_random(21, p->z, B * Z_PITCH);
    rig_random(22, p->bias, MOST_A + 1);
    rig_random(23, p->dy, B * (MOST_A + 1));
    for (int i = 0; i < B * Z_PITCH; i++)
        p->z[i] *= 3;
}

/* Forward and back on the device, whose copy of the passage is `there`. */
static gpur_status pass_through(passage *p, passage *there)
{
    const gpur_grid grid = gpur_grid_elements(device, B);
    gpur_head_forward_args forward = {0};
    forward.z = there->z, forward.bias = there->bias, forward.y = there->y;
    forward.batch = B, forward.z_pitch = Z_PITCH, forward.head = p->head, forward.outputs = p->actions;
    gpur_head_backward_args backward = {0};
    backward.y = there->y, backward.dy = there->dy, backward.dz = there->dz;
    backward.batch = B, backward.dz_pitch = Z_PITCH, backward.head = p->head, backward.outputs = p->actions;
    GPUR_TRY(gpur_launch_head_forward(stream, grid, &forward));
    GPUR_TRY(gpur_launch_head_backward(stream, grid, &backward));
    GPUR_TRY(gpur_stream_sync(stream));
    return gpur_device_copy(device, p, there, sizeof *p);
}

/* sum(dy * y) of row b, as a function of its z + bias. */
static double weighted(const passage *p, int b, const double *in)
{
    double out[MOST_A + 1], sum = 0;
    ref_head(p->head, p->actions, in, out);
    for (int k = 0; k < p->width; k++)
        sum += p->dy[b * p->width + k] * out[k];
    return sum;
}

static void check_row(const passage *p, int b)
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
        const double up = weighted(p, b, in);
        in[j] = at - 1e-6;
        const double down = weighted(p, b, in);
        in[j] = at;
        CHECK_NEAR(p->dz[b * Z_PITCH + j], (up - down) / 2e-6, 1e-5);
    }
}

static void check_head(int head, int actions)
{
    static passage p;
    make_numbers(&p, head, actions);
    passage *const there = rig_upload(device, &p, sizeof p);
    CHECK(there);
    const gpur_status status = pass_through(&p, there);
    gpur_device_free(device, there);
    CHECK_OK(status);
    for (int b = 0; b < B; b++)
        check_row(&p, b);
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
    float *const on_device = rig_upload(device, z, sizeof z), *const zero = rig_upload(device, bias, sizeof bias);
    args.z = on_device, args.bias = zero, args.y = rig_upload(device, y, sizeof y);
    args.batch = 1, args.z_pitch = 4, args.head = GPUR_HEAD_SOFTMAX_VALUE, args.outputs = 3;
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

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    if (gpur_stream_create(device, &stream) != GPUR_OK)
        return 1;
    RUN(every_head_agrees_with_finite_differences);
    RUN(large_logits_do_not_overflow);
    gpur_stream_destroy(stream);
    gpur_device_close(device);
    return test_main_end();
}
