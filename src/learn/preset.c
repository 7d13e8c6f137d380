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
    return network;
}

static gpur_optimizer_config adam(float rate)
{
    gpur_optimizer_config optimizer;
    memset(&optimizer, 0, sizeof optimizer);
    optimizer.kind = GPUR_ADAM;
    optimizer.learning_rate.first = optimizer.learning_rate.last = rate;
    optimizer.beta1 = 0.9f;
    optimizer.beta2 = 0.999f;
    optimizer.decay = 0.95f;
    optimizer.epsilon = 1e-8f;
    return optimizer;
}

static void set_defaults(gpur_learner_config *config)
{
    memset(config, 0, sizeof *config);
    config->network = dense_network(128, 128);
    config->optimizer = adam(1e-3f);
    config->double_dqn = 1;
    config->loss = GPUR_LOSS_HUBER;
    config->huber_delta = 1.0f;
    config->index_source = GPUR_UNIFORM;
    config->batch_size = 32;
    config->target_period = 10000;
    config->act = GPUR_ACT_LATEST;
    config->max_act_batch = 64;
    config->math = GPUR_MATH_FP32;
    config->unroll = 8;
    config->beta.first = config->beta.last = 0.4f;
    config->exploration.first = 1.0f;
    config->exploration.last = 0.1f;
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
    config->loss = GPUR_LOSS_HUBER;
    config->huber_delta = 1.0f;
    config->batch_size = 32;
    config->target_period = 10000;
    config->target_copy_first = 1;
    memset(&config->exploration, 0, sizeof config->exploration);
    config->exploration.first = 1.0f;
    config->exploration.last = 0.1f;
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
    config->loss = GPUR_LOSS_HUBER;
    config->huber_delta = 1.0f;
    config->batch_size = 64;
    config->target_period = 128;
    config->target_copy_first = 0;
    config->exploration.first = 1.0f;
    config->exploration.last = 0.04f;
    config->exploration.begin = 0;
    config->exploration.steps = 4000;
}

typedef struct preset {
    const char *name;
    void (*set)(gpur_learner_config *config);
} preset;

static const preset presets[] = {
    {"melee-gpu", set_melee_gpu},
    {"melee-dqn", set_melee_dqn},
    {"melee-double", set_melee_double},
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
                     "no learner preset is named \"%s\"; there are melee-gpu, melee-dqn, melee-double, cartpole", name);
}
