/* SPDX-License-Identifier: MIT */
/* The learner of a run, of DQN or of DPG, behind one set of functions. */
#include "apex/learner.h"

#include "learn/dpg/dpg.h"
#include "replay/view.h"

gpur_apex_learner gpur_apex_learner_of_dqn(gpur_learner *dqn)
{
    return (gpur_apex_learner){.dqn = dqn,
                               .device = dqn->device,
                               .replay = dqn->replay,
                               .stream = dqn->stream,
                               .batch_size = dqn->config.batch_size,
                               .target_period = dqn->config.target_period,
                               .networks = {&dqn->config.network, NULL}};
}

gpur_apex_learner gpur_apex_learner_of_dpg(gpur_dpg *dpg)
{
    return (gpur_apex_learner){.dpg = dpg,
                               .device = dpg->device,
                               .replay = dpg->replay,
                               .stream = dpg->stream,
                               .batch_size = dpg->config.batch_size,
                               .target_period = dpg->config.target_period,
                               .networks = {&dpg->config.actor, &dpg->config.critic}};
}

gpur_status gpur_apex_learner_open_policies(const gpur_apex_learner *l, int has_critic, gpur_actor_policies *policies)
{
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.max_batch = 1;
    config.math = l->dpg ? l->dpg->config.math : l->dqn->config.math;
    config.deterministic = l->dpg ? l->dpg->config.deterministic : l->dqn->config.deterministic;
    return gpur_actor_policies_open(policies, l->device, gpur_replay_schema(l->replay), &l->networks, has_critic,
                                    &config);
}

gpur_status gpur_apex_learner_check(const gpur_apex_learner *l)
{
    return l->dpg ? gpur_dpg_check_weights(l->dpg) : gpur_learner_check_weights(l->dqn);
}

gpur_status gpur_apex_learner_give_weights(const gpur_apex_learner *l, const gpur_actor_policies *policies)
{
    if (l->dqn)
        return gpur_policy_pull(policies->acting, l->dqn, GPUR_WEIGHTS_ONLINE);
    if (policies->critic)
        GPUR_TRY(gpur_dpg_publish(l->dpg, policies->critic));
    return gpur_dpg_publish(l->dpg, policies->acting);
}

gpur_status gpur_apex_learner_train(const gpur_apex_learner *l, int64_t steps)
{
    GPUR_TRY(l->dpg ? gpur_dpg_train(l->dpg, steps) : gpur_learner_train(l->dqn, steps));
    return l->dpg ? gpur_dpg_sync(l->dpg) : gpur_learner_sync(l->dqn);
}

int64_t gpur_apex_learner_steps(const gpur_apex_learner *l)
{
    return gpur_train_stats_steps_enqueued(l->dpg ? &l->dpg->critic_stats : &l->dqn->train_stats);
}

gpur_status gpur_apex_learner_save(const gpur_apex_learner *l, const char *path)
{
    return l->dpg ? gpur_dpg_save(l->dpg, path, NULL) : gpur_learner_save(l->dqn, path, NULL);
}

gpur_status gpur_apex_learner_load(const gpur_apex_learner *l, const char *path)
{
    return l->dpg ? gpur_dpg_load(l->dpg, path, NULL) : gpur_learner_load(l->dqn, path, NULL);
}
