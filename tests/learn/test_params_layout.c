/* SPDX-License-Identifier: MIT */
/* Networks as data: where the weights lie, their names, the sizes of layers, their initial values; and bad networks,
 * which are refused. */
#include "test.h"
#include "learn/network/network.h"

static const gpur_input_shape vector = {27, 0, 0, 0}, screen = {84 * 84 * 4, 84, 84, 4};

static gpur_network_config preset_of(const char *name)
{
    gpur_dqn_config config;
    gpur_dqn_config_init(&config, sizeof config);
    gpur_dqn_config_preset(&config, name);
    return config.network;
}

static const gpur_tensor *tensor_of(const gpur_network *network, const char *name)
{
    const gpur_tensor *tensor = NULL;
    return gpur_params_find(&network->params, name, &tensor) == GPUR_OK ? tensor : NULL;
}

TEST(the_papers_network_has_138758_weights_whose_tensors_tile_the_blocks_of_the_products)
{
    gpur_network network;
    const gpur_network_config config = preset_of("melee-gpu");
    CHECK_OK(gpur_network_build(&network, &config, &vector));
    CHECK_EQUAL(gpur_params_weights(&network.params), 138758);
    CHECK_EQUAL(network.dense_count, 4); /* trunk, both branches' hidden layers at once, two outputs */
    CHECK_EQUAL(network.dense[1].units, 1024);
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

/* The first layer of both copies is one product, since both read the input; each other one has a product for each. */
TEST(copies_have_names_places_and_first_weights_of_their_own)
{
    gpur_network network;
    gpur_network_config config = preset_of("melee-gpu");
    float weights[1024] = {0};
    config.trunk_count = 2, config.trunk[0].units = 6, config.trunk[1] = config.trunk[0], config.trunk[1].units = 5;
    config.head = GPUR_HEAD_Q, config.hidden = 0, config.num_actions = 1;
    CHECK_OK(gpur_network_build_copies(&network, &config, &vector, 2));
    CHECK(network.copies == 2 && network.params.tensor_count == 12 && network.dense_count == 5);
    CHECK(network.width[1] == 12 && network.width[2] == 10 && network.width[3] == 2);
    CHECK(network.dense[0].units == 12 && network.dense[0].inputs == 27);
    CHECK(network.dense[2].from_column == 6 && network.dense[2].to_column == 5 && network.dense[2].inputs == 6);
    CHECK(network.dense[4].from_column == 5 && network.dense[4].to_column == 1 && network.dense[4].units == 1);
    const gpur_tensor *const first = tensor_of(&network, "1.trunk.1.weight");
    const gpur_tensor *const second = tensor_of(&network, "2.trunk.1.weight");
    CHECK(first && second && tensor_of(&network, "2.q.out.bias") && !tensor_of(&network, "trunk.1.weight"));
    CHECK(first->offset == network.dense[1].weight && second->offset == network.dense[2].weight);
    CHECK(network.params.count <= 1024);
    gpur_init_weights(&network.params, &config, 1, weights);
    for (int i = 0; i < 30; i++)
        CHECK(fabsf(weights[first->offset + i] - weights[second->offset + i]) > 1e-6f);
}

/* The sizes of the Nature network [Mnih et al. 2015]: 20 x 20, 9 x 9, 7 x 7. */
TEST(sizes_follow_the_kernels)
{
    gpur_network network;
    gpur_network_config config = preset_of("nature-dqn");
    config.num_actions = 18, config.input_layout = GPUR_HWC;
    CHECK_OK(gpur_network_build(&network, &config, &screen));
    CHECK_EQUAL(network.space_to_depth, 4);
    CHECK_EQUAL(network.conv[0].channels, 64);
    CHECK_EQUAL(network.conv[0].out_height, 20);
    CHECK_EQUAL(network.conv[1].out_height, 9);
    CHECK_EQUAL(network.conv[2].out_width, 7);
    CHECK_EQUAL(network.width[3], 3136);
    CHECK_EQUAL(gpur_params_weights(&network.params), 1693362);
}

/* The last two are images with frames on the other axis. */
TEST(layers_that_do_not_fit_are_refused_with_their_values)
{
#define CONV(kernel, stride, padding)                                                                                  \
    {                                                                                                                  \
        GPUR_CONV, 4, GPUR_RELU, kernel, stride, padding,                                                              \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
#define DENSE(kind, stride)                                                                                            \
    {                                                                                                                  \
        kind, 4, GPUR_RELU, 0, stride, 0,                                                                              \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
    static const struct {
        gpur_layer layers[2];
        gpur_input_shape input;
        int32_t layout;
        const char *message;
    } cases[] = {
        {{DENSE(GPUR_DENSE, 0), CONV(3, 1, 0)}, {48, 4, 4, 3}, GPUR_CHW, "trunk[1] is a convolution behind a dense"},
        {{CONV(3, 1, 0), CONV(5, 1, 1)},
         {48, 4, 4, 3},
         GPUR_CHW,
         "trunk[1].kernel is 5; it must be at most 4, as an image of 2 x 2"},
        {{CONV(0, 1, 0), DENSE(GPUR_DENSE, 0)}, {48, 4, 4, 3}, GPUR_CHW, "trunk[0].kernel is 0"},
        {{CONV(3, 0, 0), DENSE(GPUR_DENSE, 0)}, {48, 4, 4, 3}, GPUR_CHW, "trunk[0].stride is 0"},
        {{CONV(3, 1, 3), DENSE(GPUR_DENSE, 0)},
         {48, 4, 4, 3},
         GPUR_CHW,
         "trunk[0].padding is 3; it must be 0 to kernel - 1, 2, or GPUR_SAME (-1)"},
        {{CONV(3, 1, 0), DENSE(2, 0)}, {48, 4, 4, 3}, GPUR_CHW, "trunk[1].kind is 2"},
        {{CONV(3, 1, 0), DENSE(GPUR_DENSE, 2)}, {48, 4, 4, 3}, GPUR_CHW, "trunk[1] is dense, with kernel 0, stride 2"},
        {{DENSE(GPUR_DENSE, 0), DENSE(GPUR_DENSE, 0)}, {0, 0, 0, 0}, GPUR_CHW, ""},
        {{CONV(8, 4, 0), DENSE(GPUR_DENSE, 0)},
         {84 * 84 * 4, 84, 4, 84},
         GPUR_CHW,
         "kernel is 8; it must be at most 4, as an image of 84 x 4 comes in with padding 0: "
         "network.input_layout GPUR_CHW takes obs of (84, 84, 4) as (channels, height, width); GPUR_HWC takes "
         "it as (height, width, channels)"},
        {{CONV(8, 4, 0), DENSE(GPUR_DENSE, 0)},
         {84 * 84 * 4, 4, 84, 84},
         GPUR_HWC,
         "GPUR_HWC takes obs of (4, 84, 84) as (height, width, channels); GPUR_CHW takes it as (channels, "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpur_network network;
        gpur_network_config config = preset_of("melee-gpu");
        config.trunk[0] = cases[i].layers[0], config.trunk[1] = cases[i].layers[1];
        config.trunk_count = 2, config.input_layout = cases[i].layout;
        CHECK_FAILS(gpur_network_build(&network, &config, &cases[i].input), GPUR_INVALID_ARGUMENT, cases[i].message);
    }
}

TEST(the_shape_of_an_image_tells_its_channels_or_leaves_a_doubt)
{
    static const int32_t shapes[][4] = {
        {84, 84, 4, GPUR_HWC},       {4, 84, 84, GPUR_CHW},         {64, 64, 3, GPUR_HWC},
        {3, 64, 64, GPUR_CHW},       {7, 7, 3, GPUR_HWC},           {10, 10, 4, GPUR_HWC},
        {210, 160, 3, GPUR_HWC},     {10, 10, 7, GPUR_HWC},         {8, 84, 84, GPUR_CHW},
        {1, 28, 28, GPUR_CHW},       {10, 10, 10, GPUR_INPUT_AUTO}, {4, 4, 10, GPUR_INPUT_AUTO},
        {10, 3, 3, GPUR_INPUT_AUTO}, {4, 9, 3, GPUR_INPUT_AUTO},    {3, 3, 3, GPUR_INPUT_AUTO},
        {5, 6, 7, GPUR_INPUT_AUTO},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        CHECK_EQUAL(gpur_image_layout(shapes[i][0], shapes[i][1], shapes[i][2]), shapes[i][3]);
}

/* Mean and mean square of a tensor, its largest magnitude, and the mean product of neighbors. */
static void moments(const gpur_network *network, const float *w, const char *name, double m[4])
{
    const gpur_tensor *const tensor = tensor_of(network, name);
    const int64_t count = gpur_tensor_count(tensor);
    m[0] = m[1] = m[2] = m[3] = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = w[tensor->offset + i];
        m[0] += x / (double)count;
        m[1] += x * x / (double)count;
        m[2] = fmax(m[2], fabs(x));
        m[3] += i ? x * w[tensor->offset + i - 1] / (double)count : 0;
    }
}

/* `tensor` has at least 2^15 numbers. Mean, deviation and products of neighbors are near those of the distribution. */
static void check_init(int32_t init, const char *preset, const char *tensor, double limit, double deviation)
{
    gpur_network network;
    gpur_network_config config = preset_of(preset);
    double m[4], bias[4];
    config.init = init;
    CHECK_OK(gpur_network_build(&network, &config, strcmp(preset, "melee-gpu") == 0 ? &vector : &screen));
    float *const w = calloc((size_t)network.params.count, sizeof *w);
    gpur_init_weights(&network.params, &config, 3, w);
    moments(&network, w, tensor, m);
    moments(&network, w, "trunk.0.bias", bias);
    double sum = 0, named = 0;
    for (int64_t i = 0; i < network.params.count; i++)
        sum += fabs((double)w[i]);
    for (int32_t i = 0; i < network.params.tensor_count; i++)
        for (int64_t j = 0; j < gpur_tensor_count(&network.params.tensor[i]); j++)
            named += fabs((double)w[network.params.tensor[i].offset + j]);
    free(w);
    CHECK_NEAR(m[0], 0, 5 * deviation / 181); /* 5 sigma */
    CHECK_NEAR(sqrt(m[1]), deviation, deviation * 0.02);
    CHECK_NEAR(m[3], 0, 5 * deviation * deviation / 181);
    CHECK(m[2] <= limit);
    CHECK(m[2] >= 0.99 * fmin(limit, 3 * deviation));
    const double bias_limit = init == GPUR_INIT_FAN_IN ? 1 / sqrt(network.conv_count ? 8 * 8 * 4 : 27) : 0;
    CHECK(bias[2] <= bias_limit && bias[2] >= 0.8 * bias_limit);
    CHECK_NEAR(sum, named, 1e-9 * sum); /* the padding is zero */
}

/* The fans of a convolution include its kernel: trunk.1 of the Nature network has 64 filters of 4 x 4 x 32. */
TEST(initial_weights_follow_the_named_distributions)
{
    const double fan_in = 1 / sqrt(128.0), glorot = sqrt(6.0 / (128 + 512));
    const double conv_fan_in = 1 / sqrt(16.0 * 32), conv_glorot = sqrt(6.0 / (16 * (32 + 64)));
    check_init(GPUR_INIT_FAN_IN, "melee-gpu", "value.hidden.weight", fan_in, fan_in / sqrt(3.0));
    check_init(GPUR_INIT_GLOROT, "melee-gpu", "value.hidden.weight", glorot, glorot / sqrt(3.0));
    check_init(GPUR_INIT_NORMAL, "melee-gpu", "value.hidden.weight", 0.6, 0.1); /* beyond 6 sigma: 1 in 5e8 */
    check_init(GPUR_INIT_FAN_IN, "nature-dqn", "trunk.1.weight", conv_fan_in, conv_fan_in / sqrt(3.0));
    check_init(GPUR_INIT_GLOROT, "nature-dqn", "trunk.1.weight", conv_glorot, conv_glorot / sqrt(3.0));
}

TEST(initial_weights_follow_the_seed_alone)
{
    gpur_network network;
    const gpur_network_config config = preset_of("melee-gpu");
    float *w[3];
    CHECK_OK(gpur_network_build(&network, &config, &vector));
    const size_t bytes = (size_t)network.params.count * sizeof(float);
    for (int i = 0; i < 3; i++) {
        w[i] = calloc(1, bytes);
        gpur_init_weights(&network.params, &config, i < 2 ? 11 : 12, w[i]);
    }
    const int is_same = memcmp(w[0], w[1], bytes) == 0, is_other = memcmp(w[0], w[2], bytes) != 0;
    for (int i = 0; i < 3; i++)
        free(w[i]);
    CHECK(is_same && is_other);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_shape_of_an_image_tells_its_channels_or_leaves_a_doubt);
    RUN(the_papers_network_has_138758_weights_whose_tensors_tile_the_blocks_of_the_products);
    RUN(copies_have_names_places_and_first_weights_of_their_own);
    RUN(sizes_follow_the_kernels);
    RUN(layers_that_do_not_fit_are_refused_with_their_values);
    RUN(initial_weights_follow_the_named_distributions);
    RUN(initial_weights_follow_the_seed_alone);
    return test_main_end();
}
