/* SPDX-License-Identifier: MIT */
/*
 * A2C [Mnih et al. 2016] in the library's CartPole: eight environments step together by a policy, and after every eight
 * steps an actor-critic trains on their rollouts. A random player's return is 22, the best is 500.
 */
#include "must.h"

#include <gpureplay.h>
#include <gpureplay/env.h>

#include <string.h>

enum { ENVS = 8, T = 8, UPDATES = 6000, OBS = 4, RECENT = 50 };
static const float GAMMA = 0.99f;

/* A rollout of T steps of each environment. */
typedef struct rollout {
    float obs[T][ENVS][OBS], reward[T][ENVS], returns[T][ENVS];
    float after[T][ENVS]; /* value of the last observation of an episode that was truncated; 0 where it terminated */
    uint8_t ended[T][ENVS];
    int32_t action[T][ENVS];
} rollout;

/* The environments and their games. */
typedef struct player {
    const gpur_env_type *type;
    gpur_env_info info;
    void *env[ENVS];
    float obs[ENVS][OBS];     /* now */
    float gain[ENVS], recent; /* the rewards of each game so far; a moving average over the games */
} player;

static void open_envs(player *p)
{
    must(gpur_env_find("CartPole-v1", &p->type));
    p->info.size = sizeof p->info;
    for (int i = 0; i < ENVS; i++) {
        check_env(p->type->init("", (uint64_t)i, &p->info, &p->env[i]));
        check_env(p->type->reset(p->env[i], p->obs[i]));
    }
}

/* The values of observations, and an action for each. */
static void act(gpur_policy *policy, int count, const float *obs, int32_t *actions, float *values)
{
    const gpur_policy_input input = {.size = sizeof input, .count = count, .obs = obs};
    const gpur_policy_output output = {.size = sizeof output, .actions = actions, .values = values};
    must(gpur_policy_act(policy, &input, &output));
}

static void step(player *p, gpur_policy *policy, rollout *r, int t, int i)
{
    gpur_env_result result;
    check_env(p->type->step(p->env[i], &r->action[t][i], p->obs[i], &result));
    r->reward[t][i] = result.reward, r->after[t][i] = 0;
    r->ended[t][i] = result.terminated || result.truncated;
    p->gain[i] += result.reward;
    if (!r->ended[t][i])
        return;
    if (!result.terminated) /* a truncated game would have gone on */
        act(policy, 1, p->obs[i], NULL, &r->after[t][i]);
    p->recent += (p->gain[i] - p->recent) / RECENT;
    p->gain[i] = 0;
    check_env(p->type->reset(p->env[i], p->obs[i]));
}

/* Plays a rollout, and computes the return of each step, backward from the value after the last one. */
static void play(player *p, gpur_policy *policy, rollout *r)
{
    float next[ENVS];
    for (int t = 0; t < T; t++) {
        memcpy(r->obs[t], p->obs, sizeof p->obs);
        act(policy, ENVS, r->obs[t][0], r->action[t], NULL);
        for (int i = 0; i < ENVS; i++)
            step(p, policy, r, t, i);
    }
    act(policy, ENVS, p->obs[0], NULL, next);
    for (int t = T - 1; t >= 0; t--)
        for (int i = 0; i < ENVS; i++)
            next[i] = r->returns[t][i] = r->reward[t][i] + GAMMA * (r->ended[t][i] ? r->after[t][i] : next[i]);
}

int main(int argc, char **argv)
{
    static player p;
    static rollout r;
    gpur_device *device;
    gpur_learner *learner;
    gpur_policy *policy;
    gpur_actor_critic_config config;
    gpur_policy_config acting;
    const gpur_actor_critic_batch batch = {
        .size = sizeof batch, .count = T * ENVS, .obs = r.obs, .actions = r.action[0], .returns = r.returns[0]};

    must(gpur_device_open(argc > 1 ? argv[1] : "auto", NULL, &device));
    open_envs(&p);
    must(gpur_actor_critic_config_init(&config, sizeof config));
    config.network.num_actions = p.info.action.num_actions;
    config.obs = (gpur_field){"obs", GPUR_FLOAT32, {OBS}};
    config.optimizer.kind = GPUR_ADAM, config.optimizer.epsilon = 1e-5f;
    config.optimizer.learning_rate.first = 1e-3f;
    must(gpur_actor_critic_create(device, &config, &learner));
    must(gpur_policy_config_init(&acting, sizeof acting));
    acting.network = config.network, acting.obs = config.obs;
    must(gpur_policy_create(device, &acting, &policy));

    for (int update = 0; update < UPDATES; update++) {
        must(gpur_policy_pull(policy, learner, GPUR_WEIGHTS_ONLINE));
        play(&p, policy, &r);
        must(gpur_actor_critic_train(learner, &batch, NULL));
    }
    printf("return %.0f after %d steps\n", (double)p.recent, UPDATES * T * ENVS);
    for (int i = 0; i < ENVS; i++)
        p.type->close(p.env[i]);
    gpur_policy_destroy(policy);
    gpur_learner_destroy(learner);
    gpur_device_close(device);
    return p.recent > 150 ? 0 : 1;
}
