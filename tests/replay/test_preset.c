/* SPDX-License-Identifier: MIT */
/* The published systems' constants, one by one [Parr 2018, section 4.2; Parr, Dilipkumar & Liu 2017; their public
 * code]. */
#include "test.h"
#include "learn/network/network.h"

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
    const gpur_scene numbers = gpur_scene_of(27), frames = {84 * 84 * 4, 84, 84, 4};
    const gpur_scene *const scene = config->network.trunk[0].kind == GPUR_CONV ? &frames : &numbers;
    const gpur_status status = gpur_network_build(&network, &config->network, scene);
    return status == GPUR_OK ? gpur_params_weights(&network.params) : -1;
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

static void check_layer(const gpur_layer *layer, int kind, int units, int kernel, int stride)
{
    CHECK_EQUAL(layer->kind, kind);
    CHECK_EQUAL(layer->units, units);
    CHECK_EQUAL(layer->activation, GPUR_RELU);
    CHECK_EQUAL(layer->kernel, kernel);
    CHECK_EQUAL(layer->stride, stride);
    CHECK_EQUAL(layer->padding, 0);
}

/* The network's three convolutions, its input and its weights' beginning. */
static void check_nature(const gpur_network_config *n)
{
    check_layer(&n->trunk[0], GPUR_CONV, 32, 8, 4);
    check_layer(&n->trunk[1], GPUR_CONV, 64, 4, 2);
    check_layer(&n->trunk[2], GPUR_CONV, 64, 3, 1);
    CHECK_EQUAL(n->outputs, 18);
    CHECK_EQUAL(n->init, GPUR_INIT_GLOROT);
    CHECK_NEAR(n->input_scale, 1.0 / 255, 1e-9);
    CHECK_EQUAL(n->input_layout, GPUR_CHW);
}

static void check_rmsprop(const gpur_optimizer_config *o, double rate, double epsilon, double norm)
{
    CHECK_EQUAL(o->kind, GPUR_RMSPROP_DEEPMIND);
    CHECK_EQUAL(o->centered, 1);
    CHECK_NEAR(o->learning_rate.first, rate, rate * 1e-6);
    CHECK_EQUAL(o->learning_rate.steps, 0);
    CHECK_NEAR(o->decay, 0.95, 1e-7);
    CHECK_NEAR(o->momentum, 0, 0);
    CHECK_NEAR(o->epsilon, epsilon, epsilon * 1e-6);
    CHECK_NEAR(o->clip_norm, norm, 0);
    CHECK_NEAR(o->clip_value, 0, 0);
}

static void check_nature_training(const gpur_learner_config *c, int double_dqn)
{
    CHECK_EQUAL(c->double_dqn, double_dqn);
    CHECK_EQUAL(c->loss, GPUR_LOSS_HUBER);
    CHECK_NEAR(c->huber_delta, 1, 0);
    CHECK_EQUAL(c->batch_size, 32);
    CHECK_EQUAL(c->target_period, 2500);
    CHECK_EQUAL(c->target_copy_first, 0);
    CHECK_NEAR(c->exploration.first, 1, 0);
    CHECK_NEAR(c->exploration.last, 0.1, 1e-8);
    CHECK_EQUAL(c->exploration.begin, 0);
    CHECK_EQUAL(c->exploration.steps, 1000000);
}

TEST(nature_dqn_is_the_network_of_the_letter)
{
    const gpur_learner_config c = preset("nature-dqn");
    check_nature(&c.network);
    CHECK_EQUAL(c.network.trunk_count, 4);
    check_layer(&c.network.trunk[3], GPUR_DENSE, 512, 0, 0);
    CHECK_EQUAL(c.network.head, GPUR_HEAD_Q);
    CHECK_EQUAL(c.network.hidden, 0);
    check_rmsprop(&c.optimizer, 2.5e-4, 0.01, 0);
    check_nature_training(&c, 0);
    CHECK_EQUAL(weights_of(&c), 1693362); /* 1.69 M at 18 actions */
}

TEST(nature_dueling_has_two_streams_of_512)
{
    const gpur_learner_config c = preset("nature-dueling");
    check_nature(&c.network);
    CHECK_EQUAL(c.network.trunk_count, 3);
    CHECK_EQUAL(c.network.head, GPUR_HEAD_DUELING);
    CHECK_EQUAL(c.network.hidden, 512);
    CHECK_EQUAL(c.network.hidden_activation, GPUR_RELU);
    check_rmsprop(&c.optimizer, 2.5e-4, 0.01, 10);
    check_nature_training(&c, 1);
    CHECK_EQUAL(weights_of(&c), 77984 + 2 * (3136 * 512 + 512) + 512 * 19 + 19);
}

TEST(apex_dqn_is_the_learner_of_the_paper)
{
    const gpur_learner_config c = preset("apex-dqn");
    check_nature(&c.network);
    CHECK_EQUAL(c.network.trunk_count, 3);
    CHECK_EQUAL(c.network.head, GPUR_HEAD_DUELING);
    CHECK_EQUAL(c.network.hidden, 512);
    check_rmsprop(&c.optimizer, 6.25e-5, 1.5e-7, 40);
    CHECK_EQUAL(c.double_dqn, 1);
    CHECK_EQUAL(c.loss, GPUR_LOSS_SQUARED);
    CHECK_EQUAL(c.batch_size, 512);
    CHECK_EQUAL(c.target_period, 2500);
    CHECK_EQUAL(c.index_source, GPUR_PRIORITIZED);
    CHECK(c.beta.first == 0.4f && c.beta.last == 0.4f && c.beta.steps == 0);
    CHECK_NEAR(c.exploration.first, 0.4, 1e-7);
    CHECK_NEAR(c.exploration.last, 0.4, 1e-7);
}

static gpur_replay_config replay_preset(const char *name)
{
    gpur_replay_config config;
    memset(&config, 0, sizeof config);
    if (gpur_replay_config_init(&config, sizeof config) != GPUR_OK ||
        gpur_replay_config_preset(&config, name) != GPUR_OK)
        config.capacity = -1;
    return config;
}

TEST(the_replays_of_the_atari_presets_hold_what_the_papers_say)
{
    static const struct {
        const char *name;
        int64_t capacity;
    } wanted[] = {{"nature-dqn", 1000000}, {"nature-dueling", 1000000}, {"apex-dqn", 2000000}};
    for (int i = 0; i < 3; i++) {
        const gpur_replay_config c = replay_preset(wanted[i].name);
        CHECK_EQUAL(c.capacity, wanted[i].capacity);
        CHECK_EQUAL(c.min_size, 50000);
        CHECK_NEAR(c.gamma, 0.99, 1e-8);
        CHECK_NEAR(c.reward_clip, 1, 0);
        CHECK_EQUAL(c.layout, GPUR_LINKED);
        CHECK_EQUAL(c.frame_stack, 4);
        CHECK_EQUAL(c.stack_axis, GPUR_STACK_FIRST);
        CHECK_EQUAL(c.stack_pad, GPUR_PAD_ZERO);
        CHECK_EQUAL(c.n_step, i == 2 ? 3 : 1);
        CHECK_EQUAL(c.prioritized, i == 2);
        CHECK_EQUAL(c.index_source, GPUR_SOURCE_AUTO);
    }
}

TEST(the_replay_of_apex_draws_by_priority)
{
    const gpur_replay_config c = replay_preset("apex-dqn");
    CHECK_NEAR(c.alpha, 0.6, 1e-7);
    CHECK_NEAR(c.priority_offset, 1e-6, 1e-12);
    CHECK(c.beta.first == 0.4f && c.beta.last == 0.4f && c.beta.steps == 0);
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
    CHECK_MESSAGE("there are melee-gpu, melee-dqn, melee-double, nature-dqn, nature-dueling, apex-dqn, cartpole");
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
    RUN(nature_dqn_is_the_network_of_the_letter);
    RUN(nature_dueling_has_two_streams_of_512);
    RUN(apex_dqn_is_the_learner_of_the_paper);
    RUN(the_replays_of_the_atari_presets_hold_what_the_papers_say);
    RUN(the_replay_of_apex_draws_by_priority);
    RUN(cartpole_is_a_dueling_double_dqn);
    RUN(a_preset_keeps_what_it_does_not_name);
    RUN(an_unknown_preset_is_refused_and_changes_nothing);
    RUN(an_older_callers_shorter_config_is_filled_as_far_as_it_goes);
    return test_main_end();
}
