/* SPDX-License-Identifier: MIT */
/* The settings of whole systems of continuous actions: replay, learner and run, for an environment. */
#include "gpureplay/fast_dqn.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "run/action_vectors.h"
#include "run/presets.h"

#include <string.h>

/* Copies of the caller's configs, which have every member of this version. */
typedef struct preset {
    gpur_preset base;
    gpur_field fields[GPUR_FAST_DQN_FIELDS];
    gpur_replay_config replay;
    gpur_dpg_config dpg;
    gpur_sac_config sac;
    gpur_fast_dqn_config config;
} preset;

/* One environment, and a train step for each of its steps. Evaluations are those of Fujimoto et al. 2018, section 6.1:
 * 10 games every 5,000 steps. */
static gpur_status set_run(preset *p)
{
    const int32_t threads = p->config.threads;
    gpur_fast_dqn_config *const config = &p->config;
    GPUR_TRY(gpur_fast_dqn_config_init(config, sizeof *config));
    config->threads = threads;
    config->num_envs = 1;
    config->concurrent = 0;
    config->synchronized = p->base.run.vector != NULL;
    config->target_period = 1000;
    config->train_period = 1;
    p->base.run.eval_period = 5000;
    p->base.run.eval_episodes = 10;
    p->base.run.eval_epsilon = 0.0f;
    return GPUR_OK;
}

static void set_replay(preset *p, int64_t capacity, int64_t prepopulation)
{
    p->config.prepopulation = prepopulation;
    p->replay.capacity = capacity;
    p->replay.min_size = prepopulation;
    p->replay.gamma = 0.99f;
    p->replay.n_step = 1;
    p->replay.prioritized = 0;
    p->replay.reward_clip = 0.0f;
}

static void set_network(gpur_network_config *network, gpur_optimizer_config *optimizer, float learning_rate)
{
    const gpur_layer layer = {.kind = GPUR_DENSE, .activation = GPUR_RELU};
    network->trunk[0] = network->trunk[1] = layer;
    network->trunk[0].units = 400;
    network->trunk[1].units = 300;
    network->trunk_count = 2;
    network->init = GPUR_INIT_FAN_IN;
    optimizer->learning_rate = (gpur_schedule){.first = learning_rate, .last = learning_rate};
}

/* Lillicrap et al. 2016, supplementary section 7. */
static void set_ddpg(preset *p)
{
    p->dpg.action_gradient_clip = 0.0f;
    p->dpg.target_period = 1;
    set_replay(p, 1000000, 1000);
    set_network(&p->dpg.actor, &p->dpg.actor_optimizer, 1e-4f);
    set_network(&p->dpg.critic, &p->dpg.critic_optimizer, 1e-3f);
    p->dpg.batch_size = 64;
    p->dpg.target_rate = 0.001f;
    p->config.sigma = 0.2f;
}

/* The defaults of Stable-Baselines3, with the noise and the size of the buffer that its zoo has for Pendulum. */
static void set_ddpg_small(preset *p)
{
    p->dpg.action_gradient_clip = 0.0f;
    p->dpg.target_period = 1;
    set_replay(p, 200000, 100);
    set_network(&p->dpg.actor, &p->dpg.actor_optimizer, 1e-3f);
    set_network(&p->dpg.critic, &p->dpg.critic_optimizer, 1e-3f);
    p->dpg.batch_size = 256;
    p->dpg.target_rate = 0.005f;
    p->config.sigma = 0.1f;
}

/* Fujimoto et al. 2018, section 6.1 and appendix C: the settings of gpur_td3_config_init. */
static void set_td3(preset *p)
{
    set_replay(p, 1000000, 1000);
    p->config.sigma = 0.1f;
}

static void set_td3_small(preset *p)
{
    set_replay(p, 200000, 100);
    p->dpg.batch_size = 256;
    p->config.sigma = 0.1f;
}

/* What is of the caller's program stays. */
static gpur_status begin_dpg(gpur_status (*init)(gpur_dpg_config *, uint64_t), gpur_dpg_config *dpg)
{
    gpur_dpg_config first;
    GPUR_TRY(init(&first, sizeof first));
    first.seed = dpg->seed;
    first.demonstrations = dpg->demonstrations;
    first.demonstration_ratio = dpg->demonstration_ratio;
    *dpg = first;
    return GPUR_OK;
}

/* Sets the schema, and the vectors of the network that acts. Refuses other environments. */
static gpur_status use_env(preset *p, gpur_network_config *actor)
{
    const gpur_env_info *const info = &p->base.info;
    GPUR_REQUIRE(info->obs.dtype == GPUR_FLOAT32, "%s: the dtype of its observations is %d; it must be GPUR_FLOAT32",
                 p->base.env_name, (int)info->obs.dtype);
    actor->num_actions = (int32_t)gpur_min(gpur_space_numbers(&info->action), INT32_MAX);
    GPUR_TRY(gpur_prefix_error(gpur_action_check(&info->action, actor), "%s", p->base.env_name));
    p->base.is_frame = 0; /* a table of numbers is no image */
    gpur_preset_set_layout(&p->base, p->fields, &p->replay);
    p->fields[1] = (gpur_field){"action", GPUR_FLOAT32, {actor->num_actions}};
    return GPUR_OK;
}

static const struct {
    const char *name;
    gpur_status (*init)(gpur_dpg_config *config, uint64_t size);
    void (*set)(preset *p);
} systems[] = {
    {"ddpg", gpur_dpg_config_init, set_ddpg},
    {"ddpg-small", gpur_dpg_config_init, set_ddpg_small},
    {"td3", gpur_td3_config_init, set_td3},
    {"td3-small", gpur_td3_config_init, set_td3_small},
};

static gpur_status set_dpg(preset *p)
{
    size_t i = 0;
    while (i < sizeof systems / sizeof *systems && strcmp(systems[i].name, p->base.name) != 0)
        i++;
    if (i == sizeof systems / sizeof *systems)
        return gpur_preset_refuse(p->base.name, 1 << GPUR_PRESET_DPG);
    GPUR_TRY(set_run(p));
    GPUR_TRY(begin_dpg(systems[i].init, &p->dpg));
    systems[i].set(p);
    p->dpg.math = gpur_preset_math(&p->base);
    return use_env(p, &p->dpg.actor);
}

/* The learner's defaults are those of Haarnoja et al. 2018b, table 1. */
static gpur_status set_sac(preset *p)
{
    const int is_small = strcmp(p->base.name, "sac-small") == 0;
    gpur_sac_config first;
    if (!is_small && strcmp(p->base.name, "sac") != 0)
        return gpur_preset_refuse(p->base.name, 1 << GPUR_PRESET_SAC);
    GPUR_TRY(set_run(p));
    GPUR_TRY(gpur_sac_config_init(&first, sizeof first));
    first.seed = p->sac.seed;
    first.demonstrations = p->sac.demonstrations;
    first.demonstration_ratio = p->sac.demonstration_ratio;
    p->sac = first;
    set_replay(p, is_small ? 200000 : 1000000, is_small ? 100 : 1000);
    if (is_small)
        p->sac.actor_optimizer.learning_rate = p->sac.critic_optimizer.learning_rate =
            p->sac.temperature_optimizer.learning_rate = (gpur_schedule){.first = 1e-3f, .last = 1e-3f};
    p->sac.math = gpur_preset_math(&p->base);
    return use_env(p, &p->sac.actor);
}

static gpur_status init_configs(preset *p)
{
    GPUR_TRY(gpur_replay_config_init(&p->replay, sizeof p->replay));
    GPUR_TRY(gpur_dpg_config_init(&p->dpg, sizeof p->dpg));
    GPUR_TRY(gpur_sac_config_init(&p->sac, sizeof p->sac));
    return gpur_fast_dqn_config_init(&p->config, sizeof p->config);
}

static gpur_status open_info(preset *p, const char *name, const char *env_name, const gpur_env_info *info)
{
    gpur_preset_use_info(&p->base, name, env_name, info);
    return init_configs(p);
}

gpur_status gpur_dpg_set_learner(const char *name, const char *env_name, const gpur_env_info *info,
                                 gpur_dpg_config *learner)
{
    preset p = {.fields = {{0}}};
    GPUR_TRY(open_info(&p, name, env_name, info));
    GPUR_TRY(set_dpg(&p));
    *learner = p.dpg;
    return GPUR_OK;
}

gpur_status gpur_sac_set_learner(const char *name, const char *env_name, const gpur_env_info *info,
                                 gpur_sac_config *learner)
{
    preset p = {.fields = {{0}}};
    GPUR_TRY(open_info(&p, name, env_name, info));
    GPUR_TRY(set_sac(&p));
    *learner = p.sac;
    return GPUR_OK;
}

static gpur_status open_preset(preset *p, const char *name, const gpur_run_config *run,
                               const gpur_replay_config *replay, const gpur_fast_dqn_config *config)
{
    GPUR_TRY(init_configs(p));
    GPUR_TRY(gpur_sized_read(&p->replay, sizeof p->replay, replay, "gpur_replay_config"));
    GPUR_TRY(gpur_sized_read(&p->config, sizeof p->config, config, "gpur_fast_dqn_config"));
    return gpur_preset_open(&p->base, name, run);
}

static gpur_status write_preset(preset *p, gpur_run_config *run, gpur_field *fields, gpur_replay_config *replay,
                                gpur_fast_dqn_config *config)
{
    memcpy(fields, p->fields, (size_t)p->replay.field_count * sizeof *fields);
    p->replay.fields = fields;
    GPUR_TRY(gpur_sized_write(replay, &p->replay, sizeof p->replay, "gpur_replay_config"));
    GPUR_TRY(gpur_sized_write(config, &p->config, sizeof p->config, "gpur_fast_dqn_config"));
    return gpur_sized_write(run, &p->base.run, sizeof p->base.run, "gpur_run_config");
}

gpur_status gpur_dpg_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_FAST_DQN_FIELDS],
                            gpur_replay_config *replay, gpur_dpg_config *dpg, gpur_fast_dqn_config *config)
{
    preset p = {.fields = {{0}}};
    GPUR_REQUIRE(name && run && fields && replay && dpg && config, "an argument is NULL; none may be");
    GPUR_TRY(open_preset(&p, name, run, replay, config));
    GPUR_TRY(gpur_sized_read(&p.dpg, sizeof p.dpg, dpg, "gpur_dpg_config"));
    GPUR_TRY(set_dpg(&p));
    GPUR_TRY(gpur_sized_write(dpg, &p.dpg, sizeof p.dpg, "gpur_dpg_config"));
    return write_preset(&p, run, fields, replay, config);
}

gpur_status gpur_sac_preset(const char *name, gpur_run_config *run, gpur_field fields[GPUR_FAST_DQN_FIELDS],
                            gpur_replay_config *replay, gpur_sac_config *sac, gpur_fast_dqn_config *config)
{
    preset p = {.fields = {{0}}};
    GPUR_REQUIRE(name && run && fields && replay && sac && config, "an argument is NULL; none may be");
    GPUR_TRY(open_preset(&p, name, run, replay, config));
    GPUR_TRY(gpur_sized_read(&p.sac, sizeof p.sac, sac, "gpur_sac_config"));
    GPUR_TRY(set_sac(&p));
    GPUR_TRY(gpur_sized_write(sac, &p.sac, sizeof p.sac, "gpur_sac_config"));
    return write_preset(&p, run, fields, replay, config);
}
