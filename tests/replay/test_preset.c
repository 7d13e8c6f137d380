/* SPDX-License-Identifier: MIT */
/* The published systems' constants, one by one [Parr 2018, section 4.2; Parr, Dilipkumar & Liu 2017; their public
 * code]. */
#include "test.h"
#include "learn/network/network.h"

#include <stddef.h>

static gpur_dqn_config preset(const char *name)
{
    gpur_dqn_config config;
    memset(&config, 0, sizeof config);
    if (gpur_dqn_config_init(&config, sizeof config) != GPUR_OK || gpur_dqn_config_preset(&config, name) != GPUR_OK)
        config.size = 0;
    return config;
}

static int64_t weights_of(const gpur_dqn_config *config)
{
    gpur_network network;
    const gpur_input_shape numbers = gpur_input_shape_of(27), frames = {84 * 84 * 4, 84, 84, 4};
    const gpur_input_shape *const input = config->network.trunk[0].kind == GPUR_CONV ? &frames : &numbers;
    const gpur_status status = gpur_network_build(&network, &config->network, input);
    return status == GPUR_OK ? gpur_params_weights(&network.params) : -1;
}

enum { PRESETS = 8 };
static const char *const names[PRESETS] = {"melee-gpu",      "melee-dqn", "melee-double", "nature-dqn",
                                           "nature-dueling", "apex-dqn",  "qr-dqn",       "c51"};

/* A member of a config, and its values in the order of `names`; UNSAID: none was published. */
typedef struct constant {
    const char *member;
    char type; /* 'f' float, 'i' int32_t, 'l' int64_t */
    size_t offset;
    double values[PRESETS];
} constant;
#define UNSAID NAN
#define OF(type, member) #member, type, offsetof(CONFIG, member)

enum { QUANTILES = GPUR_HEAD_QUANTILES, CATEGORICAL = GPUR_HEAD_CATEGORICAL, ADAM = GPUR_ADAM };
enum { Q = GPUR_HEAD_Q, DUEL = GPUR_HEAD_DUELING, TF = GPUR_RMSPROP_TF, DEEPMIND = GPUR_RMSPROP_DEEPMIND };
enum { HUBER = GPUR_LOSS_HUBER, SQUARED = GPUR_LOSS_SQUARED, AUTO = GPUR_SOURCE_AUTO, RELU = GPUR_RELU };
enum { NORMAL = GPUR_INIT_NORMAL, GLOROT = GPUR_INIT_GLOROT, DENSE = GPUR_DENSE, CONV = GPUR_CONV };
enum { STRATIFIED = GPUR_PRIORITIZED_STRATIFIED, FRAMES = GPUR_LAYOUT_FRAMES };

static const gpur_layer melee_trunk[] = {{DENSE, 128, RELU, 0, 0, 0, {0}}, {DENSE, 256, RELU, 0, 0, 0, {0}}};
static const gpur_layer atari_trunk[] = {{CONV, 32, RELU, 8, 4, 0, {0}},
                                         {CONV, 64, RELU, 4, 2, 0, {0}},
                                         {CONV, 64, RELU, 3, 1, 0, {0}},
                                         {DENSE, 512, RELU, 0, 0, 0, {0}}};

#define CONFIG gpur_dqn_config
static const constant of_learners[] = {
    {OF('i', network.head), {DUEL, Q, Q, Q, DUEL, DUEL, QUANTILES, CATEGORICAL}},
    {OF('i', network.trunk_count), {1, 2, 2, 4, 3, 3, 4, 4}},
    {OF('i', network.atoms), {0, 0, 0, 0, 0, 0, 200, 51}},
    {OF('f', network.v_min), {0, 0, 0, 0, 0, 0, 0, -10}},
    {OF('f', network.v_max), {0, 0, 0, 0, 0, 0, 0, 10}},
    {OF('i', network.hidden), {512, 0, 0, 0, 512, 512, 0, 0}},
    {OF('i', network.hidden_activation), {RELU, UNSAID, UNSAID, UNSAID, RELU, RELU, UNSAID, UNSAID}},
    {OF('i', network.num_actions), {5, 5, 5, 18, 18, 18, 18, 18}},
    {OF('i', network.init), {NORMAL, NORMAL, NORMAL, GLOROT, GLOROT, GLOROT, GLOROT, GLOROT}},
    {OF('f', network.init_scale), {0.1, 0.1, 0.1, UNSAID, UNSAID, UNSAID, UNSAID, UNSAID}},
    {OF('f', network.input_scale), {UNSAID, UNSAID, UNSAID, 1.0 / 255, 1.0 / 255, 1.0 / 255, 1.0 / 255, 1.0 / 255}},
    {OF('i', optimizer.kind), {TF, TF, TF, DEEPMIND, DEEPMIND, DEEPMIND, ADAM, ADAM}},
    {OF('i', optimizer.centered), {0, 0, 0, 1, 1, 1, 0, 0}},
    {OF('f', optimizer.learning_rate.first), {2.5e-4, 2.5e-4, 2.5e-4, 2.5e-4, 2.5e-4, 6.25e-5, 5e-5, 2.5e-4}},
    {OF('l', optimizer.learning_rate.steps), {0, 0, 0, 0, 0, 0, 0, 0}},
    {OF('f', optimizer.decay), {0.95, 0.95, 0.95, 0.95, 0.95, 0.95, UNSAID, UNSAID}},
    {OF('f', optimizer.momentum), {0.95, 0.95, 0.95, 0, 0, 0, 0, 0}},
    {OF('f', optimizer.epsilon), {0.01, 0.01, 0.01, 0.01, 0.01, 1.5e-7, 3.125e-4, 3.125e-4}},
    {OF('f', optimizer.clip_norm), {0, 0, 0, 0, 10, 40, 0, 0}},
    {OF('f', optimizer.clip_value), {0, 0, 0, 0, 0, 0, 0, 0}},
    {OF('i', double_dqn), {0, 0, 1, 0, 1, 1, 0, 0}},
    {OF('i', loss), {HUBER, HUBER, HUBER, HUBER, HUBER, SQUARED, HUBER, HUBER}},
    {OF('f', huber_delta), {1, 1, 1, 1, 1, UNSAID, 1, UNSAID}},
    {OF('l', batch_size), {32, 32, 32, 32, 32, 512, 32, 32}},
    {OF('l', target_period), {10000, 10000, 10000, 2500, 2500, 2500, 2500, 2500}},
    {OF('i', target_copy_first), {1, 1, 1, 0, 0, 0, 0, 0}},
    {OF('i', index_source), {AUTO, AUTO, AUTO, AUTO, AUTO, STRATIFIED, AUTO, AUTO}},
    {OF('f', beta.first), {UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, 0.4, UNSAID, UNSAID}},
    {OF('f', beta.last), {UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, 0.4, UNSAID, UNSAID}},
    {OF('f', exploration.first), {1, 1, 1, 1, 1, 0.4, 1, 1}},
    {OF('f', exploration.last), {0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 0.01, 0.01}},
    {OF('l', exploration.begin), {UNSAID, UNSAID, UNSAID, 0, 0, UNSAID, 0, 0}},
    {OF('l', exploration.steps), {UNSAID, UNSAID, UNSAID, 1000000, 1000000, UNSAID, 1000000, 1000000}},
};
#undef CONFIG

#define CONFIG gpur_replay_config
static const constant of_replays[] = {
    {OF('l', capacity), {1000000, 1000000, 1000000, 1000000, 1000000, 2000000, 1000000, 1000000}},
    {OF('l', block_rows), {2000, 2000, 2000, UNSAID, UNSAID, UNSAID, UNSAID, UNSAID}},
    {OF('l', min_size), {UNSAID, UNSAID, UNSAID, 50000, 50000, 50000, 50000, 50000}},
    {OF('f', gamma), {0.99, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99}},
    {OF('f', reward_clip), {1, 1, 1, 1, 1, 1, 1, 1}},
    {OF('i', layout), {GPUR_LAYOUT_ROWS, GPUR_LAYOUT_ROWS, GPUR_LAYOUT_ROWS, FRAMES, FRAMES, FRAMES, FRAMES, FRAMES}},
    {OF('i', frame_stack), {UNSAID, UNSAID, UNSAID, 4, 4, 4, 4, 4}},
    {OF('i', stack_axis),
     {UNSAID, UNSAID, UNSAID, GPUR_STACK_FIRST, GPUR_STACK_FIRST, GPUR_STACK_FIRST, GPUR_STACK_FIRST,
      GPUR_STACK_FIRST}},
    {OF('i', stack_pad),
     {UNSAID, UNSAID, UNSAID, GPUR_PAD_ZERO, GPUR_PAD_ZERO, GPUR_PAD_ZERO, GPUR_PAD_ZERO, GPUR_PAD_ZERO}},
    {OF('i', n_step), {1, 1, 1, 1, 1, 3, 1, 1}},
    {OF('i', prioritized), {0, 0, 0, 0, 0, 1, 0, 0}},
    {OF('i', index_source), {AUTO, AUTO, AUTO, AUTO, AUTO, AUTO, AUTO, AUTO}},
    {OF('f', alpha), {UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, 0.6, UNSAID, UNSAID}},
    {OF('f', priority_offset), {UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, 1e-6, UNSAID, UNSAID}},
    {OF('f', beta.first), {UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, 0.4, UNSAID, UNSAID}},
    {OF('f', beta.last), {UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, 0.4, UNSAID, UNSAID}},
};
#undef CONFIG

static double value_of(const constant *c, const void *config)
{
    const unsigned char *const at = (const unsigned char *)config + c->offset;
    float real;
    int32_t narrow;
    int64_t wide;
    memcpy(&real, at, sizeof real);
    memcpy(&narrow, at, sizeof narrow);
    memcpy(&wide, at, sizeof wide);
    return c->type == 'f' ? (double)real : c->type == 'i' ? narrow : (double)wide;
}

static void check_constants(const constant *constants, size_t count, const void *config, int preset)
{
    for (size_t i = 0; i < count; i++) {
        const double want = constants[i].values[preset], got = value_of(&constants[i], config);
        TEST_REQUIRE(isnan(want) || fabs(got - want) <= fabs(want) * 1e-6, "%s of %s is %.9g; wanted %.9g",
                     constants[i].member, names[preset], got, want);
    }
}

TEST(presets_have_the_constants_of_the_papers)
{
    for (int i = 0; i < PRESETS; i++) {
        const gpur_dqn_config learner = preset(names[i]);
        gpur_replay_config replay;
        CHECK_EQUAL(learner.size, sizeof learner);
        check_constants(of_learners, sizeof of_learners / sizeof *of_learners, &learner, i);
        TEST_REQUIRE(memcmp(learner.network.trunk, i < 3 ? melee_trunk : atari_trunk,
                            (size_t)learner.network.trunk_count * sizeof(gpur_layer)) == 0,
                     "the trunk of %s is another", names[i]);
        CHECK_OK(gpur_replay_config_init(&replay, sizeof replay));
        CHECK_OK(gpur_replay_config_preset(&replay, names[i]));
        check_constants(of_replays, sizeof of_replays / sizeof *of_replays, &replay, i);
    }
}

/* At 5 or 18 actions. */
TEST(networks_have_as_many_weights_as_published)
{
    const int64_t plain = 27 * 128 + 128 + 128 * 256 + 256 + 256 * 5 + 5;
    const int64_t dueling = 77984 + 2 * (3136 * 512 + 512) + 512 * 19 + 19;
    const int64_t without = 1693362 - 513 * 18; /* the last layer */
    const int64_t wanted[PRESETS] = {
        138758, plain, plain, 1693362, dueling, dueling, without + 513 * 18 * 200, without + 513 * 18 * 51};
    for (int i = 0; i < PRESETS; i++) {
        const gpur_dqn_config config = preset(names[i]);
        CHECK_EQUAL(weights_of(&config), wanted[i]);
    }
}

TEST(cartpole_is_a_dueling_double_dqn)
{
    const gpur_dqn_config c = preset("cartpole");
    CHECK_EQUAL(c.network.head, GPUR_HEAD_DUELING);
    CHECK_EQUAL(c.double_dqn, 1);
    CHECK_EQUAL(c.network.num_actions, 2);
}

TEST(a_preset_keeps_what_it_does_not_name)
{
    gpur_dqn_config c;
    CHECK_OK(gpur_dqn_config_init(&c, sizeof c));
    c.seed = 99, c.act = GPUR_ACT_TARGET, c.math = GPUR_MATH_TF32;
    c.index_source = GPUR_UNIFORM_DISTINCT;
    CHECK_OK(gpur_dqn_config_preset(&c, "melee-gpu"));
    CHECK(c.seed == 99 && c.act == GPUR_ACT_TARGET && c.math == GPUR_MATH_TF32);
    CHECK_EQUAL(c.index_source, GPUR_UNIFORM_DISTINCT);
}

TEST(an_unknown_preset_is_refused_and_changes_nothing)
{
    gpur_dqn_config c, before;
    CHECK_OK(gpur_dqn_config_init(&c, sizeof c));
    before = c;
    CHECK_STATUS(gpur_dqn_config_preset(&c, "melee"), GPUR_INVALID_ARGUMENT);
    CHECK_MESSAGE("there are melee-gpu, melee-dqn, melee-double, nature-dqn, nature-dueling, qr-dqn, c51, apex-dqn, "
                  "cartpole");
    CHECK_STATUS(gpur_dqn_config_preset(&c, NULL), GPUR_INVALID_ARGUMENT);
    CHECK(memcmp(&c, &before, sizeof c) == 0);
    c.size = 0;
    CHECK_FAILS(gpur_dqn_config_preset(&c, "melee-gpu"), GPUR_INVALID_ARGUMENT, "was the struct initialized?");
}

TEST(an_older_callers_shorter_config_is_filled_as_far_as_it_goes)
{
    _Alignas(gpur_dqn_config) unsigned char memory[sizeof(gpur_dqn_config)];
    const uint64_t size = offsetof(gpur_dqn_config, exploration);
    memset(memory, 0xAB, sizeof memory);
    CHECK_OK(gpur_dqn_config_init((gpur_dqn_config *)(void *)memory, size));
    CHECK_OK(gpur_dqn_config_preset((gpur_dqn_config *)(void *)memory, "melee-gpu"));
    for (size_t i = size; i < sizeof memory; i++)
        CHECK_EQUAL(memory[i], 0xAB);
}

int main(int argc, char **argv)
{
    test_main_begin(argc, argv);
    RUN(presets_have_the_constants_of_the_papers);
    RUN(networks_have_as_many_weights_as_published);
    RUN(cartpole_is_a_dueling_double_dqn);
    RUN(a_preset_keeps_what_it_does_not_name);
    RUN(an_unknown_preset_is_refused_and_changes_nothing);
    RUN(an_older_callers_shorter_config_is_filled_as_far_as_it_goes);
    return test_main_end();
}
