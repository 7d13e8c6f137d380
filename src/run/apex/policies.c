/* SPDX-License-Identifier: MIT */
/* The policies that actors act by: one of DQN, or the policy network and the critics of DPG and SAC. */
#include "run/apex/policies.h"

#include "file/checkpoint_file.h"
#include "learn/acting/policy.h"
#include "learn/network_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The metadata of a file of critics that has the bits of alpha, in hexadecimal digits. */
static const char alpha_key[] = "gpureplay.alpha";

static gpur_status open_critic(gpur_actor_policies *policies, gpur_device *device, const gpur_schema *schema,
                               const gpur_apex_networks *networks, const gpur_policy_config *settings)
{
    const gpur_field_info *const obs = &schema->fields[gpur_schema_find(schema, "obs")];
    const int64_t numbers = obs->bytes / (int64_t)sizeof(float);
    gpur_policy_config config = *settings;
    config.network = *networks->critic;
    config.obs = (gpur_field){.dtype = GPUR_FLOAT32, .shape = {(int32_t)numbers + networks->acting->num_actions}};
    policies->critics = networks->critics > 1 ? networks->critics : 1;
    policies->has_alpha = networks->acting->head == GPUR_HEAD_SQUASHED_GAUSSIAN;
    return gpur_policy_create_copies(device, &config, policies->critics, &policies->critic);
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
    *policies = (gpur_actor_policies){NULL};
}

gpur_status gpur_actor_policies_pull(gpur_actor_policies *policies, gpur_learner *learner)
{
    float log_alpha = 0.0f;
    if (policies->critic)
        GPUR_TRY(gpur_policy_pull(policies->critic, learner, GPUR_WEIGHTS_ONLINE));
    if (policies->has_alpha) {
        GPUR_TRY(gpur_learner_read_weights(learner, GPUR_WEIGHTS_ONLINE, "temperature.log_alpha", &log_alpha, 1));
        policies->alpha = expf(log_alpha);
    }
    return gpur_policy_pull(policies->acting, learner, GPUR_WEIGHTS_ONLINE);
}

/* Bytes of alpha. */
static int64_t alpha_bytes(const gpur_actor_policies *policies)
{
    return policies->has_alpha ? (int64_t)sizeof policies->alpha : 0;
}

int64_t gpur_actor_policies_bytes(const gpur_actor_policies *policies)
{
    return gpur_policy_weights_bytes(policies->acting) + gpur_policy_weights_bytes(policies->critic) +
           alpha_bytes(policies);
}

gpur_status gpur_actor_policies_get_weights(const gpur_actor_policies *policies, unsigned char *weights)
{
    const int64_t acting = gpur_policy_weights_bytes(policies->acting);
    const int64_t critic = gpur_policy_weights_bytes(policies->critic);
    GPUR_TRY(gpur_policy_get_weights(policies->acting, weights, acting));
    memcpy(weights + acting + critic, &policies->alpha, (size_t)alpha_bytes(policies));
    return critic > 0 ? gpur_policy_get_weights(policies->critic, weights + acting, critic) : GPUR_OK;
}

static gpur_status check_alpha(float alpha)
{
    GPUR_REQUIRE(alpha >= 0.0f && alpha < INFINITY, "the alpha of the weights is %g; it must be 0 or more, and finite",
                 (double)alpha);
    return GPUR_OK;
}

gpur_status gpur_actor_policies_set_weights(gpur_actor_policies *policies, const unsigned char *weights)
{
    const int64_t acting = gpur_policy_weights_bytes(policies->acting);
    const int64_t critic = gpur_policy_weights_bytes(policies->critic);
    float alpha = policies->alpha;
    memcpy(&alpha, weights + acting + critic, (size_t)alpha_bytes(policies));
    GPUR_TRY(check_alpha(alpha));
    if (critic > 0)
        GPUR_TRY(gpur_policy_set_weights(policies->critic, weights + acting, critic));
    policies->alpha = alpha;
    return gpur_policy_set_weights(policies->acting, weights, acting);
}

/* Files. */

gpur_status gpur_actor_policies_save_critic(const gpur_actor_policies *policies, const char *path)
{
    gpur_tensors about = {0};
    gpur_status status = GPUR_OK;
    uint32_t bits;
    memcpy(&bits, &policies->alpha, sizeof bits);
    if (policies->has_alpha)
        status = gpur_tensors_add_metadata(&about, alpha_key, "%08" PRIx32, bits);
    if (status == GPUR_OK)
        status = gpur_policy_save_with(policies->critic, &about, path, NULL);
    gpur_tensors_free(&about);
    return status;
}

static gpur_status read_alpha(const char *path, float *alpha)
{
    gpur_checkpoint file;
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    const char *const text = gpur_tensors_find_metadata(&file.tensors, alpha_key);
    const uint32_t bits = text ? (uint32_t)strtoul(text, NULL, 16) : 0;
    const gpur_status status =
        text ? GPUR_OK : gpur_fail(GPUR_FILE_ERROR, "%s has no \"%s\", which SAC needs", path, alpha_key);
    memcpy(alpha, &bits, sizeof bits);
    gpur_checkpoint_close(&file);
    return status == GPUR_OK ? check_alpha(*alpha) : status;
}

gpur_status gpur_actor_policies_load_critic(gpur_actor_policies *policies, const char *path)
{
    float alpha = policies->alpha;
    if (policies->has_alpha)
        GPUR_TRY(read_alpha(path, &alpha));
    GPUR_TRY(gpur_policy_load(policies->critic, path, NULL));
    policies->alpha = alpha;
    return GPUR_OK;
}
