/* SPDX-License-Identifier: MIT */
/* Every head, forward and back, against the reference and its finite differences. */
#include "test.h"

#include "learn_rig.h"

#include <float.h>

enum { B = 37, MOST_A = 18, Z_PITCH = 20 };

static gpur_device *device;
static gpur_stream *stream;

static gpur_status fetch(void *to, const void *from, int64_t floats)
{
    return gpur_device_copy(device, to, from, floats * (int64_t)sizeof(float));
}

/* Any head, forward and back: the gradient of sum(dy * y) by the z's. */
static void check_head(int head, int actions)
{
    const int columns = actions + (head == GPUR_HEAD_DUELING || head == GPUR_HEAD_SOFTMAX_VALUE);
    const int width = actions + (head == GPUR_HEAD_SOFTMAX_VALUE);
    float z[B * Z_PITCH], bias[MOST_A + 1], dy[B * (MOST_A + 1)], y[B * (MOST_A + 1)], dz[B * Z_PITCH];
    rig_random(21, z, B * Z_PITCH);
    rig_random(22, bias, MOST_A + 1);
    rig_random(23, dy, B * (MOST_A + 1));
    for (int i = 0; i < B * Z_PITCH; i++)
        z[i] *= 3;
    gpur_head_forward_args forward = {0};
    forward.z = rig_upload(device, z, sizeof z), forward.bias = rig_upload(device, bias, sizeof bias);
    forward.y = rig_upload(device, y, sizeof y);
    forward.batch = B, forward.z_pitch = Z_PITCH, forward.head = head, forward.outputs = actions;
    gpur_head_backward_args backward = {0};
    backward.y = forward.y, backward.dy = rig_upload(device, dy, sizeof dy);
    backward.dz = rig_upload(device, z, sizeof z);
    backward.batch = B, backward.dz_pitch = Z_PITCH, backward.head = head, backward.outputs = actions;
    CHECK_OK(gpur_launch_head_forward(stream, gpur_grid_elements(device, B), &forward));
    CHECK_OK(gpur_launch_head_backward(stream, gpur_grid_elements(device, B), &backward));
    CHECK_OK(gpur_stream_sync(stream));
    CHECK_OK(fetch(y, forward.y, B * width));
    CHECK_OK(fetch(dz, backward.dz, B * Z_PITCH));
    for (int b = 0; b < B; b++) {
        double in[MOST_A + 1], out[MOST_A + 1];
        for (int k = 0; k < columns; k++)
            in[k] = (double)z[b * Z_PITCH + k] + (double)bias[k];
        ref_head(head, actions, in, out);
        for (int k = 0; k < width; k++)
            CHECK_NEAR(y[b * width + k], out[k], 3e-6);
        for (int j = 0; j < columns; j++) {
            double value[2];
            for (int way = 0; way < 2; way++) {
                const double at = in[j];
                in[j] = at + (way ? 1e-6 : -1e-6);
                ref_head(head, actions, in, out);
                in[j] = at;
                value[way] = 0;
                for (int k = 0; k < width; k++)
                    value[way] += dy[b * width + k] * out[k];
            }
            CHECK_NEAR(dz[b * Z_PITCH + j], (value[1] - value[0]) / 2e-6, 1e-5);
        }
    }
    gpur_device_free(device, (void *)(uintptr_t)forward.z);
    gpur_device_free(device, (void *)(uintptr_t)forward.bias);
    gpur_device_free(device, forward.y);
    gpur_device_free(device, (void *)(uintptr_t)backward.dy);
    gpur_device_free(device, backward.dz);
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
