/* SPDX-License-Identifier: MIT */
/* The settings of whole systems: replay, learner and run, for an environment. */
#include "gpureplay/fast_dqn.h"

#include "base/sized.h"
#include "run/presets.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Copies of the caller's configs, which have every member of this version. */
typedef struct preset {
    gpur_preset base;
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_fast_dqn_config config;
} preset;

/* The defaults are the constants of Daley & Amato 2021. */
static gpur_status set_run(preset *p)
{
    const int32_t threads = p->config.threads;
    gpur_run_config all;
    GPUR_TRY(gpur_run_config_init(&all, sizeof all));
    GPUR_TRY(gpur_fast_dqn_config_init(&p->config, sizeof p->config));
    p->config.threads = threads;
    p->base.run.eval_period = all.eval_period;
    p->base.run.eval_episodes = all.eval_episodes;
    p->base.run.eval_epsilon = all.eval_epsilon;
    return GPUR_OK;
}

static void set_small(preset *p)
{
    gpur_fast_dqn_config *const config = &p->config;
    gpur_replay_config *const replay = &p->replay;
    gpur_dqn_config *const learner = &p->learner;
    config->target_period = 1000;
    config->prepopulation = 5000;
    p->base.run.eval_period = 50000;
    replay->capacity = 100000;
    replay->min_size = config->prepopulation;
    replay->gamma = 0.99f;
    gpur_preset_set_small_network(&p->base, &learner->network);
    learner->optimizer.kind = GPUR_ADAM;
    learner->optimizer.learning_rate = (gpur_schedule){.first = 2.5e-4f, .last = 2.5e-4f};
    learner->optimizer.clip_norm = 10.0f;
    learner->double_dqn = 0;
    learner->loss = GPUR_LOSS_HUBER;
    learner->batch_size = 32;
    learner->target_period = config->target_period / config->train_period;
    learner->exploration = (gpur_schedule){.first = 1.0f, .last = 0.1f, .steps = 100000};
}

/* For observations without an image, real numbers and flattened discrete ones alike: squared errors, since Huber's loss
 * is slow to follow Q values of 100, such as CartPole's, and penalties of -10, such as Taxi's; a larger rate, larger
 * batches, a dueling head and double Q learning. Evaluations are greedy: in a game like Taxi one random action costs as
 * much as ten others. */
static gpur_status set_small_vectors(preset *p)
{
    gpur_fast_dqn_config *const config = &p->config;
    gpur_dqn_config *const learner = &p->learner;
    GPUR_REQUIRE(p->base.dims < 2,
                 "%s: preset \"%s\" needs observations of one axis; \"fast-dqn-small\" takes images, too",
                 p->base.env_name, p->base.name);
    config->target_period = 400;
    p->base.run.eval_epsilon = 0.0f;
    learner->network.trunk_count = 1;
    learner->network.head = GPUR_HEAD_DUELING;
    learner->network.hidden = 128;
    learner->network.hidden_activation = GPUR_RELU;
    learner->optimizer.learning_rate = (gpur_schedule){.first = 1e-3f, .last = 1e-3f};
    learner->double_dqn = 1;
    learner->loss = GPUR_LOSS_SQUARED;
    learner->batch_size = 64;
    learner->target_period = config->target_period / config->train_period;
    learner->exploration = (gpur_schedule){.first = 1.0f, .last = 0.05f, .steps = 50000};
    return GPUR_OK;
}

/* The settings that the runs of both papers on DQN(lambda) share: one environment; every C steps a refresh, then C / F
 * train steps in a row, which draw as many entries as the cache has. Neither paper evaluates while it trains. */
static void set_bursts(preset *p)
{
    gpur_fast_dqn_config *const config = &p->config;
    gpur_dqn_config *const learner = &p->learner;
    config->num_envs = 1;
    config->concurrent = config->synchronized = 0;
    config->burst = 1;
    p->replay.n_step = 1;
    learner->double_dqn = 0;
    learner->loss = GPUR_LOSS_SQUARED;
    learner->returns.cache_size = learner->batch_size * config->target_period / config->train_period;
    learner->returns.block_length = 100;
}

/* TensorFlow's Adam with the authors' epsilon and clip_value, each halved: their loss is the mean of d^2, and ours that
 * of d^2 / 2, so our gradients are half of theirs. Then m is half and v a quarter of theirs, and
 * m / (sqrt(v) + epsilon) is the same; in floating point, too, as halving is exact. */
static gpur_optimizer_config authors_adam(float learning_rate, float epsilon, float clip_value)
{
    return (gpur_optimizer_config){.kind = GPUR_ADAM_TF,
                                   .learning_rate = {.first = learning_rate, .last = learning_rate},
                                   .beta1 = 0.9f,
                                   .beta2 = 0.999f,
                                   .decay = 0.95f, /* for another kind in its place */
                                   .epsilon = epsilon / 2.0f,
                                   .clip_value = clip_value / 2.0f};
}

/* Epsilon of Daley & Amato 2019's code is 1 at the first step after the random ones. */
static gpur_schedule exploration_2019(int64_t steps)
{
    return (gpur_schedule){.first = 1.0f, .last = 0.1f, .begin = 1, .steps = steps};
}

/* That of Daley & Amato 2021b's is max(0.1, 1 - 0.9 t / steps), where t counts the random steps, too. */
static gpur_schedule exploration_2021(int64_t steps, int64_t prepopulation)
{
    return (gpur_schedule){.first = (float)(1.0 - 0.9 * (double)prepopulation / (double)steps),
                           .last = 0.1f,
                           .steps = steps - prepopulation};
}

/* The control task of Daley & Amato 2019's code, CartPole. */
static void set_control(preset *p)
{
    const gpur_layer layer = {.kind = GPUR_DENSE, .units = 512, .activation = GPUR_TANH};
    gpur_network_config *const network = &p->learner.network;
    network->trunk[0] = network->trunk[1] = layer;
    network->trunk_count = 2;
    network->head = GPUR_HEAD_Q;
    network->hidden = 0;
    network->init = GPUR_INIT_GLOROT;
    network->input_scale = gpur_preset_input_scale(&p->base);
    p->replay.capacity = 500000;
    p->replay.reward_clip = 0.0f;
    p->learner.optimizer = authors_adam(1e-4f, 1e-8f, 0.0f);
    p->learner.exploration = exploration_2019(300000);
    p->learner.returns.estimator = GPUR_ESTIMATOR_N_STEP;
    p->learner.returns.n_step = 5;
}

/* DQN(lambda) of Daley & Amato 2019, by its code where the paper is silent. */
static gpur_status set_dqn_lambda(preset *p)
{
    set_bursts(p);
    p->base.run.eval_period = 0;
    p->learner.optimizer = authors_adam(1e-4f, 1e-4f, 40.0f);
    p->learner.exploration = exploration_2019(1000000);
    p->learner.returns.draw = GPUR_CACHE_REPLACEMENT;
    p->learner.returns.truncation_terminates = 1;
    if (p->base.dims == 1)
        set_control(p);
    return GPUR_OK;
}

/* The virtual replay cache of Daley & Amato 2021b, by its code where the paper is silent. */
static gpur_status set_vrc(preset *p)
{
    set_bursts(p);
    p->base.run.eval_period = 0;
    p->learner.optimizer = authors_adam(5e-5f, 1e-8f, 0.0f);
    p->learner.exploration = exploration_2021(1000000, p->config.prepopulation);
    p->learner.returns.truncation_terminates = 1;
    return GPUR_OK;
}

/* The small relatives: sizes, network and learning rate are those of "fast-dqn-small", the rest is their system's. */
static gpur_status set_dqn_lambda_small(preset *p)
{
    set_bursts(p);
    p->learner.optimizer = authors_adam(2.5e-4f, 1e-4f, 40.0f);
    p->learner.exploration = exploration_2019(100000);
    p->learner.returns.draw = GPUR_CACHE_REPLACEMENT;
    return GPUR_OK;
}

static gpur_status set_vrc_small(preset *p)
{
    set_bursts(p);
    p->learner.optimizer = authors_adam(2.5e-4f, 1e-8f, 0.0f);
    p->learner.exploration = exploration_2021(100000, p->config.prepopulation);
    return GPUR_OK;
}

/* QR-DQN and C51. For frames the learner's presets of these names have the papers' constants: one environment, whose
 * steps and train steps take turns, and evaluations with the epsilon of the papers' public code. For other observations
 * the settings of the small relatives of fast DQN; rewards are not clipped there, so that a distribution of atoms needs
 * a wider range than the paper's, which has atoms for rewards of -1 to 1. */
static gpur_status set_distributions(preset *p)
{
    gpur_network_config *const network = &p->learner.network;
    gpur_dqn_config paper;
    if (gpur_preset_has_frames(&p->base)) {
        p->config.num_envs = 1;
        p->config.concurrent = 0;
        p->config.synchronized = p->base.run.vector != NULL;
        p->base.run.eval_epsilon = 0.001f;
        return GPUR_OK;
    }
    if (p->base.dims < 2)
        GPUR_TRY(set_small_vectors(p));
    GPUR_TRY(gpur_dqn_config_init(&paper, sizeof paper));
    GPUR_TRY(gpur_dqn_config_preset(&paper, p->base.name));
    p->learner.huber_delta = paper.huber_delta;
    network->head = paper.network.head;
    network->atoms = 50;
    if (network->head == GPUR_HEAD_CATEGORICAL)
        network->atoms = 101, network->v_min = -100.0f, network->v_max = 100.0f;
    return GPUR_OK;
}

/* A preset by its name. The small ones begin with the settings of set_small; the others with the replay and the learner
 * of Mnih et al. 2015, as fast DQN does, and need frames. */
typedef struct system_entry {
    const char *name;
    gpur_status (*set)(preset *p); /* what differs; NULL: nothing */
    int is_small, has_cache;
    int takes_rows;          /* 1: of the others, one that takes observations of one axis, too */
    int is_of_distributions; /* 1: it has a learner's preset of its name, and is a small one without frames */
} system_entry;

static const system_entry systems[] = {
    {"fast-dqn", NULL, 0, 0, 0, 0},
    {"fast-dqn-small", NULL, 1, 0, 0, 0},
    {"fast-dqn-small-vectors", set_small_vectors, 1, 0, 0, 0},
    {"dqn-lambda-2019", set_dqn_lambda, 0, 1, 1, 0},
    {"dqn-lambda-2019-small", set_dqn_lambda_small, 1, 1, 0, 0},
    {"vrc-2021", set_vrc, 0, 1, 0, 0},
    {"vrc-2021-small", set_vrc_small, 1, 1, 0, 0},
    {"qr-dqn", set_distributions, 0, 0, 0, 1},
    {"c51", set_distributions, 0, 0, 0, 1},
};

static const system_entry *find_system(const char *name)
{
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (strcmp(systems[i].name, name) == 0)
            return &systems[i];
    return NULL;
}

/* A program that was compiled before there were caches has no room for their settings and for the field `previous`. */
static gpur_status check_room(const char *name, const gpur_dqn_config *learner)
{
    const uint64_t needed = offsetof(gpur_dqn_config, returns) + sizeof learner->returns;
    GPUR_TRY(gpur_sized_check(learner, "gpur_dqn_config"));
    GPUR_REQUIRE(learner->size >= needed,
                 "gpur_dqn_config.size is %" PRIu64 "; preset \"%s\" needs %" PRIu64
                 " bytes: a program that is compiled with this version's headers",
                 learner->size, name, needed);
    return GPUR_OK;
}

static gpur_status init_configs(preset *p)
{
    GPUR_TRY(gpur_replay_config_init(&p->replay, sizeof p->replay));
    GPUR_TRY(gpur_dqn_config_init(&p->learner, sizeof p->learner));
    return gpur_fast_dqn_config_init(&p->config, sizeof p->config);
}

static gpur_status read_configs(preset *p, const gpur_replay_config *replay, const gpur_dqn_config *learner,
                                const gpur_fast_dqn_config *config)
{
    GPUR_TRY(init_configs(p));
    GPUR_TRY(gpur_sized_read(&p->replay, sizeof p->replay, replay, "gpur_replay_config"));
    GPUR_TRY(gpur_sized_read(&p->learner, sizeof p->learner, learner, "gpur_dqn_config"));
    return gpur_sized_read(&p->config, sizeof p->config, config, "gpur_fast_dqn_config");
}

static gpur_status set_first(preset *p, const system_entry *system)
{
    const char *const published = system->is_of_distributions ? system->name : "nature-dqn";
    if (system->is_small || (system->is_of_distributions && !gpur_preset_has_frames(&p->base))) {
        set_small(p);
        return GPUR_OK;
    }
    if (!system->takes_rows || p->base.dims != 1)
        GPUR_TRY(gpur_preset_check_frames(&p->base));
    GPUR_TRY(gpur_replay_config_preset(&p->replay, published));
    return gpur_dqn_config_preset(&p->learner, published);
}

static gpur_status set_all(preset *p, const system_entry *system)
{
    GPUR_TRY(gpur_preset_check_env(&p->base));
    GPUR_TRY(set_run(p));
    p->learner.returns.cache_size = 0;
    GPUR_TRY(set_first(p, system));
    if (system->set)
        GPUR_TRY(system->set(p));
    p->learner.network.num_actions = p->base.info.action.num_actions;
    p->learner.math = gpur_preset_math(&p->base);
    gpur_preset_set_layout(&p->base, p->fields, &p->replay);
    if (system->has_cache)
        p->fields[p->replay.field_count++] = (gpur_field){"previous", GPUR_INT64, {0}};
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_set_learner(const char *name, const char *env_name, const gpur_env_info *info,
                                      gpur_dqn_config *learner, float *eval_epsilon)
{
    preset p = {.fields = {{0}}};
    gpur_preset_use_info(&p.base, name, env_name, info);
    GPUR_TRY(init_configs(&p));
    GPUR_TRY(set_all(&p, find_system(name)));
    *learner = p.learner;
    *eval_epsilon = p.base.run.eval_epsilon;
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_FAST_DQN_FIELDS],
                                 gpur_replay_config *replay, gpur_dqn_config *learner, gpur_fast_dqn_config *config)
{
    preset p = {.fields = {{0}}};
    GPUR_REQUIRE(name && run && fields && replay && learner && config, "an argument is NULL; none may be");
    const system_entry *const system = find_system(name);
    if (!system)
        return gpur_preset_refuse(name, 1 << GPUR_PRESET_FAST_DQN);
    if (system->has_cache)
        GPUR_TRY(check_room(name, learner));
    GPUR_TRY(gpur_preset_open(&p.base, name, run));
    GPUR_TRY(read_configs(&p, replay, learner, config));
    GPUR_TRY(set_all(&p, system));
    memcpy(fields, p.fields, (size_t)p.replay.field_count * sizeof *fields);
    p.replay.fields = fields;
    GPUR_TRY(gpur_sized_write(replay, &p.replay, sizeof p.replay, "gpur_replay_config"));
    GPUR_TRY(gpur_sized_write(learner, &p.learner, sizeof p.learner, "gpur_dqn_config"));
    GPUR_TRY(gpur_sized_write(config, &p.config, sizeof p.config, "gpur_fast_dqn_config"));
    return gpur_sized_write(run, &p.base.run, sizeof p.base.run, "gpur_run_config");
}
