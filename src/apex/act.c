/* SPDX-License-Identifier: MIT */
/* An actor whose blocks, episodes and weights the caller carries. */
#include "apex/apex.h"

#include "base/sized.h"

#include <inttypes.h>

typedef struct bearer {
    gpur_apex_carrier given;
    gpur_actor_settings settings;
    gpur_actor_kit kit;
    gpur_actor_counts counts;
} bearer;

static gpur_status status_of(int32_t answer)
{
    return answer == 0 ? GPUR_OK : gpur_fail(GPUR_INTERRUPTED, "the carrier has ended the actor");
}

static gpur_status take_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const bearer *const b = context;
    (void)steps;
    return status_of(b->given.take_block(b->given.user, block, bytes));
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    const bearer *const b = context;
    (void)steps;
    return status_of(b->given.take_episode(b->given.user, episode->length, episode->episode_return));
}

static gpur_status pull(void *context, gpur_policy *policy, int *is_newer)
{
    const bearer *const b = context;
    (void)is_newer;
    return status_of(b->given.give_weights(b->given.user, policy));
}

static gpur_status read_carrier(const gpur_apex_carrier *given, bearer *b)
{
    GPUR_TRY(gpur_sized_read(&b->given, sizeof b->given, given, "gpur_apex_carrier"));
    GPUR_REQUIRE(b->given.take_block && b->given.take_episode && b->given.give_weights,
                 "a function of the carrier is NULL; it must have all three");
    return GPUR_OK;
}

static gpur_status act(bearer *b, gpur_actor_parts *parts, const gpur_replay_config *replay, int32_t threads)
{
    const gpur_actor_carrier carrier = {b, take_block, take_episode, pull};
    GPUR_TRY(gpur_actor_kit_open(&b->kit, replay, threads));
    parts->device = b->kit.device;
    parts->schema = &b->kit.schema;
    parts->replay = &b->kit.replay;
    parts->format = b->kit.format;
    parts->counts = &b->counts;
    return gpur_actor_run(parts, &b->settings, &carrier);
}

gpur_status gpur_apex_act(const gpur_apex_config *config, int32_t actor, int64_t incarnation, const gpur_env_type *type,
                          const gpur_replay_config *replay, const gpur_network_config *network, int32_t threads,
                          const gpur_apex_carrier *carrier)
{
    gpur_apex_config c;
    bearer b = {.given = {0}};
    GPUR_REQUIRE(type && replay && network, "type, replay and network must not be NULL");
    GPUR_TRY(gpur_apex_read_config(config, &c));
    GPUR_TRY(read_carrier(carrier, &b));
    GPUR_TRY(gpur_apex_check_actor(&c, actor));
    GPUR_REQUIRE(incarnation >= 0, "incarnation is %" PRId64 "; it must be 0 or more", incarnation);
    GPUR_REQUIRE(threads >= 0 && threads <= 1024, "threads is %d; it must be 0 (1) to 1024", (int)threads);
    b.settings = gpur_apex_actor_settings(&c, actor, incarnation);
    gpur_actor_parts parts = {.type = type, .network = network, .env_options = c.env_options ? c.env_options : ""};
    const gpur_status status = act(&b, &parts, replay, threads);
    gpur_actor_kit_close(&b.kit);
    return status;
}
