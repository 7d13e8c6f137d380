/* SPDX-License-Identifier: MIT */
/* The transport by functions of the caller. First the learner's side, then the actor's. */
#include "run/apex/transport/transport.h"

#include "base/clock.h"
#include "base/sized.h"
#include "replay/view.h"
#include "run/apex/intake.h"

#include <inttypes.h>
#include <math.h>

/* The learner's side. */

static int is_used(const gpur_apex *apex)
{
    return apex->config.remote_actors > 0;
}

static gpur_status open_slots(gpur_apex *apex)
{
    const int32_t count = apex->config.remote_actors;
    gpur_slot *slot = NULL;
    for (int32_t i = 0; i < count; i++) {
        GPUR_TRY(gpur_slot_find(apex, GPUR_SLOT_CALLER, i, &slot));
        slot->epsilon = gpur_apex_exploration_of(&apex->config, apex->networks.critic != NULL, i, count);
    }
    return GPUR_OK;
}

const gpur_transport gpur_callbacks_transport = {.is_used = is_used, .open = open_slots};

static gpur_status find_slot(const gpur_apex *apex, int64_t actor, gpur_slot **slot)
{
    GPUR_REQUIRE(actor >= 0 && actor < apex->config.remote_actors,
                 "actor is %" PRId64 " and the run has %d remote actors; it must be below that", actor,
                 (int)apex->config.remote_actors);
    *slot = apex->tables[GPUR_SLOT_CALLER].slots[actor];
    return GPUR_OK;
}

/* One call at a time takes something of an actor. Others go on. Under the lock. */
static void take_turn(gpur_slot *slot)
{
    while (slot->is_receiving)
        gpur_mutex_wait(&slot->apex->core.lock);
    slot->is_receiving = 1;
    slot->apex->receiving++;
}

static void end_turn(gpur_slot *slot)
{
    gpur_mutex_lock(&slot->apex->core.lock);
    slot->is_receiving = 0;
    slot->apex->receiving--;
    gpur_mutex_notify_all(&slot->apex->core.lock);
    gpur_mutex_unlock(&slot->apex->core.lock);
}

/* Incarnations have rising numbers, so one that is older than the last was replaced by it. */
static gpur_status check_header(const gpur_slot *slot, const gpur_block_header *header)
{
    const int32_t most = slot->apex->config.block_rows;
    GPUR_REQUIRE(header->rows <= most && header->first_step <= INT64_MAX - header->rows,
                 "a block has %" PRId64 " rows, from step %" PRId64 "; it must have at most %d, of small numbers",
                 header->rows, header->first_step, (int)most);
    GPUR_REQUIRE(header->incarnation >= slot->incarnation,
                 "a block is of incarnation %" PRId64 " of actor %" PRId64 ", of which incarnation %" PRId64
                 " has come already",
                 header->incarnation, header->actor, slot->incarnation);
    GPUR_REQUIRE(header->incarnation > slot->incarnation || header->sequence >= slot->next_sequence,
                 "block %" PRId64 " of actor %" PRId64 " has come already; the next one is %" PRId64, header->sequence,
                 header->actor, slot->next_sequence);
    return GPUR_OK;
}

/* Takes a block whose header has been read. */
static gpur_status take_block(gpur_slot *slot, const void *bytes, const gpur_block_header *header)
{
    gpur_intake_block block;
    GPUR_TRY(gpur_intake_judge(slot->apex, check_header(slot, header)));
    gpur_status status = gpur_intake_open_remote(slot, bytes, header, &block);
    if (status == GPUR_OK)
        status = gpur_intake_insert(&block, GPUR_INTAKE_WAITS);
    gpur_intake_close(&block);
    return status;
}

static gpur_status read_header(const gpur_apex *apex, const void *block, int64_t bytes, gpur_block_header *header,
                               gpur_slot **slot)
{
    GPUR_TRY(gpur_block_read_header(&apex->format->spec, block, bytes, header));
    return find_slot(apex, header->actor, slot);
}

static gpur_status receive_block(gpur_apex *apex, const void *block, int64_t bytes)
{
    gpur_block_header header;
    gpur_slot *slot = NULL;
    GPUR_TRY(gpur_intake_judge(apex, read_header(apex, block, bytes, &header, &slot)));
    gpur_mutex_lock(&apex->core.lock);
    take_turn(slot);
    gpur_mutex_unlock(&apex->core.lock);
    const gpur_status status = take_block(slot, block, &header);
    end_turn(slot);
    return status;
}

gpur_status gpur_apex_receive_block(gpur_run *run, const void *block, int64_t bytes)
{
    gpur_apex *apex = NULL;
    GPUR_REQUIRE(run && block, "run and block must not be NULL");
    GPUR_TRY(gpur_apex_find(run, &apex));
    const gpur_status status = receive_block(apex, block, bytes);
    const int is_of_the_run = status != GPUR_OK && !gpur_intake_is_refusal(status) && status != GPUR_WOULD_BLOCK &&
                              status != GPUR_INTERRUPTED;
    if (is_of_the_run)
        gpur_run_fail(&apex->core, status);
    return status;
}

/* Under the lock. */
static gpur_status begin_incarnation(gpur_slot *slot, int64_t incarnation)
{
    const int is_first = !slot->is_running && slot->incarnation == 0;
    GPUR_REQUIRE(incarnation >= 0 && (is_first || incarnation > slot->incarnation),
                 "incarnation is %" PRId64 " and that of actor %d before was %" PRId64 "; it must be above that",
                 incarnation, (int)slot->actor, is_first ? -1 : slot->incarnation);
    slot->incarnation = incarnation;
    slot->next_sequence = slot->steps = 0;
    gpur_intake_count_start(slot);
    return GPUR_OK;
}

/* A block of the incarnation before may still wait for the limiter. It then waits no longer, so that the death is
 * counted now. */
gpur_status gpur_apex_receive_start(gpur_run *run, int32_t actor, int64_t incarnation)
{
    gpur_apex *apex = NULL;
    gpur_slot *slot = NULL;
    GPUR_TRY(gpur_apex_find(run, &apex));
    GPUR_TRY(find_slot(apex, actor, &slot));
    gpur_mutex_lock(&apex->core.lock);
    slot->has_ended = incarnation > slot->incarnation;
    gpur_mutex_notify_all(&apex->core.lock);
    take_turn(slot);
    const gpur_status status = begin_incarnation(slot, incarnation);
    slot->has_ended = 0;
    gpur_mutex_unlock(&apex->core.lock);
    end_turn(slot);
    return status;
}

gpur_status gpur_apex_receive_episode(gpur_run *run, int32_t actor, int64_t length, double episode_return)
{
    gpur_apex *apex = NULL;
    gpur_slot *slot = NULL;
    GPUR_TRY(gpur_apex_find(run, &apex));
    GPUR_TRY(find_slot(apex, actor, &slot));
    GPUR_REQUIRE(length >= 1, "length is %" PRId64 "; it must be at least 1", length);
    GPUR_REQUIRE(isfinite(episode_return) || !gpur_replay_settings(apex->replay)->check_finite,
                 "episode_return is %g; it must be a finite number", episode_return);
    const gpur_actor_episode episode = {.episode_return = episode_return, .length = length};
    gpur_mutex_lock(&apex->core.lock);
    gpur_intake_add_episode(slot, &episode);
    slot->heard = gpur_clock_seconds();
    gpur_mutex_unlock(&apex->core.lock);
    return GPUR_OK;
}

int64_t gpur_apex_weights_bytes(gpur_run *run)
{
    gpur_apex *apex = NULL;
    return gpur_apex_find(run, &apex) == GPUR_OK ? apex->shared.weights_bytes : 0;
}

gpur_status gpur_apex_get_weights(gpur_run *run, void *weights, int64_t bytes, int64_t *broadcast)
{
    gpur_apex *apex = NULL;
    GPUR_REQUIRE(run && broadcast, "run and broadcast must not be NULL");
    GPUR_TRY(gpur_apex_find(run, &apex));
    GPUR_REQUIRE(!weights || bytes == apex->shared.weights_bytes,
                 "bytes is %" PRId64 "; it must be gpur_apex_weights_bytes, %" PRId64, bytes,
                 apex->shared.weights_bytes);
    *broadcast = gpur_shared_broadcasts(&apex->shared);
    if (weights && *broadcast > 0)
        *broadcast = gpur_shared_read(&apex->shared, weights);
    return GPUR_OK;
}

/* The actor's side. */

typedef struct callback_actor {
    gpur_apex_transport given;
    gpur_actor_resources resources;
    gpur_actor_counts counts;
    int has_weights;
} callback_actor;

static gpur_status status_of(int32_t answer)
{
    return answer == 0 ? GPUR_OK : gpur_fail(GPUR_INTERRUPTED, "the transport has ended the actor");
}

static gpur_status give_block(void *context, const void *block, int64_t bytes, int64_t steps)
{
    const callback_actor *const b = context;
    (void)steps;
    return status_of(b->given.take_block(b->given.user, block, bytes));
}

static gpur_status give_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    const callback_actor *const b = context;
    (void)steps;
    return status_of(b->given.take_episode(b->given.user, episode->length, episode->episode_return));
}

static gpur_status pull(void *context, gpur_actor_policies *policies, unsigned char *weights, int *is_newer)
{
    callback_actor *const b = context;
    int32_t is_new = 0;
    GPUR_TRY(status_of(b->given.copy_weights(b->given.user, weights, gpur_actor_policies_bytes(policies), &is_new)));
    GPUR_REQUIRE(is_new || b->has_weights, "copy_weights gave no weights before the first step; its first call must");
    b->has_weights = 1;
    *is_newer = is_new != 0;
    return is_new ? gpur_actor_policies_set_weights(policies, weights) : GPUR_OK;
}

static gpur_status read_transport(const gpur_apex_transport *given, callback_actor *b)
{
    GPUR_TRY(gpur_sized_read(&b->given, sizeof b->given, given, "gpur_apex_transport"));
    GPUR_REQUIRE(b->given.take_block && b->given.take_episode && b->given.copy_weights,
                 "a function of the transport is NULL; it must have all three");
    return GPUR_OK;
}

static gpur_status act(callback_actor *b, const gpur_apex_config *given, int32_t actor, int64_t incarnation)
{
    const gpur_actor_transport transport = {b, give_block, give_episode, pull, NULL, NULL};
    gpur_actor_context *const context = &b->resources.context;
    gpur_apex_config config;
    GPUR_TRY(gpur_apex_read_remote_config(given, actor, &config));
    GPUR_REQUIRE(incarnation >= 0, "incarnation is %" PRId64 "; it must be 0 or more", incarnation);
    const gpur_actor_settings settings =
        gpur_apex_actor_settings(&b->resources.run, &config, context->networks.critic != NULL, actor, incarnation);
    GPUR_TRY(gpur_actor_resources_open(&b->resources));
    context->counts = &b->counts;
    return gpur_actor_run(context, &settings, &transport);
}

gpur_status gpur_apex_act(const gpur_run_config *run, const gpur_apex_config *config, int32_t actor,
                          int64_t incarnation, const gpur_replay_config *replay, const gpur_apex_networks *networks,
                          int32_t threads, const gpur_apex_transport *transport)
{
    callback_actor b = {.has_weights = 0};
    GPUR_TRY(read_transport(transport, &b));
    gpur_status status = gpur_actor_resources_read(&b.resources, run, replay, networks, threads);
    if (status == GPUR_OK)
        status = act(&b, config, actor, incarnation);
    gpur_actor_resources_close(&b.resources);
    return status;
}
