/* SPDX-License-Identifier: MIT */
/* The policies that actors act by: one of DQN, or the policy network and the critic of DPG. */
#include "run/apex/policies.h"

#include "learn/network_text.h"

static gpur_status open_critic(gpur_actor_policies *policies, gpur_device *device, const gpur_schema *schema,
                               const gpur_apex_networks *networks, const gpur_policy_config *settings)
{
    const gpur_field_info *const obs = &schema->fields[gpur_schema_find(schema, "obs")];
    const int64_t numbers = obs->bytes / (int64_t)sizeof(float);
    gpur_policy_config config = *settings;
    config.network = *networks->critic;
    config.obs = (gpur_field){.dtype = GPUR_FLOAT32, .shape = {(int32_t)numbers + networks->acting->num_actions}};
    return gpur_policy_create(device, &config, &policies->critic);
}

gpur_status gpur_actor_policies_open(gpur_actor_policies *policies, gpur_device *device, const gpur_schema *schema,
                                     const gpur_apex_networks *networks, int has_critic,
                                     const gpur_policy_config *settings)
{
    gpur_policy_config config = *settings;
    config.network = *networks->acting;
    config.obs = gpur_network_text_obs(schema);
    GPUR_TRY(gpur_policy_create(device, &config, &policies->acting));
    return networks->critic && has_critic ? open_critic(policies, device, schema, networks, settings) : GPUR_OK;
}

void gpur_actor_policies_close(gpur_actor_policies *policies)
{
    gpur_policy_destroy(policies->acting);
    gpur_policy_destroy(policies->critic);
    *policies = (gpur_actor_policies){NULL, NULL};
}

gpur_status gpur_actor_policies_pull(const gpur_actor_policies *policies, gpur_learner *learner)
{
    if (policies->critic)
        GPUR_TRY(gpur_policy_pull(policies->critic, learner, GPUR_WEIGHTS_ONLINE));
    return gpur_policy_pull(policies->acting, learner, GPUR_WEIGHTS_ONLINE);
}

int64_t gpur_actor_policies_bytes(const gpur_actor_policies *policies)
{
    return gpur_policy_weights_bytes(policies->acting) + gpur_policy_weights_bytes(policies->critic);
}

gpur_status gpur_actor_policies_get_weights(const gpur_actor_policies *policies, unsigned char *weights)
{
    const int64_t acting = gpur_policy_weights_bytes(policies->acting);
    const int64_t critic = gpur_policy_weights_bytes(policies->critic);
    GPUR_TRY(gpur_policy_get_weights(policies->acting, weights, acting));
    return critic > 0 ? gpur_policy_get_weights(policies->critic, weights + acting, critic) : GPUR_OK;
}

gpur_status gpur_actor_policies_set_weights(const gpur_actor_policies *policies, const unsigned char *weights)
{
    const int64_t acting = gpur_policy_weights_bytes(policies->acting);
    const int64_t critic = gpur_policy_weights_bytes(policies->critic);
    if (critic > 0)
        GPUR_TRY(gpur_policy_set_weights(policies->critic, weights + acting, critic));
    return gpur_policy_set_weights(policies->acting, weights, acting);
}
