/* SPDX-License-Identifier: MIT */
/* Networks as data: where the weights lie, what they are called, and what they are at first. */
#include "test.h"
#include "learn/network/init.h"

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

TEST(the_papers_network_has_138758_weights_whose_tensors_tile_the_blocks_of_the_products)
{
    gpur_network network;
    const gpur_network_config config = melee();
    CHECK_OK(gpur_network_build(&network, &config, &(gpur_input_shape){27, 0, 0, 0}));
    CHECK_EQUAL(gpur_params_weights(&network.params), 138758);
    CHECK_EQUAL(network.dense_count, 4); /* trunk, both streams' hidden layers at once, two outputs */
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

#define REFUSED(member, value, message)                                                                                \
    do {                                                                                                               \
        gpur_network_config config = melee();                                                                          \
        config.member = value;                                                                                         \
        CHECK_STATUS(gpur_network_build(&network, &config, &(gpur_input_shape){27, 0, 0, 0}), GPUR_INVALID_ARGUMENT);  \
        CHECK_MESSAGE(message);                                                                                        \
    } while (0)

TEST(configs_out_of_range_are_refused_with_their_value)
{
    gpur_network network;
    const gpur_network_config good = melee();
    REFUSED(trunk_count, 9, "trunk_count is 9; it must be 0 to 8");
    REFUSED(trunk[0].units, 0, "trunk[0].units is 0");
    REFUSED(hidden_activation, 3, "hidden_activation is 3");
    REFUSED(head, 4, "head is 4");
    REFUSED(num_actions, 0, "num_actions is 0");
    REFUSED(init, -1, "init is -1");
    REFUSED(init_scale, -0.5f, "init_scale is -0.5");
    CHECK_STATUS(gpur_network_build(&network, &good, &(gpur_input_shape){0, 0, 0, 0}), GPUR_INVALID_ARGUMENT);
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

static void check_init(int32_t init, double limit, double deviation, double bias_limit)
{
    gpur_network network;
    gpur_network_config config = melee();
    double m[4];
    config.init = init;
    CHECK_OK(gpur_network_build(&network, &config, &(gpur_input_shape){27, 0, 0, 0}));
    float *const w = calloc((size_t)network.params.count, sizeof *w);
    gpur_init_weights(&network.params, &config, 3, w);
    moments(&network, w, "value.hidden.weight", m); /* 65,536 numbers: mean and deviation to 5 sigma */
    CHECK_NEAR(m[0], 0, 5 * deviation / 256);
    CHECK_NEAR(sqrt(m[1]), deviation, deviation * 0.02);
    CHECK_NEAR(m[3], 0, 5 * deviation * deviation / 256);
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
    CHECK_OK(gpur_network_build(&network, &config, &(gpur_input_shape){27, 0, 0, 0}));
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

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(the_papers_network_has_138758_weights_whose_tensors_tile_the_blocks_of_the_products);
    RUN(configs_out_of_range_are_refused_with_their_value);
    RUN(initial_weights_follow_the_named_distributions);
    RUN(initial_weights_follow_the_seed_alone);
    return test_main_end();
}
