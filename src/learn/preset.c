/* SPDX-License-Identifier: MIT */
/* The published systems' learners, with every constant; and the defaults. */
#include "base/sized.h"
#include "base/status.h"
#include "gpureplay/learner.h"

#include <string.h>

static gpur_network_config dense_network(int32_t first, int32_t second)
{
    gpur_network_config network;
    memset(&network, 0, sizeof network);
    network.trunk[0].units = first;
    network.trunk[0].activation = GPUR_RELU;
    network.trunk[1].units = second;
    network.trunk[1].activation = GPUR_RELU;
    network.trunk_count = second ? 2 : 1;
    network.hidden_activation = GPUR_RELU;
    network.init = GPUR_INIT_FAN_IN;
    network.input_scale = 1.0f;
    return network;
}

/* From `first` to `last` in so many steps, the first of them step 0. */
static gpur_schedule schedule(float first, float last, int64_t steps)
{
    gpur_schedule s;
    memset(&s, 0, sizeof s);
    s.first = first;
    s.last = last;
    s.steps = steps;
    return s;
}

static gpur_optimizer_config adam(float rate)
{
    gpur_optimizer_config optimizer;
    memset(&optimizer, 0, sizeof optimizer);
    optimizer.kind = GPUR_ADAM;
    optimizer.learning_rate = schedule(rate, rate, 0);
    optimizer.beta1 = 0.9f;
    optimizer.beta2 = 0.999f;
    optimizer.decay = 0.95f;
    optimizer.epsilon = 1e-8f;
    return optimizer;
}

/* The loss of all but apex-dqn. */
static void set_huber(gpur_learner_config *config)
{
    config->loss = GPUR_LOSS_HUBER;
    config->huber_delta = 1.0f;
}

static void set_defaults(gpur_learner_config *config)
{
    memset(config, 0, sizeof *config);
    config->network = dense_network(128, 128);
    config->optimizer = adam(1e-3f);
    config->double_dqn = 1;
    set_huber(config);
    config->index_source = GPUR_SOURCE_AUTO;
    config->batch_size = 32;
    config->target_period = 10000;
    config->act = GPUR_ACT_LATEST;
    config->max_act_batch = 64;
    config->math = GPUR_MATH_FP32;
    config->unroll = 8;
    config->beta = schedule(0.4f, 0.4f, 0);
    config->exploration = schedule(1.0f, 0.1f, 0);
}

/* What all three have in common [Parr 2018, section 4.2, and the public code of its trainer]. The published epsilon
 * falls over the first fifth of training, whose length only the caller knows: exploration.steps stays 0 until set. */
static void set_melee(gpur_learner_config *config)
{
    config->network.outputs = 5;
    config->network.init = GPUR_INIT_NORMAL;
    config->network.init_scale = 0.1f;
    config->optimizer = adam(2.5e-4f);
    config->optimizer.kind = GPUR_RMSPROP_TF;
    config->optimizer.decay = 0.95f;
    config->optimizer.momentum = 0.95f;
    config->optimizer.epsilon = 0.01f;
    config->double_dqn = 0;
    set_huber(config);
    config->batch_size = 32;
    config->target_period = 10000;
    config->target_copy_first = 1;
    config->exploration = schedule(1.0f, 0.1f, 0);
}

static void set_melee_gpu(gpur_learner_config *config)
{
    config->network = dense_network(128, 0);
    config->network.head = GPUR_HEAD_DUELING;
    config->network.hidden = 512;
    set_melee(config);
}

static void set_melee_dqn(gpur_learner_config *config)
{
    config->network = dense_network(128, 256);
    config->network.head = GPUR_HEAD_Q;
    set_melee(config);
}

static void set_melee_double(gpur_learner_config *config)
{
    set_melee_dqn(config);
    config->double_dqn = 1;
}

/* Ours, for CartPole-v1: 4 numbers, 2 actions. */
static void set_cartpole(gpur_learner_config *config)
{
    config->network = dense_network(128, 128);
    config->network.head = GPUR_HEAD_DUELING;
    config->network.outputs = 2;
    config->optimizer = adam(1e-3f);
    config->optimizer.clip_norm = 10.0f;
    config->double_dqn = 1;
    set_huber(config);
    config->batch_size = 64;
    config->target_period = 128;
    config->target_copy_first = 0;
    config->exploration = schedule(1.0f, 0.04f, 4000);
}

static gpur_layer convolution(int32_t filters, int32_t kernel, int32_t stride)
{
    const gpur_layer layer = {
        .kind = GPUR_CONV, .units = filters, .activation = GPUR_RELU, .kernel = kernel, .stride = stride};
    return layer;
}

/* 84 x 84 x 4 to 20 x 20 x 32, 9 x 9 x 64, 7 x 7 x 64 [Mnih et al. 2015, Methods]; Glorot weights are Keras's, in the
 * code of Daley & Amato 2021. The caller adds what stands on it. */
static gpur_network_config nature_network(void)
{
    gpur_network_config network;
    memset(&network, 0, sizeof network);
    network.trunk[0] = convolution(32, 8, 4);
    network.trunk[1] = convolution(64, 4, 2);
    network.trunk[2] = convolution(64, 3, 1);
    network.trunk_count = 3;
    network.hidden_activation = GPUR_RELU;
    network.outputs = 18;
    network.init = GPUR_INIT_GLOROT;
    network.input_scale = 1.0f / 255.0f;
    network.input_layout = GPUR_CHW;
    return network;
}

/* Centred, and with epsilon inside the root, as DeepMind's own; Daley & Amato's code has Keras 2.1's, which is
 * GPUR_RMSPROP_KERAS2 and `centered`. */
static gpur_optimizer_config deepmind_rmsprop(float rate, float epsilon)
{
    gpur_optimizer_config optimizer = adam(rate);
    optimizer.kind = GPUR_RMSPROP_DEEPMIND;
    optimizer.centered = 1;
    optimizer.decay = 0.95f;
    optimizer.epsilon = epsilon;
    return optimizer;
}

/* Mnih et al. 2015, extended data table 1, as Daley & Amato 2021, appendix B, has it: C = 10,000 and F = 4 count
 * timesteps, so a target lives for 2,500 train steps; epsilon falls from 1 to 0.1 over the first million. */
static void set_nature_dqn(gpur_learner_config *config)
{
    const gpur_layer dense = {.kind = GPUR_DENSE, .units = 512, .activation = GPUR_RELU};
    config->network = nature_network();
    config->network.trunk[config->network.trunk_count++] = dense;
    config->network.head = GPUR_HEAD_Q;
    config->optimizer = deepmind_rmsprop(2.5e-4f, 0.01f);
    config->double_dqn = 0;
    set_huber(config);
    config->batch_size = 32;
    config->target_period = 2500;
    config->target_copy_first = 0;
    config->exploration = schedule(1.0f, 0.1f, 1000000);
}

/* Two streams of 512, double DQN and the norm are Wang et al.'s, 2016, section 4.2; the rest is as before. */
static void set_nature_dueling(gpur_learner_config *config)
{
    set_nature_dqn(config);
    config->network = nature_network();
    config->network.head = GPUR_HEAD_DUELING;
    config->network.hidden = 512;
    config->optimizer.clip_norm = 10.0f;
    config->double_dqn = 1;
}

/* Horgan et al. 2018, section 4.1 and appendix C: centred RMSProp at 0.00025 / 4, no momentum, epsilon 1.5e-7, norm 40;
 * half the squared error; a target copy every 2,500 batches of 512, drawn by priority with beta 0.4. The sizes of the
 * network are those of public code. */
static void set_apex_dqn(gpur_learner_config *config)
{
    set_nature_dueling(config);
    config->optimizer = deepmind_rmsprop(0.00025f / 4.0f, 1.5e-7f);
    config->optimizer.clip_norm = 40.0f;
    config->loss = GPUR_LOSS_SQUARED;
    config->batch_size = 512;
    config->target_period = 2500;
    config->index_source = GPUR_PRIORITIZED;
    config->beta = schedule(0.4f, 0.4f, 0);
    config->exploration = schedule(0.4f, 0.4f, 0);
}

typedef struct preset {
    const char *name;
    void (*set)(gpur_learner_config *config);
} preset;

static const preset presets[] = {
    {"melee-gpu", set_melee_gpu},   {"melee-dqn", set_melee_dqn},           {"melee-double", set_melee_double},
    {"nature-dqn", set_nature_dqn}, {"nature-dueling", set_nature_dueling}, {"apex-dqn", set_apex_dqn},
    {"cartpole", set_cartpole},
};

gpur_status gpur_learner_config_init(gpur_learner_config *config, uint64_t size)
{
    gpur_learner_config defaults;
    GPUR_REQUIRE(config, "gpur_learner_config is NULL");
    set_defaults(&defaults);
    config->size = size;
    return gpur_sized_write(config, &defaults, sizeof defaults, "gpur_learner_config");
}

gpur_status gpur_learner_config_preset(gpur_learner_config *config, const char *name)
{
    gpur_learner_config changed;
    set_defaults(&changed);
    GPUR_TRY(gpur_sized_read(&changed, sizeof changed, config, "gpur_learner_config"));
    GPUR_REQUIRE(name, "the name of the preset is NULL");
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++)
        if (strcmp(presets[i].name, name) == 0) {
            presets[i].set(&changed);
            return gpur_sized_write(config, &changed, sizeof changed, "gpur_learner_config");
        }
    return gpur_fail(GPUR_INVALID_ARGUMENT,
                     "no learner preset is named \"%s\"; there are melee-gpu, melee-dqn, melee-double, nature-dqn, "
                     "nature-dueling, apex-dqn, cartpole",
                     name);
}
