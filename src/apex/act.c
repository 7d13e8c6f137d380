/* SPDX-License-Identifier: MIT */
/* An actor whose blocks, episodes and weights the caller brings to the learner and back. */
#include "apex/apex.h"

#include "base/sized.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct callbacks {
    gpur_apex_transport given;
    gpur_actor_settings settings;
    gpur_actor_resources resources;
    gpur_actor_counts counts;
    unsigned char *weights; /* those taken last, as bytes */
    int has_weights;
} callbacks;

static gpur_status status_of(int32_t answer)
{
    return answer == 0 ? GPUR_OK : gpur_fail(GPUR_INTERRUPTED, "the transport has ended the actor");
}

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const callbacks *const b = context;
    (void)steps;
    return status_of(b->given.take_block(b->given.user, block, bytes));
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    const callbacks *const b = context;
    (void)steps;
    return status_of(b->given.take_episode(b->given.user, episode->length, episode->episode_return));
}

static gpur_status pull(void *context, const gpur_actor_policies *policies, int *is_newer)
{
    callbacks *const b = context;
    const int64_t bytes = gpur_actor_policies_bytes(policies);
    int32_t is_new = 0;
    if (!b->weights)
        b->weights = malloc((size_t)bytes);
    if (!b->weights)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of weights", bytes);
    GPUR_TRY(status_of(b->given.copy_weights(b->given.user, b->weights, bytes, &is_new)));
    GPUR_REQUIRE(is_new || b->has_weights, "copy_weights gave no weights before the first step; its first call must");
    b->has_weights = 1;
    *is_newer = is_new != 0;
    return is_new ? gpur_actor_policies_set_weights(policies, b->weights) : GPUR_OK;
}

static gpur_status read_transport(const gpur_apex_transport *given, callbacks *b)
{
    GPUR_TRY(gpur_sized_read(&b->given, sizeof b->given, given, "gpur_apex_transport"));
    GPUR_REQUIRE(b->given.take_block && b->given.take_episode && b->given.copy_weights,
                 "a function of the transport is NULL; it must have all three");
    return GPUR_OK;
}

static gpur_status act(callbacks *b, gpur_actor_context *context, const gpur_replay_config *replay, int32_t threads)
{
    const gpur_actor_transport transport = {b, take_block, take_episode, pull};
    GPUR_TRY(gpur_actor_resources_open(&b->resources, context, replay, threads));
    context->counts = &b->counts;
    return gpur_actor_run(context, &b->settings, &transport);
}

static gpur_status check_and_act(const gpur_apex_config *config, int32_t actor, int64_t incarnation,
                                 gpur_actor_context *context, const gpur_replay_config *replay, int32_t threads,
                                 const gpur_apex_transport *transport)
{
    gpur_apex_config c;
    callbacks b = {.given = {0}};
    GPUR_TRY(gpur_actor_check(context, replay, threads));
    GPUR_TRY(gpur_apex_read_config(config, &c));
    GPUR_TRY(read_transport(transport, &b));
    GPUR_TRY(gpur_apex_check_actor(&c, actor));
    GPUR_REQUIRE(incarnation >= 0, "incarnation is %" PRId64 "; it must be 0 or more", incarnation);
    b.settings = gpur_apex_actor_settings(&c, context->networks.critic != NULL, actor, incarnation);
    context->env_options = c.env_options ? c.env_options : "";
    const gpur_status status = act(&b, context, replay, threads);
    gpur_actor_resources_close(&b.resources);
    free(b.weights);
    return status;
}

gpur_status gpur_apex_act(const gpur_apex_config *config, int32_t actor, int64_t incarnation, const gpur_env_type *type,
                          const gpur_replay_config *replay, const gpur_network_config *network, int32_t threads,
                          const gpur_apex_transport *transport)
{
    gpur_actor_context context = {.type = type, .networks = {.acting = network}};
    return check_and_act(config, actor, incarnation, &context, replay, threads, transport);
}

gpur_status gpur_apex_act_dpg(const gpur_apex_config *config, int32_t actor, int64_t incarnation,
                              const gpur_env_type *type, const gpur_replay_config *replay,
                              const gpur_network_config *actor_network, const gpur_network_config *critic_network,
                              int32_t threads, const gpur_apex_transport *transport)
{
    gpur_actor_context context = {.type = type, .networks = {critic_network ? actor_network : NULL, critic_network}};
    return check_and_act(config, actor, incarnation, &context, replay, threads, transport);
}
