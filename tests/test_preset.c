/* SPDX-License-Identifier: MIT */
/* The published systems' constants, one by one [Parr 2018, section 4.2; Parr, Dilipkumar & Liu 2017; their public
 * code]. */
#include "test.h"

#include "learn/network.h"

static gpur_learner_config preset(const char *name)
{
    gpur_learner_config config;
    memset(&config, 0, sizeof config);
    if (gpur_learner_config_init(&config, sizeof config) != GPUR_OK ||
        gpur_learner_config_preset(&config, name) != GPUR_OK)
        config.size = 0;
    return config;
}

static void check_melee(const gpur_learner_config *c)
{
    CHECK_EQUAL(c->size, sizeof *c);
    CHECK_EQUAL(c->network.outputs, 5);
    CHECK_EQUAL(c->network.init, GPUR_INIT_NORMAL);
    CHECK_NEAR(c->network.init_scale, 0.1, 1e-8);
    CHECK_EQUAL(c->optimizer.kind, GPUR_RMSPROP_TF);
    CHECK_EQUAL(c->optimizer.centered, 0);
    CHECK_NEAR(c->optimizer.learning_rate.first, 2.5e-4, 1e-10);
    CHECK_EQUAL(c->optimizer.learning_rate.steps, 0);
    CHECK_NEAR(c->optimizer.decay, 0.95, 1e-7);
    CHECK_NEAR(c->optimizer.momentum, 0.95, 1e-7);
    CHECK_NEAR(c->optimizer.epsilon, 0.01, 1e-9);
    CHECK_NEAR(c->optimizer.clip_norm, 0, 0);
    CHECK_NEAR(c->optimizer.clip_value, 0, 0);
    CHECK_EQUAL(c->loss, GPUR_LOSS_HUBER);
    CHECK_NEAR(c->huber_delta, 1, 0);
    CHECK_EQUAL(c->batch_size, 32);
    CHECK_EQUAL(c->target_period, 10000);
    CHECK_EQUAL(c->target_copy_first, 1);
    CHECK_NEAR(c->exploration.first, 1, 0);
    CHECK_NEAR(c->exploration.last, 0.1, 1e-8);
}

static int64_t weights_of(const gpur_learner_config *config)
{
    gpur_network network;
    return gpur_network_build(&network, &config->network, 27) == GPUR_OK ? gpur_params_weights(&network.params) : -1;
}

TEST(melee_gpu_is_the_dueling_network_of_the_paper)
{
    const gpur_learner_config c = preset("melee-gpu");
    check_melee(&c);
    CHECK_EQUAL(c.network.head, GPUR_HEAD_DUELING);
    CHECK_EQUAL(c.network.trunk_count, 1);
    CHECK_EQUAL(c.network.trunk[0].units, 128);
    CHECK_EQUAL(c.network.trunk[0].activation, GPUR_RELU);
    CHECK_EQUAL(c.network.hidden, 512);
    CHECK_EQUAL(c.network.hidden_activation, GPUR_RELU);
    CHECK_EQUAL(c.double_dqn, 0);
    CHECK_EQUAL(weights_of(&c), 138758);
}

TEST(melee_dqn_and_melee_double_are_the_earlier_papers)
{
    const gpur_learner_config dqn = preset("melee-dqn"), twice = preset("melee-double");
    check_melee(&dqn);
    check_melee(&twice);
    CHECK_EQUAL(dqn.network.head, GPUR_HEAD_Q);
    CHECK_EQUAL(dqn.network.trunk_count, 2);
    CHECK_EQUAL(dqn.network.trunk[0].units, 128);
    CHECK_EQUAL(dqn.network.trunk[1].units, 256);
    CHECK_EQUAL(dqn.network.hidden, 0);
    CHECK_EQUAL(dqn.double_dqn, 0);
    CHECK_EQUAL(twice.double_dqn, 1);
    CHECK_EQUAL(weights_of(&dqn), 27 * 128 + 128 + 128 * 256 + 256 + 256 * 5 + 5);
}

TEST(cartpole_is_a_dueling_double_dqn)
{
    const gpur_learner_config c = preset("cartpole");
    CHECK_EQUAL(c.network.head, GPUR_HEAD_DUELING);
    CHECK_EQUAL(c.double_dqn, 1);
    CHECK_EQUAL(c.network.outputs, 2);
}

TEST(a_preset_keeps_what_it_does_not_name)
{
    gpur_learner_config c;
    CHECK_OK(gpur_learner_config_init(&c, sizeof c));
    c.seed = 99, c.max_act_batch = 7, c.act = GPUR_ACT_TARGET, c.math = GPUR_MATH_TF32;
    c.index_source = GPUR_UNIFORM_DISTINCT, c.unroll = 3;
    CHECK_OK(gpur_learner_config_preset(&c, "melee-gpu"));
    CHECK(c.seed == 99 && c.max_act_batch == 7 && c.act == GPUR_ACT_TARGET && c.math == GPUR_MATH_TF32);
    CHECK(c.index_source == GPUR_UNIFORM_DISTINCT && c.unroll == 3);
}

TEST(an_unknown_preset_is_refused_and_changes_nothing)
{
    gpur_learner_config c, before;
    CHECK_OK(gpur_learner_config_init(&c, sizeof c));
    before = c;
    CHECK_STATUS(gpur_learner_config_preset(&c, "melee"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("there are melee-gpu, melee-dqn, melee-double, cartpole");
    CHECK_STATUS(gpur_learner_config_preset(&c, NULL), GPUR_INVALID_ARGUMENT);
    CHECK(memcmp(&c, &before, sizeof c) == 0);
    c.size = 0;
    CHECK_STATUS(gpur_learner_config_preset(&c, "melee-gpu"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("was the struct initialised?");
}

TEST(an_older_callers_shorter_config_is_filled_as_far_as_it_goes)
{
    _Alignas(gpur_learner_config) unsigned char memory[sizeof(gpur_learner_config)];
    const uint64_t size = offsetof(gpur_learner_config, exploration);
    memset(memory, 0xAB, sizeof memory);
    CHECK_OK(gpur_learner_config_init((gpur_learner_config *)(void *)memory, size));
    CHECK_OK(gpur_learner_config_preset((gpur_learner_config *)(void *)memory, "melee-gpu"));
    for (size_t i = size; i < sizeof memory; i++)
        CHECK_EQUAL(memory[i], 0xAB);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(melee_gpu_is_the_dueling_network_of_the_paper);
    RUN(melee_dqn_and_melee_double_are_the_earlier_papers);
    RUN(cartpole_is_a_dueling_double_dqn);
    RUN(a_preset_keeps_what_it_does_not_name);
    RUN(an_unknown_preset_is_refused_and_changes_nothing);
    RUN(an_older_callers_shorter_config_is_filled_as_far_as_it_goes);
    return test_main_end();
}
