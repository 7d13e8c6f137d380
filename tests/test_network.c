/* SPDX-License-Identifier: MIT */
/* Networks as data: layout, initial weights, forward and backward against the reference and its finite differences. */
#include "test.h"

#include "learn/init.h"
#include "learn_rig.h"

static gpur_device *device;

static gpur_network_config melee(void)
{
    gpur_learner_config config;
    gpur_learner_config_init(&config, sizeof config);
    gpur_learner_config_preset(&config, "melee-gpu");
    return config.network;
}

static const gpur_tensor *tensor_of(const gpur_network *network, const char *name)
{
    const gpur_tensor *tensor = NULL;
    return gpur_params_find(&network->params, name, &tensor) == GPUR_OK ? tensor : NULL;
}

TEST(the_papers_network_has_138758_weights)
{
    gpur_network network;
    const gpur_network_config config = melee();
    CHECK_OK(gpur_network_build(&network, &config, 27));
    CHECK_EQUAL(gpur_params_weights(&network.params), 138758);
    CHECK_EQUAL(network.dense_count, 4); /* trunk, both streams' hidden layers at once, two outputs */
    CHECK_EQUAL(network.dense[1].units, 1024);
}

TEST(named_tensors_tile_the_blocks_of_the_products)
{
    gpur_network network;
    const gpur_network_config config = melee();
    CHECK_OK(gpur_network_build(&network, &config, 27));
    const gpur_tensor *const value = tensor_of(&network, "value.hidden.weight");
    const gpur_tensor *const advantage = tensor_of(&network, "advantage.hidden.weight");
    CHECK(value && advantage);
    CHECK_EQUAL(value->offset, network.dense[1].weight);
    CHECK_EQUAL(advantage->offset, network.dense[1].weight + 512 * 128);
    CHECK_EQUAL(tensor_of(&network, "advantage.out.bias")->offset, network.head_bias + 1);
    CHECK_EQUAL(gpur_tensor_count(tensor_of(&network, "trunk.0.weight")), 27 * 128);
    for (int32_t i = 0; i < network.dense_count; i++)
        CHECK(network.dense[i].bias < 0 || network.dense[i].bias % 64 == 0);
    CHECK_EQUAL(network.params.count % 64, 0);
    CHECK(!tensor_of(&network, "q.out.weight"));
    CHECK_MESSAGE("advantage.out.weight");
}

static gpur_network_config with(void (*change)(gpur_network_config *))
{
    gpur_network_config config = melee();
    change(&config);
    return config;
}
static void too_deep(gpur_network_config *c)
{
    c->trunk_count = 9;
}
static void no_units(gpur_network_config *c)
{
    c->trunk[0].units = 0;
}
static void odd_activation(gpur_network_config *c)
{
    c->hidden_activation = 3;
}
static void odd_head(gpur_network_config *c)
{
    c->head = 4;
}
static void no_outputs(gpur_network_config *c)
{
    c->outputs = 0;
}
static void odd_init(gpur_network_config *c)
{
    c->init = -1;
}
static void negative_scale(gpur_network_config *c)
{
    c->init_scale = -0.5f;
}

TEST(configs_out_of_range_are_refused_with_their_value)
{
    static const struct {
        void (*change)(gpur_network_config *);
        const char *message;
    } cases[] = {
        {too_deep, "trunk_count is 9; it must be 0 to 8"}, {no_units, "trunk[0].units is 0"},
        {odd_activation, "hidden_activation is 3"},        {odd_head, "head is 4"},
        {no_outputs, "outputs is 0"},                      {odd_init, "init is -1"},
        {negative_scale, "init_scale is -0.5"},
    };
    gpur_network network;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const gpur_network_config config = with(cases[i].change);
        CHECK_STATUS(gpur_network_build(&network, &config, 27), GPUR_INVALID_ARGUMENT);
        CHECK_MESSAGE(cases[i].message);
    }
    const gpur_network_config config = melee();
    CHECK_STATUS(gpur_network_build(&network, &config, 0), GPUR_INVALID_ARGUMENT);
}

/* Mean and mean square of a tensor, and its largest magnitude. */
static void moments(const gpur_network *network, const float *w, const char *name, double m[3])
{
    const gpur_tensor *const tensor = tensor_of(network, name);
    const int64_t count = gpur_tensor_count(tensor);
    m[0] = m[1] = m[2] = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = w[tensor->offset + i];
        m[0] += x / (double)count;
        m[1] += x * x / (double)count;
        m[2] = fmax(m[2], fabs(x));
    }
}

static void check_init(int32_t init, double limit, double deviation, double bias_limit)
{
    gpur_network network;
    gpur_network_config config = melee();
    double m[3];
    config.init = init;
    CHECK_OK(gpur_network_build(&network, &config, 27));
    float *const w = calloc((size_t)network.params.count, sizeof *w);
    gpur_init_weights(&network.params, &config, 3, w);
    moments(&network, w, "value.hidden.weight", m); /* 65,536 numbers: mean and deviation to 5 sigma */
    CHECK_NEAR(m[0], 0, 5 * deviation / 256);
    CHECK_NEAR(sqrt(m[1]), deviation, deviation * 0.02);
    CHECK(m[2] <= limit);
    CHECK(m[2] >= 0.99 * fmin(limit, 3 * deviation));
    moments(&network, w, "advantage.hidden.bias", m);
    CHECK(m[2] <= bias_limit && (bias_limit == 0 || m[2] > 0.9 * bias_limit));
    double sum = 0, named = 0;
    for (int64_t i = 0; i < network.params.count; i++)
        sum += fabs((double)w[i]);
    for (int32_t i = 0; i < network.params.tensor_count; i++)
        for (int64_t j = 0; j < gpur_tensor_count(&network.params.tensor[i]); j++)
            named += fabs((double)w[network.params.tensor[i].offset + j]);
    CHECK_NEAR(sum, named, 1e-9 * sum); /* the padding is zero */
    free(w);
}

TEST(initial_weights_follow_the_named_distributions)
{
    const double fan_in = 1 / sqrt(128.0), glorot = sqrt(6.0 / (128 + 512));
    check_init(GPUR_INIT_FAN_IN, fan_in, fan_in / sqrt(3.0), fan_in);
    check_init(GPUR_INIT_GLOROT, glorot, glorot / sqrt(3.0), 0);
    check_init(GPUR_INIT_NORMAL, 0.6, 0.1, 0); /* beyond 6 sigma: 1 in 5e8 */
}

TEST(initial_weights_follow_the_seed_alone)
{
    gpur_network network;
    const gpur_network_config config = melee();
    CHECK_OK(gpur_network_build(&network, &config, 27));
    const size_t bytes = (size_t)network.params.count * sizeof(float);
    float *const a = calloc(1, bytes), *const b = calloc(1, bytes), *const c = calloc(1, bytes);
    gpur_init_weights(&network.params, &config, 11, a);
    gpur_init_weights(&network.params, &config, 11, b);
    gpur_init_weights(&network.params, &config, 12, c);
    CHECK(memcmp(a, b, bytes) == 0);
    CHECK(memcmp(a, c, bytes) != 0);
    free(a);
    free(b);
    free(c);
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

/* A few weights of each tensor, moved both ways. No activation sits on a kink: the step is small, the numbers random. */
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
    RUN(the_papers_network_has_138758_weights);
    RUN(named_tensors_tile_the_blocks_of_the_products);
    RUN(configs_out_of_range_are_refused_with_their_value);
    RUN(initial_weights_follow_the_named_distributions);
    RUN(initial_weights_follow_the_seed_alone);
    RUN(forward_agrees_with_the_reference);
    RUN(backward_agrees_with_finite_differences_of_the_reference);
    RUN(no_launch_shape_changes_a_bit);
    RUN(a_row_does_not_depend_on_its_batch_mates);
    gpur_device_close(device);
    return test_main_end();
}
