/* SPDX-License-Identifier: MIT */
/* The settings of whole systems: replay, learner and run, for an environment. */
#include "gpureplay/fast_dqn.h"

#include "base/sized.h"
#include "run/presets.h"
#include "run/core.h"
#include "run/spaces.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* A system by its name, an environment, and the configs that get its settings. */
typedef struct preset {
    const char *name, *env_name;
    gpur_env_info info;
    gpur_field *fields;
    gpur_replay_config *replay;
    gpur_dqn_config *learner;
    gpur_fast_dqn_config *config;
    gpur_run_config *run;
} preset;

static void set_replay(const preset *p, const gpur_obs_kind *kind)
{
    const int has_cache = p->learner->returns.cache_size > 0;
    gpur_preset_set_layout(&p->info.obs, kind, p->fields, p->replay);
    if (has_cache)
        p->fields[p->replay->field_count++] = (gpur_field){"previous", GPUR_INT64, {0}};
}

/* The defaults are the constants of Daley & Amato 2021. */
static gpur_status set_run(const preset *p)
{
    const int32_t threads = p->config->threads;
    gpur_run_config all;
    GPUR_TRY(gpur_run_config_init(&all, sizeof all));
    GPUR_TRY(gpur_fast_dqn_config_init(p->config, sizeof *p->config));
    p->config->threads = threads;
    p->run->eval_period = all.eval_period;
    p->run->eval_episodes = all.eval_episodes;
    p->run->eval_epsilon = all.eval_epsilon;
    return GPUR_OK;
}

static void set_small(const preset *p, const gpur_obs_kind *kind)
{
    gpur_fast_dqn_config *const config = p->config;
    gpur_replay_config *const replay = p->replay;
    gpur_dqn_config *const learner = p->learner;
    config->target_period = 1000;
    config->prepopulation = 5000;
    p->run->eval_period = 50000;
    replay->capacity = 100000;
    replay->min_size = config->prepopulation;
    replay->gamma = 0.99f;
    gpur_preset_set_small_network(&p->info, kind, &learner->network);
    learner->optimizer.kind = GPUR_ADAM;
    learner->optimizer.learning_rate = (gpur_schedule){.first = 2.5e-4f, .last = 2.5e-4f};
    learner->optimizer.clip_norm = 10.0f;
    learner->double_dqn = 0;
    learner->loss = GPUR_LOSS_HUBER;
    learner->batch_size = 32;
    learner->target_period = config->target_period / config->train_period;
    learner->exploration = (gpur_schedule){.first = 1.0f, .last = 0.1f, .steps = 100000};
}

/* Fast DQN: Daley & Amato 2021. Its replay and learner are those of Mnih et al. 2015. */
static gpur_status set_fast_dqn(const preset *p, const gpur_obs_kind *kind)
{
    GPUR_TRY(gpur_preset_check_frames(p->name, p->env_name, &p->info, kind));
    GPUR_TRY(gpur_replay_config_preset(p->replay, "nature-dqn"));
    return gpur_dqn_config_preset(p->learner, "nature-dqn");
}

static gpur_status set_fast_dqn_small(const preset *p, const gpur_obs_kind *kind)
{
    set_small(p, kind);
    return GPUR_OK;
}

/* For observations without an image, real numbers and flattened discrete ones alike: squared errors, since Huber's loss
 * is slow to follow Q values of 100, such as CartPole's, and penalties of -10, such as Taxi's; a larger rate, larger
 * batches, a dueling head and double Q learning. Evaluations are greedy: in a game like Taxi one random action costs as
 * much as ten others. */
static gpur_status set_fast_dqn_small_vectors(const preset *p, const gpur_obs_kind *kind)
{
    gpur_fast_dqn_config *const config = p->config;
    gpur_dqn_config *const learner = p->learner;
    GPUR_REQUIRE(kind->dims < 2,
                 "%s: preset \"%s\" needs observations of one axis; \"fast-dqn-small\" takes images, too", p->env_name,
                 p->name);
    set_small(p, kind);
    config->target_period = 400;
    p->run->eval_epsilon = 0.0f;
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
static void set_bursts(const preset *p)
{
    gpur_fast_dqn_config *const config = p->config;
    gpur_dqn_config *const learner = p->learner;
    config->num_envs = 1;
    config->concurrent = config->synchronized = 0;
    config->burst = 1;
    p->replay->n_step = 1;
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
static void set_control(const preset *p)
{
    const gpur_layer layer = {.kind = GPUR_DENSE, .units = 512, .activation = GPUR_TANH};
    gpur_network_config *const network = &p->learner->network;
    network->trunk[0] = network->trunk[1] = layer;
    network->trunk_count = 2;
    network->head = GPUR_HEAD_Q;
    network->hidden = 0;
    network->init = GPUR_INIT_GLOROT;
    network->input_scale = gpur_obs_input_scale(&p->info.obs);
    p->replay->capacity = 500000;
    p->replay->reward_clip = 0.0f;
    p->learner->optimizer = authors_adam(1e-4f, 1e-8f, 0.0f);
    p->learner->exploration = exploration_2019(300000);
    p->learner->returns.estimator = GPUR_ESTIMATOR_N_STEP;
    p->learner->returns.n_step = 5;
}

/* DQN(lambda) of Daley & Amato 2019, by its code where the paper is silent. */
static gpur_status set_dqn_lambda(const preset *p, const gpur_obs_kind *kind)
{
    if (kind->dims != 1)
        GPUR_TRY(gpur_preset_check_frames(p->name, p->env_name, &p->info, kind));
    GPUR_TRY(gpur_replay_config_preset(p->replay, "nature-dqn"));
    GPUR_TRY(gpur_dqn_config_preset(p->learner, "nature-dqn"));
    set_bursts(p);
    p->run->eval_period = 0;
    p->learner->optimizer = authors_adam(1e-4f, 1e-4f, 40.0f);
    p->learner->exploration = exploration_2019(1000000);
    p->learner->returns.draw = GPUR_CACHE_REPLACEMENT;
    p->learner->returns.truncation_terminates = 1;
    if (kind->dims == 1)
        set_control(p);
    return GPUR_OK;
}

/* The virtual replay cache of Daley & Amato 2021b, by its code where the paper is silent. */
static gpur_status set_vrc(const preset *p, const gpur_obs_kind *kind)
{
    GPUR_TRY(gpur_preset_check_frames(p->name, p->env_name, &p->info, kind));
    GPUR_TRY(gpur_replay_config_preset(p->replay, "nature-dqn"));
    GPUR_TRY(gpur_dqn_config_preset(p->learner, "nature-dqn"));
    set_bursts(p);
    p->run->eval_period = 0;
    p->learner->optimizer = authors_adam(5e-5f, 1e-8f, 0.0f);
    p->learner->exploration = exploration_2021(1000000, p->config->prepopulation);
    p->learner->returns.truncation_terminates = 1;
    return GPUR_OK;
}

/* The small relatives: sizes, network and learning rate are those of "fast-dqn-small", the rest is their system's. */
static gpur_status set_dqn_lambda_small(const preset *p, const gpur_obs_kind *kind)
{
    set_small(p, kind);
    set_bursts(p);
    p->learner->optimizer = authors_adam(2.5e-4f, 1e-4f, 40.0f);
    p->learner->exploration = exploration_2019(100000);
    p->learner->returns.draw = GPUR_CACHE_REPLACEMENT;
    return GPUR_OK;
}

static gpur_status set_vrc_small(const preset *p, const gpur_obs_kind *kind)
{
    set_small(p, kind);
    set_bursts(p);
    p->learner->optimizer = authors_adam(2.5e-4f, 1e-8f, 0.0f);
    p->learner->exploration = exploration_2021(100000, p->config->prepopulation);
    return GPUR_OK;
}

static const struct {
    const char *name;
    gpur_status (*set)(const preset *p, const gpur_obs_kind *kind);
    int has_cache;
} systems[] = {
    {"fast-dqn", set_fast_dqn, 0},
    {"fast-dqn-small", set_fast_dqn_small, 0},
    {"fast-dqn-small-vectors", set_fast_dqn_small_vectors, 0},
    {"dqn-lambda-2019", set_dqn_lambda, 1},
    {"dqn-lambda-2019-small", set_dqn_lambda_small, 1},
    {"vrc-2021", set_vrc, 1},
    {"vrc-2021-small", set_vrc_small, 1},
};
enum { SYSTEMS = sizeof systems / sizeof *systems };

static gpur_status find_system(const preset *p, int *system)
{
    for (*system = 0; *system < SYSTEMS; ++*system)
        if (strcmp(systems[*system].name, p->name) == 0)
            return GPUR_OK;
    return gpur_preset_refuse(p->name, GPUR_PRESET_FAST_DQN, GPUR_PRESET_FAST_DQN);
}

/* A program that was compiled before there were caches has no room for their settings and for the field `previous`. */
static gpur_status check_room(const preset *p)
{
    const uint64_t needed = offsetof(gpur_dqn_config, returns) + sizeof p->learner->returns;
    GPUR_TRY(gpur_sized_check(p->learner, "gpur_dqn_config"));
    GPUR_REQUIRE(p->learner->size >= needed,
                 "gpur_dqn_config.size is %" PRIu64 "; preset \"%s\" needs %" PRIu64
                 " bytes: a program that is compiled with this version's headers",
                 p->learner->size, p->name, needed);
    return GPUR_OK;
}

static gpur_status set_all(const preset *p, int system)
{
    GPUR_TRY(gpur_preset_check_env(p->name, p->env_name, &p->info));
    const gpur_obs_kind kind = gpur_obs_kind_of(&p->info.obs);
    GPUR_TRY(set_run(p));
    p->learner->returns.cache_size = 0;
    GPUR_TRY(systems[system].set(p, &kind));
    p->learner->network.num_actions = p->info.action.num_actions;
    p->learner->math = gpur_preset_math(p->name);
    set_replay(p, &kind);
    return GPUR_OK;
}

/* Sets copies of the configs, which have every member of this version, and writes them back if nothing was refused. */
static gpur_status set_copies(const preset *given, int system)
{
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_fast_dqn_config config;
    gpur_run_config run = *given->run;
    gpur_field fields[GPUR_FAST_DQN_FIELDS] = {{0}};
    preset copies = *given;
    GPUR_TRY(gpur_replay_config_init(&replay, sizeof replay));
    GPUR_TRY(gpur_dqn_config_init(&learner, sizeof learner));
    GPUR_TRY(gpur_fast_dqn_config_init(&config, sizeof config));
    GPUR_TRY(gpur_sized_read(&replay, sizeof replay, given->replay, "gpur_replay_config"));
    GPUR_TRY(gpur_sized_read(&learner, sizeof learner, given->learner, "gpur_dqn_config"));
    GPUR_TRY(gpur_sized_read(&config, sizeof config, given->config, "gpur_fast_dqn_config"));
    replay.size = sizeof replay, learner.size = sizeof learner, config.size = sizeof config;
    copies.replay = &replay, copies.learner = &learner, copies.run = &run, copies.config = &config,
    copies.fields = fields;
    GPUR_TRY(set_all(&copies, system));
    memcpy(given->fields, fields, (size_t)replay.field_count * sizeof *fields);
    replay.fields = given->fields;
    GPUR_TRY(gpur_sized_write(given->replay, &replay, sizeof replay, "gpur_replay_config"));
    GPUR_TRY(gpur_sized_write(given->learner, &learner, sizeof learner, "gpur_dqn_config"));
    GPUR_TRY(gpur_sized_write(given->config, &config, sizeof config, "gpur_fast_dqn_config"));
    *given->run = run;
    return GPUR_OK;
}

gpur_status gpur_fast_dqn_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_FAST_DQN_FIELDS],
                                 gpur_replay_config *replay, gpur_dqn_config *learner, gpur_fast_dqn_config *config)
{
    int system;
    gpur_run_config all;
    preset p = {.name = name, .fields = fields, .replay = replay, .learner = learner, .config = config, .run = &all};
    GPUR_REQUIRE(name && run && fields && replay && learner && config, "an argument is NULL; none may be");
    GPUR_TRY(find_system(&p, &system));
    if (systems[system].has_cache)
        GPUR_TRY(check_room(&p));
    GPUR_TRY(gpur_run_read_config(run, &all));
    GPUR_TRY(gpur_preset_ask_env(&all, &p.info, &p.env_name));
    GPUR_TRY(set_copies(&p, system));
    return gpur_sized_write(run, &all, sizeof all, "gpur_run_config");
}
