/* SPDX-License-Identifier: MIT */
/* The settings of whole systems: an actor-critic and its run, for an environment. */
#include "gpureplay/ga3c.h"

#include "base/sized.h"
#include "run/presets.h"

#include <string.h>

/* A preset by its name. stride 0: this library's small network, and constants of its own; else the network of
 * Babaeizadeh et al. 2017 with this stride in the first layer. */
typedef struct system_entry {
    const char *name;
    int32_t system, stride, is_large;
} system_entry;

static const system_entry systems[] = {
    {"ga3c", GPUR_GA3C, 4, 0},         {"ga3c-large-4", GPUR_GA3C, 4, 1}, {"ga3c-large-3", GPUR_GA3C, 3, 1},
    {"ga3c-large-2", GPUR_GA3C, 2, 1}, {"ga3c-large-1", GPUR_GA3C, 1, 1}, {"a3c-cpu", GPUR_A3C, 4, 0},
    {"a2c", GPUR_A2C, 4, 0},           {"ga3c-small", GPUR_GA3C, 0, 0},   {"a3c-small", GPUR_A3C, 0, 0},
    {"a2c-small", GPUR_A2C, 0, 0},
};

/* The network of section 3.2 and, with footnote 2, of Table 2, padded, scaled and initialized as in the authors' code.
 */
static void set_network(gpur_network_config *network, int32_t stride, int is_large)
{
    const gpur_layer first = {.kind = GPUR_CONV,
                              .units = is_large ? 32 : 16,
                              .activation = GPUR_RELU,
                              .kernel = 8,
                              .stride = stride,
                              .padding = GPUR_SAME};
    const gpur_layer second = {
        .kind = GPUR_CONV, .units = 32, .activation = GPUR_RELU, .kernel = 4, .stride = 2, .padding = GPUR_SAME};
    gpur_layer third = second;
    third.units = 64;
    network->trunk[0] = first, network->trunk[1] = second;
    network->trunk_count = 2;
    if (is_large)
        network->trunk[network->trunk_count++] = third;
    network->trunk[network->trunk_count++] = (gpur_layer){.kind = GPUR_DENSE, .units = 256, .activation = GPUR_RELU};
    network->hidden = 0;
    network->init = GPUR_INIT_FAN_IN;
    network->input_scale = 1.0f / 128.0f, network->input_shift = -1.0f;
    network->input_layout = GPUR_CHW;
}

/* RMSProp with the smaller epsilon of today's A2C, and a rate that was found for each system's batches: one rollout of
 * A3C, eight of GA3C, those of all agents of A2C. A3C's has 40 steps, and its gradients are clipped to a norm of 0.5:
 * with rollouts of 5 steps it does not learn CartPole, whose values then overshoot their bound of 100. */
static void set_small(const system_entry *entry, const gpur_preset *p, gpur_actor_critic_config *learner)
{
    const int is_a3c = entry->system == GPUR_A3C;
    const float rate = is_a3c ? 7e-4f : entry->system == GPUR_A2C ? 2e-3f : 1e-3f;
    gpur_preset_set_small_network(p, &learner->network);
    learner->optimizer.kind = GPUR_RMSPROP_TORCH;
    learner->optimizer.learning_rate = (gpur_schedule){.first = rate, .last = rate};
    learner->optimizer.epsilon = 1e-5f;
    learner->optimizer.clip_norm = is_a3c ? 0.5f : 40.0f;
}

static gpur_status set_learner(const system_entry *entry, const gpur_preset *p, gpur_actor_critic_config *learner)
{
    gpur_actor_critic_config paper;
    GPUR_TRY(gpur_preset_check_env(p));
    GPUR_TRY(gpur_actor_critic_config_init(&paper, sizeof paper));
    paper.max_batch = learner->max_batch;
    paper.math = gpur_preset_math(p);
    paper.seed = learner->seed;
    if (entry->stride > 0) {
        GPUR_TRY(gpur_preset_check_frames(p));
        set_network(&paper.network, entry->stride, entry->is_large);
        if (entry->system == GPUR_A3C) /* section 4.4; the norm is that of the authors' code where it clips */
            paper.optimizer.clip_norm = 40.0f;
    } else {
        set_small(entry, p, &paper);
    }
    paper.network.head = GPUR_HEAD_SOFTMAX_VALUE;
    paper.network.num_actions = p->info.action.num_actions;
    paper.obs = gpur_preset_obs_field(p, "obs");
    *learner = paper;
    return GPUR_OK;
}

/* The defaults of a run are the constants of the authors' code. */
static gpur_status set_config(const system_entry *entry, gpur_ga3c_config *run)
{
    gpur_ga3c_config paper;
    GPUR_TRY(gpur_ga3c_config_init(&paper, sizeof paper));
    paper.agents = run->agents;
    paper.predictors = run->predictors, paper.trainers = run->trainers;
    paper.tuner = run->tuner, paper.tuner_period = run->tuner_period, paper.tuner_settling = run->tuner_settling;
    paper.max_agents = run->max_agents;
    paper.system = entry->system;
    if (entry->stride == 0) { /* environments are quick: without these two the policy lag is 70 updates */
        paper.min_train_batch = 40;
        paper.queue_room = 16;
        paper.t_max = entry->system == GPUR_A3C ? 40 : paper.t_max;
    }
    *run = paper;
    return GPUR_OK;
}

static const system_entry *find(const char *name)
{
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++)
        if (strcmp(systems[i].name, name) == 0)
            return &systems[i];
    return NULL;
}

gpur_status gpur_ga3c_preset(const char *name, gpur_run_config *run, gpur_actor_critic_config *learner,
                             gpur_ga3c_config *config)
{
    gpur_preset p;
    gpur_actor_critic_config known_learner;
    gpur_ga3c_config known_config;
    GPUR_REQUIRE(name && run && learner && config, "an argument is NULL; none may be");
    const system_entry *const entry = find(name);
    if (!entry)
        return gpur_preset_refuse(name, 1 << GPUR_PRESET_GA3C | 1 << GPUR_PRESET_A3C);
    GPUR_TRY(gpur_preset_open(&p, name, run));
    GPUR_TRY(gpur_actor_critic_config_init(&known_learner, sizeof known_learner));
    GPUR_TRY(gpur_ga3c_config_init(&known_config, sizeof known_config));
    GPUR_TRY(gpur_sized_read(&known_learner, sizeof known_learner, learner, "gpur_actor_critic_config"));
    GPUR_TRY(gpur_sized_read(&known_config, sizeof known_config, config, "gpur_ga3c_config"));
    GPUR_TRY(set_learner(entry, &p, &known_learner));
    GPUR_TRY(set_config(entry, &known_config));
    p.run.eval_period = 0, p.run.eval_episodes = 30;
    GPUR_TRY(gpur_sized_write(learner, &known_learner, sizeof known_learner, "gpur_actor_critic_config"));
    GPUR_TRY(gpur_sized_write(run, &p.run, sizeof p.run, "gpur_run_config"));
    return gpur_sized_write(config, &known_config, sizeof known_config, "gpur_ga3c_config");
}
