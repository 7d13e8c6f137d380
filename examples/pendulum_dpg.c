/* SPDX-License-Identifier: MIT */
/*
 * Continuous actions: deterministic policy gradients [Lillicrap et al. 2016] in the library's Pendulum, on transitions
 * of five steps. A policy acts with noise, and pulls its weights from the learner. At the end it is saved, and a policy
 * that is made of the file alone plays a game in each environment. Random games return -1200, the best about -150.
 */
#include "must.h"

#include <gpureplay.h>
#include <gpureplay/env.h>

enum { ENVS = 4, OBS = 3, STEPS = 3000, RANDOM_STEPS = 200, GAME = 200 };

/* The environments and their last step. */
typedef struct pendulums {
    const gpur_env_type *type;
    gpur_env_info info;
    void *env[ENVS];
    float obs[ENVS][OBS], action[ENVS], reward[ENVS];
    uint8_t terminated[ENVS], truncated[ENVS];
} pendulums;

static void open_envs(pendulums *p)
{
    must(gpur_env_find("Pendulum", &p->type));
    p->info.size = sizeof p->info;
    for (int i = 0; i < ENVS; i++) {
        check_env(p->type->init("", (uint64_t)i, &p->info, &p->env[i]));
        check_env(p->type->reset(p->env[i], p->obs[i]));
    }
}

/* Acts in all environments with noise of this deviation, and steps them. Returns the mean reward. */
static float step(pendulums *p, gpur_policy *policy, float sigma)
{
    const float sigmas[ENVS] = {sigma, sigma, sigma, sigma};
    const gpur_policy_input input = {.size = sizeof input, .count = ENVS, .obs = p->obs, .sigma = sigmas};
    const gpur_policy_output output = {.size = sizeof output, .action_vectors = p->action};
    float sum = 0;
    must(gpur_policy_act(policy, &input, &output));
    for (int i = 0; i < ENVS; i++) {
        const float force = p->action[i] * p->info.action.high; /* the policy's actions are -1 to 1 */
        gpur_env_result result;
        check_env(p->type->step(p->env[i], &force, p->obs[i], &result));
        p->terminated[i] = result.terminated, p->truncated[i] = result.truncated;
        p->reward[i] = 0.1f * result.reward; /* values of some tens are learned sooner than those of hundreds */
        sum += result.reward;
    }
    return sum / ENVS;
}

static void set_network(gpur_network_config *network, gpur_optimizer_config *optimizer)
{
    network->trunk[0] = network->trunk[1] = (gpur_layer){.kind = GPUR_DENSE, .units = 64, .activation = GPUR_RELU};
    optimizer->learning_rate.first = 1e-3f;
}

static gpur_learner *make_learner(gpur_device *device, gpur_replay **replay, gpur_policy **policy)
{
    const gpur_field fields[] = {
        {"obs", GPUR_FLOAT32, {OBS}},      {"action", GPUR_FLOAT32, {1}},  {"reward", GPUR_FLOAT32, {0}},
        {"next_obs", GPUR_FLOAT32, {OBS}}, {"terminated", GPUR_BOOL, {0}}, {"discount", GPUR_FLOAT32, {0}},
    };
    gpur_replay_config memory;
    gpur_dpg_config config;
    gpur_policy_config acting;
    gpur_learner *learner;
    must(gpur_replay_config_init(&memory, sizeof memory));
    memory.capacity = 50000, memory.fields = fields, memory.field_count = 6, memory.min_size = ENVS * RANDOM_STEPS;
    memory.n_step = 5, memory.gamma = 0.97f;
    must(gpur_replay_create(device, &memory, replay));
    must(gpur_dpg_config_init(&config, sizeof config));
    set_network(&config.actor, &config.actor_optimizer);
    set_network(&config.critic, &config.critic_optimizer);
    config.actor.num_actions = 1, config.batch_size = 64, config.target_period = 20;
    config.actor.init = GPUR_INIT_NORMAL, config.actor.init_scale = 0.03f; /* its first actions are small, and not at */
    config.preactivation_penalty = 1e-4f;                                  /* their bounds, where they would stay */
    must(gpur_dpg_create(*replay, &config, &learner));
    must(gpur_policy_config_init(&acting, sizeof acting));
    acting.network = config.actor, acting.obs = fields[0];
    must(gpur_policy_create(device, &acting, policy));
    return learner;
}

int main(int argc, char **argv)
{
    const char *const path = argc > 2 ? argv[2] : "pendulum.safetensors";
    static pendulums p;
    gpur_device *device;
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_policy *policy;
    float mean_return = 0;
    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    gpur_learner *const learner = make_learner(device, &replay, &policy);
    must(gpur_writer_create(replay, ENVS, &writer));
    open_envs(&p);
    must(gpur_writer_reset(writer, -1, p.obs));
    for (int t = 0; t < STEPS; t++) {
        step(&p, policy, t < RANDOM_STEPS ? 2.0f : 0.4f);
        must(gpur_writer_step(writer, p.action, p.reward, p.obs, p.terminated, p.truncated));
        for (int i = 0; i < ENVS; i++) {
            if (!p.terminated[i] && !p.truncated[i])
                continue;
            check_env(p.type->reset(p.env[i], p.obs[i]));
            must(gpur_writer_reset(writer, i, p.obs[i]));
        }
        if (gpur_replay_can_sample(replay)) {
            must(gpur_learner_train(learner, 1));
            must(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
        }
    }
    must(gpur_policy_save(policy, path, NULL));
    gpur_policy_destroy(policy);
    must(gpur_policy_open(device, path, NULL, &policy));
    for (int i = 0; i < ENVS; i++)
        check_env(p.type->reset(p.env[i], p.obs[i]));
    for (int t = 0; t < GAME; t++)
        mean_return += step(&p, policy, 0);
    printf("the policy of %s returns %.0f\n", path, (double)mean_return);
    for (int i = 0; i < ENVS; i++)
        p.type->close(p.env[i]);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
    gpur_writer_destroy(writer);
    gpur_replay_destroy(replay);
    gpur_device_close(device);
    return mean_return > -400 ? 0 : 1;
}
