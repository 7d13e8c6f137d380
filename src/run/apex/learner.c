/* SPDX-License-Identifier: MIT */
/* The learner of a run, of DQN or of DPG, behind one set of functions. */
#include "run/apex/learner.h"

#include "learn/learner.h"

gpur_apex_learner gpur_apex_learner_of(gpur_learner *learner)
{
    const gpur_trained *const networks = learner->networks;
    return (gpur_apex_learner){.learner = learner,
                               .device = learner->device,
                               .replay = learner->replay,
                               .stream = learner->stream,
                               .batch_size = learner->step->config.batch_size,
                               .target_period = learner->step->config.target_period,
                               .networks = {sizeof(gpur_apex_networks), networks[0].config,
                                            learner->network_count > 1 ? networks[1].config : NULL}};
}

gpur_status gpur_apex_learner_open_policies(const gpur_apex_learner *l, int has_critic, gpur_actor_policies *policies)
{
    gpur_policy_config config;
    GPUR_TRY(gpur_policy_config_init(&config, sizeof config));
    config.max_batch = 1;
    config.math = l->learner->math;
    config.deterministic = l->learner->deterministic;
    return gpur_actor_policies_open(policies, l->device, gpur_replay_schema(l->replay), &l->networks, has_critic,
                                    &config);
}

gpur_status gpur_apex_learner_check(const gpur_apex_learner *l)
{
    return gpur_learner_check_weights(l->learner, NULL);
}

gpur_status gpur_apex_learner_give_weights(const gpur_apex_learner *l, const gpur_actor_policies *policies)
{
    if (policies->critic)
        GPUR_TRY(gpur_policy_pull(policies->critic, l->learner, GPUR_WEIGHTS_ONLINE));
    return gpur_policy_pull(policies->acting, l->learner, GPUR_WEIGHTS_ONLINE);
}

gpur_status gpur_apex_learner_train(const gpur_apex_learner *l, int64_t steps)
{
    GPUR_TRY(gpur_learner_train(l->learner, steps));
    return gpur_learner_sync(l->learner);
}

int64_t gpur_apex_learner_steps(const gpur_apex_learner *l)
{
    return gpur_learner_steps_enqueued(l->learner);
}

gpur_status gpur_apex_learner_save(const gpur_apex_learner *l, const char *path)
{
    return gpur_learner_save(l->learner, path, NULL);
}

gpur_status gpur_apex_learner_load(const gpur_apex_learner *l, const char *path)
{
    return gpur_learner_load(l->learner, path, NULL);
}
