/* SPDX-License-Identifier: MIT */
/* DQN's settings: checks, defaults, and presets with the constants of published systems. */
#include "learn/dqn/dqn.h"

#include "base/sized.h"
#include "replay/config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A head of distributions has a loss of its own, of which huber_delta may be 0. */
static gpur_status check_loss(const gpur_dqn_config *config)
{
    const int of_distributions = config->network.atoms > 0;
    GPUR_TRY(gpur_choice_check(config->double_dqn, 1, "double_dqn", "0 or 1"));
    GPUR_TRY(gpur_choice_check(config->loss, GPUR_LOSS_SQUARED, "loss", "GPUR_LOSS_HUBER or GPUR_LOSS_SQUARED (0, 1)"));
    GPUR_REQUIRE((config->huber_delta > 0.0f || (of_distributions && config->huber_delta == 0.0f)) &&
                     config->huber_delta < INFINITY,
                 "huber_delta is %g; it must be %s, and finite", (double)config->huber_delta,
                 of_distributions ? "0 or more" : "above 0");
    GPUR_REQUIRE(!of_distributions || config->returns.cache_size == 0,
                 "returns.cache_size is %" PRId64 "; with a head of distributions it must be 0",
                 config->returns.cache_size);
    return gpur_choice_check(config->target_copy_first, 1, "target_copy_first", "0 or 1");
}

static gpur_status check_acting(const gpur_dqn_config *config)
{
    GPUR_TRY(gpur_choice_check(config->act, GPUR_ACT_TARGET, "act", "GPUR_ACT_LATEST, PREVIOUS or TARGET (0 to 2)"));
    return gpur_schedule_check(&config->exploration, 1.0f, "exploration");
}

gpur_status gpur_dqn_config_check(const gpur_dqn_config *config)
{
    const int32_t head = config->network.head;
    GPUR_REQUIRE(head == GPUR_HEAD_Q || head == GPUR_HEAD_DUELING || config->network.atoms > 0,
                 "network.head is %" PRId32 "; a DQN learner needs GPUR_HEAD_Q (0), GPUR_HEAD_DUELING (1), "
                 "GPUR_HEAD_QUANTILES (5) or GPUR_HEAD_CATEGORICAL (6)",
                 head);
    GPUR_TRY(check_loss(config));
    GPUR_TRY(gpur_optimizer_check(&config->optimizer));
    GPUR_TRY(check_acting(config));
    GPUR_TRY(gpur_choice_check(config->step_kernel, GPUR_STEP_FUSED, "step_kernel",
                               "GPUR_STEP_AUTO, LIBRARIES or FUSED (0 to 2)"));
    return gpur_range_check(config->host_batches, 0, GPUR_MAX_HOST_BATCHES, "host_batches");
}

/* clang-format off */
#define RELU(layer_units)       {.units = layer_units, .activation = GPUR_RELU}
#define CONV(filters, size, by)                                                                                        \
    {.kind = GPUR_CONV, .units = filters, .activation = GPUR_RELU, .kernel = size, .stride = by}
#define CONSTANT(value)         {.first = value, .last = value}
#define ADAM(rate)              .learning_rate = CONSTANT(rate), .beta1 = 0.9f, .beta2 = 0.999f, .decay = 0.95f
#define HUBER                   .loss = GPUR_LOSS_HUBER, .huber_delta = 1.0f
#define DENSE_NETWORK           .hidden_activation = GPUR_RELU, .init = GPUR_INIT_FAN_IN, .input_scale = 1.0f,         \
                                .input_layout = GPUR_INPUT_AUTO
#define DUELING                 .head = GPUR_HEAD_DUELING, .hidden = 512

static const gpur_dqn_config defaults = {
    .network = {.trunk = {RELU(128), RELU(128)}, .trunk_count = 2, DENSE_NETWORK},
    .optimizer = {.kind = GPUR_ADAM, ADAM(1e-3f), .epsilon = 1e-8f},
    .double_dqn = 1, HUBER, .index_source = GPUR_SOURCE_AUTO, .batch_size = 32, .target_period = 10000,
    .act = GPUR_ACT_LATEST, .math = GPUR_MATH_FP32, .beta = CONSTANT(0.4f),
    .exploration = {.first = 1.0f, .last = 0.1f},
    .returns = {.block_length = 100, .estimator = GPUR_ESTIMATOR_PENG, .lambda = -1.0f, .n_step = 3,
                .error_bound = 0.025f, .storage = GPUR_CACHE_VIRTUAL, .draw = GPUR_CACHE_PERMUTATION},
    .demonstration_ratio = 0.5f, .target_rate = 1.0f,
};

/* The settings that the three Melee presets share [Parr 2018, section 4.2, and the public code of its trainer]. Epsilon
 * falls over the first fifth of training. Only the caller knows its length, so exploration.steps is 0 until the
 * caller sets it. */
#define MELEE_NETWORK                                                                                                  \
    .hidden_activation = GPUR_RELU, .num_actions = 5, .init = GPUR_INIT_NORMAL, .init_scale = 0.1f,                    \
    .input_scale = 1.0f, .input_layout = GPUR_INPUT_AUTO
#define MELEE                                                                                                          \
    .optimizer = {.kind = GPUR_RMSPROP_TF, ADAM(2.5e-4f), .momentum = 0.95f, .epsilon = 0.01f}, HUBER,                 \
    .batch_size = 32, .target_period = 10000, .target_copy_first = 1, .exploration = {.first = 1.0f, .last = 0.1f}

/* Three convolutions, from 84 x 84 x 4 to 20 x 20 x 32, 9 x 9 x 64 and 7 x 7 x 64 [Mnih et al. 2015, Methods]. The code
 * of Daley & Amato 2021 has the Glorot weights of Keras. */
#define NATURE_TRUNK CONV(32, 8, 4), CONV(64, 4, 2), CONV(64, 3, 1)
#define NATURE_NETWORK                                                                                                 \
    .hidden_activation = GPUR_RELU, .num_actions = 18, .init = GPUR_INIT_GLOROT, .input_scale = 1.0f / 255.0f,         \
    .input_layout = GPUR_INPUT_AUTO
/* Centered, with epsilon inside the root, as in DeepMind's own code. The code of Daley & Amato 2021 has that of Keras
 * 2.1, which is GPUR_RMSPROP_KERAS2 with `centered` 1. */
#define DEEPMIND_RMSPROP(rate) .kind = GPUR_RMSPROP_DEEPMIND, ADAM(rate), .centered = 1
/* Mnih et al. 2015, extended data table 1, as in Daley & Amato 2021, appendix B: C = 10,000 and F = 4 count time steps,
 * so the target network is copied every 2,500 train steps. Epsilon falls from 1 to 0.1 over the first million time
 * steps. */
#define NATURE_TO(epsilon)                                                                                             \
    HUBER, .batch_size = 32, .target_period = 2500, .exploration = {.first = 1.0f, .last = epsilon, .steps = 1000000}
#define NATURE NATURE_TO(0.1f)

/* A preset sets the members of `config` that copy_preset copies. */
static const struct { const char *name; gpur_dqn_config config; } presets[] = {
    {"melee-gpu", {.network = {.trunk = {RELU(128), RELU(0)}, .trunk_count = 1, DUELING, MELEE_NETWORK}, MELEE}},
    {"melee-dqn", {.network = {.trunk = {RELU(128), RELU(256)}, .trunk_count = 2, MELEE_NETWORK}, MELEE}},
    {"melee-double",
     {.network = {.trunk = {RELU(128), RELU(256)}, .trunk_count = 2, MELEE_NETWORK}, .double_dqn = 1, MELEE}},
    {"nature-dqn",
     {.network = {.trunk = {NATURE_TRUNK, RELU(512)}, .trunk_count = 4, NATURE_NETWORK},
      .optimizer = {DEEPMIND_RMSPROP(2.5e-4f), .epsilon = 0.01f}, NATURE}},
    /* Two branches of 512 units, double DQN and gradients clipped to norm 10 [Wang et al. 2016, section 4.2]; the rest
     * is as in nature-dqn. */
    {"nature-dueling",
     {.network = {.trunk = {NATURE_TRUNK}, .trunk_count = 3, DUELING, NATURE_NETWORK},
      .optimizer = {DEEPMIND_RMSPROP(2.5e-4f), .epsilon = 0.01f, .clip_norm = 10.0f}, .double_dqn = 1, NATURE}},
    /* Adam and the quantiles of Dabney et al. 2018, with kappa 1, and Adam and the atoms of Bellemare et al. 2017.
     * The last epsilon of 0.01 is this library's choice. The rest is as in nature-dqn. */
    {"qr-dqn",
     {.network = {.trunk = {NATURE_TRUNK, RELU(512)}, .trunk_count = 4, NATURE_NETWORK, .head = GPUR_HEAD_QUANTILES,
                  .atoms = 200},
      .optimizer = {.kind = GPUR_ADAM, ADAM(5e-5f), .epsilon = 0.01f / 32.0f}, NATURE_TO(0.01f)}},
    {"c51",
     {.network = {.trunk = {NATURE_TRUNK, RELU(512)}, .trunk_count = 4, NATURE_NETWORK, .head = GPUR_HEAD_CATEGORICAL,
                  .atoms = 51, .v_min = -10.0f, .v_max = 10.0f},
      .optimizer = {.kind = GPUR_ADAM, ADAM(2.5e-4f), .epsilon = 0.01f / 32.0f}, NATURE_TO(0.01f)}},
    /* Horgan et al. 2018, section 4.1 and appendix C: centered RMSProp with learning rate 0.00025 / 4, no momentum,
     * epsilon 1.5e-7, gradient norm 40; half the squared error; a target copy every 2,500 batches of 512, sampled by
     * priority with beta 0.4. The sizes of the network are those of public code. */
    {"apex-dqn",
     {.network = {.trunk = {NATURE_TRUNK}, .trunk_count = 3, DUELING, NATURE_NETWORK},
      .optimizer = {DEEPMIND_RMSPROP(0.00025f / 4.0f), .epsilon = 1.5e-7f, .clip_norm = 40.0f}, .double_dqn = 1,
      .loss = GPUR_LOSS_SQUARED, .huber_delta = 1.0f, .batch_size = 512, .target_period = 2500,
      .index_source = GPUR_PRIORITIZED_STRATIFIED, .beta = CONSTANT(0.4f), .exploration = CONSTANT(0.4f)}},
    /* Our own, for CartPole-v1: observations of 4 numbers, 2 actions. */
    {"cartpole",
     {.network = {.trunk = {RELU(128), RELU(128)}, .trunk_count = 2, .head = GPUR_HEAD_DUELING, .num_actions = 2,
                  DENSE_NETWORK},
      .optimizer = {.kind = GPUR_ADAM, ADAM(1e-3f), .epsilon = 1e-8f, .clip_norm = 10.0f}, .double_dqn = 1, HUBER,
      .batch_size = 64, .target_period = 128, .exploration = {.first = 1.0f, .last = 0.04f, .steps = 4000}}},
};
/* clang-format on */

static void copy_preset(gpur_dqn_config *to, const gpur_dqn_config *preset)
{
    to->network = preset->network;
    to->optimizer = preset->optimizer;
    to->double_dqn = preset->double_dqn;
    to->loss = preset->loss;
    to->huber_delta = preset->huber_delta;
    to->batch_size = preset->batch_size;
    to->target_period = preset->target_period;
    to->target_copy_first = preset->target_copy_first;
    to->target_rate = defaults.target_rate; /* all of them copy the whole weights */
    to->exploration = preset->exploration;
    if (preset->index_source != GPUR_SOURCE_AUTO) {
        to->index_source = preset->index_source;
        to->beta = preset->beta;
    }
}

gpur_status gpur_dqn_config_init(gpur_dqn_config *config, uint64_t size)
{
    return gpur_sized_init(config, size, &defaults, sizeof defaults, "gpur_dqn_config");
}

gpur_status gpur_dqn_config_preset(gpur_dqn_config *config, const char *name)
{
    gpur_dqn_config changed = defaults;
    GPUR_TRY(gpur_sized_read(&changed, sizeof changed, config, "gpur_dqn_config"));
    GPUR_REQUIRE(name, "the name of the preset is NULL");
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcmp(presets[i].name, name) == 0) {
            copy_preset(&changed, &presets[i].config);
            return gpur_sized_write(config, &changed, sizeof changed, "gpur_dqn_config");
        }
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "no learner preset is named \"%s\"; there are melee-gpu, melee-dqn, melee-double, nature-dqn, "
                     "nature-dueling, qr-dqn, c51, apex-dqn, cartpole",
                     name);
}
