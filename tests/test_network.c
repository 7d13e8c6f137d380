/* SPDX-License-Identifier: MIT */
/* Networks of every form, forward and backward, against the reference and its finite differences. */
#include "test.h"

#include "learn_rig.h"

static gpur_device *device;

static const gpur_tensor *tensor_of(const gpur_network *network, const char *name)
{
    const gpur_tensor *tensor = NULL;
    return gpur_params_find(&network->params, name, &tensor) == GPUR_OK ? tensor : NULL;
}

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
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST = 64 * 32 };

static gpur_network_config config_of(const shape *s)
{
    return rig_network(s->first, s->second, s->activation, s->head, s->hidden, s->outputs);
}

/* z before the head's bias. */
static void check_forward(learn_rig *rig)
{
    static float z[MOST];
    ref_tape tape;
    const int width = rig->network.width[rig->network.sheet_count - 1];
    CHECK_OK(rig_forward(rig, rig->rows, z));
    for (int64_t b = 0; b < rig->rows; b++) {
        ref_forward(rig->reference, 0, rig->x + b * rig->reference->features, &tape);
        for (int k = 0; k < width; k++) {
            const double bias = rig->host[rig->network.head_bias + k];
            CHECK_NEAR(z[b * width + k] + bias, tape.z[k], 2e-6 * (1 + fabs(tape.z[k])));
        }
    }
}

TEST(forward_agrees_with_the_reference)
{
    for (int fuse = 0; fuse < 2; fuse++)
        for (int i = 0; i < SHAPES; i++) {
            learn_rig rig;
            const gpur_network_config config = config_of(&shapes[i]);
            const gpur_status status = rig_open(&rig, device, &config, shapes[i].features, shapes[i].rows, fuse);
            if (status == GPUR_OK)
                check_forward(&rig);
            rig_close(&rig);
            CHECK_OK(status);
        }
}

/* sum(dz * z) over the batch, by the reference; its weights may be changed. */
static double functional(learn_rig *rig, const float *dz)
{
    static ref_tape tape;
    const int width = rig->network.width[rig->network.sheet_count - 1];
    double sum = 0;
    for (int64_t b = 0; b < rig->rows; b++) {
        ref_forward(rig->reference, 0, rig->x + b * rig->reference->features, &tape);
        for (int k = 0; k < width; k++)
            sum += dz[b * width + k] * tape.z[k];
    }
    return sum;
}

/* A few weights of each tensor, moved both ways. No activation sits on a kink: the step is small, the numbers random.
 */
static void check_backward(learn_rig *rig)
{
    static float dz[MOST], gradient[1 << 16];
    const double h = 1e-6;
    rig_random(99, dz, MOST);
    CHECK(rig->network.params.count <= 1 << 16);
    CHECK_OK(rig_forward(rig, rig->rows, gradient));
    CHECK_OK(rig_backward(rig, dz, gradient));
    for (int i = 0; i < rig->reference->tensors; i++) {
        ref_tensor *const t = &rig->reference->tensor[i];
        const gpur_tensor *const ours = tensor_of(&rig->network, t->name);
        CHECK(ours && gpur_tensor_count(ours) == t->count);
        for (int n = 0; n < 6; n++) {
            const int j = (int)((int64_t)t->count * n / 6);
            const double w = t->w[j];
            t->w[j] = w + h;
            const double up = functional(rig, dz);
            t->w[j] = w - h;
            const double down = functional(rig, dz);
            t->w[j] = w;
            const double want = (up - down) / (2 * h);
            CHECK_NEAR(gradient[ours->offset + j], want, 1e-5 * (1 + fabs(want)));
        }
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

static void check_grids(learn_rig *rig)
{
    static const gpur_grid grids[] = {{1, 32}, {2, 64}, {7, 96}, {64, 256}};
    static float z[2][MOST], dz[MOST], gradient[2][1 << 16];
    const size_t bytes = (size_t)rig->network.params.count * sizeof(float);
    rig_random(98, dz, MOST);
    for (int i = 0; i < 4; i++) {
        gpur_device_force_grid(device, grids[i]);
        const gpur_status forward = rig_forward(rig, rig->rows, z[i > 0]);
        const gpur_status backward = rig_backward(rig, dz, gradient[i > 0]);
        gpur_device_force_grid(device, (gpur_grid){0, 0});
        CHECK_OK(forward);
        CHECK_OK(backward);
        CHECK(i == 0 || memcmp(z[0], z[1], sizeof z[0]) == 0);
        CHECK(i == 0 || memcmp(gradient[0], gradient[1], bytes) == 0);
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

/* The published code took the dueling mean over the whole batch: a row's Q then depended on its batch mates. */
static void check_mates(learn_rig *rig)
{
    static float all[MOST], few[MOST];
    const int width = rig->network.width[rig->network.sheet_count - 1];
    CHECK_OK(rig_forward(rig, rig->rows, all));
    for (int64_t rows = 1; rows < rig->rows; rows += 7) {
        CHECK_OK(rig_forward(rig, rows, few));
        for (int64_t i = 0; i < rows * width; i++)
            CHECK_NEAR(few[i], all[i], 1e-5 * (1 + fabs((double)all[i])));
    }
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
