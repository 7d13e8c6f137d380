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

/* The length of a - b, as a part of that of a. */
static double distance(const float *a, const float *b, int64_t count)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)a[i] * a[i];
    }
    return sqrt(apart / size);
}

static gpur_status run_once(const gpur_pass_options *options, const float *dz, float *z, float *gradient,
                            learn_rig *rig)
{
    const shape *const s = &shapes[6];
    const gpur_network_config config = config_of(s);
    const gpur_scene scene = gpur_scene_of(s->features);
    GPUR_TRY(rig_open_scene(rig, device, &config, &scene, s->rows, options));
    GPUR_TRY(rig_forward(rig, s->rows, z));
    return rig_backward(rig, dz, gradient);
}

/* Single numbers may be further apart: a unit that rounding puts on the other side of zero has another slope.
 * Rounding to TF32 comes to far less than 2e-2 in layers of this size; without graphs (the CPU, FP32) bits are equal.
 */
TEST(dense_layers_by_graphs_are_those_of_the_other_library)
{
    static float dz[CHECK_MOST_OUTPUTS], z[2][CHECK_MOST_OUTPUTS], gradient[2][CHECK_MOST_PARAMETERS];
    rig_random(97, dz, CHECK_MOST_OUTPUTS);
    for (int32_t math = GPUR_MATH_FP32; math <= GPUR_MATH_TF32; math++) {
        const double most = gpur_device_is_cuda(device) && math == GPUR_MATH_TF32 ? 2e-2 : 0.0;
        learn_rig rig;
        for (int way = 0; way < 2; way++) {
            const gpur_pass_options options = {.math = math, .fuse = 1, .dense_graphs = way};
            const gpur_status status = run_once(&options, dz, z[way], gradient[way], &rig);
            if (way == 0)
                rig_close(&rig);
            CHECK_OK(status);
        }
        CHECK(distance(z[0], z[1], rig.rows * rig.network.width[rig.network.sheet_count - 1]) <= most);
        CHECK(distance(gradient[0], gradient[1], rig.network.params.count) <= most);
        rig_close(&rig);
    }
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    device = test_device();
    RUN(forward_agrees_with_the_reference);
    RUN(backward_agrees_with_finite_differences_of_the_reference);
    RUN(no_launch_shape_changes_a_bit);
    RUN(a_row_does_not_depend_on_its_batch_mates);
    RUN(dense_layers_by_graphs_are_those_of_the_other_library);
    gpur_device_close(device);
    return test_main_end();
}
