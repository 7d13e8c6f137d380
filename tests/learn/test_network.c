/* SPDX-License-Identifier: MIT */
/* Networks of every form, forward and backward, against the reference and its finite differences. */
#include "test.h"
#include "support/network_checks.h"

static gpur_device *device;

/* Every head, with and without layers of its own, on trunks of 0 to 2 layers; odd sizes. */
typedef struct shape {
    int first, second, activation, head, hidden, outputs, features;
    int64_t rows;
} shape;
static const shape shapes[] = {
    {0, 0, GPUR_LINEAR, GPUR_HEAD_Q, 0, 3, 5, 4},
    {7, 0, GPUR_RELU, GPUR_HEAD_Q, 0, 2, 4, 1},
    {9, 6, GPUR_TANH, GPUR_HEAD_Q, 5, 4, 7, 33},
    {16, 0, GPUR_RELU, GPUR_HEAD_DUELING, 12, 5, 27, 32},
    {33, 17, GPUR_RELU, GPUR_HEAD_DUELING, 0, 3, 10, 21},
    {0, 0, GPUR_TANH, GPUR_HEAD_DUELING, 8, 2, 3, 6},
    {130, 0, GPUR_RELU, GPUR_HEAD_DUELING, 70, 18, 27, 40},
    {12, 0, GPUR_TANH, GPUR_HEAD_SOFTMAX_VALUE, 9, 4, 6, 10},
    {12, 5, GPUR_LINEAR, GPUR_HEAD_SOFTMAX_VALUE, 0, 4, 6, 10},
    {10, 8, GPUR_RELU, GPUR_HEAD_TANH_ACTION, 6, 3, 8, 12},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static gpur_network_config config_of(const shape *s)
{
    return rig_network(s->first, s->second, s->activation, s->head, s->hidden, s->outputs);
}

TEST(forward_agrees_with_the_reference)
{
    for (int fuse = 0; fuse < 2; fuse++)
        for (int i = 0; i < SHAPES; i++) {
            learn_rig rig;
            const gpur_network_config config = config_of(&shapes[i]);
            const gpur_status status = rig_open(&rig, device, &config, shapes[i].features, shapes[i].rows, fuse);
            if (status == GPUR_OK)
                check_forward(&rig, 2e-6);
            rig_close(&rig);
            CHECK_OK(status);
        }
}

TEST(backward_agrees_with_finite_differences_of_the_reference)
{
    for (int i = 0; i < SHAPES; i++) {
        learn_rig rig;
        const gpur_network_config config = config_of(&shapes[i]);
        const gpur_status status = rig_open(&rig, device, &config, shapes[i].features, shapes[i].rows, i % 2);
        if (status == GPUR_OK)
            check_backward(&rig);
        rig_close(&rig);
        CHECK_OK(status);
    }
}

TEST(no_launch_shape_changes_a_bit)
{
    learn_rig rig;
    const gpur_network_config config = config_of(&shapes[6]);
    const gpur_status status = rig_open(&rig, device, &config, shapes[6].features, shapes[6].rows, 1);
    if (status == GPUR_OK)
        check_grids(&rig);
    rig_close(&rig);
    CHECK_OK(status);
}

TEST(a_row_does_not_depend_on_its_batch_mates)
{
    learn_rig rig;
    const gpur_network_config config = config_of(&shapes[6]);
    const gpur_status status = rig_open(&rig, device, &config, shapes[6].features, shapes[6].rows, 1);
    if (status == GPUR_OK)
        check_mates(&rig);
    rig_close(&rig);
    CHECK_OK(status);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(forward_agrees_with_the_reference);
    RUN(backward_agrees_with_finite_differences_of_the_reference);
    RUN(no_launch_shape_changes_a_bit);
    RUN(a_row_does_not_depend_on_its_batch_mates);
    gpur_device_close(device);
    return test_main_end();
}
