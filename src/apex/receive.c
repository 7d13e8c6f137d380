/* SPDX-License-Identifier: MIT */
/* Remote actors whose blocks, episodes and weights the caller brings: the learner's side. */
#include "apex/apex.h"

#include "base/clock.h"
#include "replay/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

gpur_status gpur_remote_actors_open(gpur_apex *apex)
{
    const int32_t count = apex->config.remote_actors;
    if (count == 0)
        return GPUR_OK;
    apex->remote_actors = calloc((size_t)count, sizeof *apex->remote_actors);
    if (!apex->remote_actors)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %d remote actors", (int)count);
    for (int32_t i = 0; i < count; i++) {
        gpur_slot *const remote = &apex->remote_actors[i];
        remote->apex = apex;
        remote->actor = i;
        remote->is_from_caller = 1;
        remote->epsilon = gpur_apex_exploration_of(&apex->config, apex->learner.networks.critic != NULL, i, count);
    }
    return GPUR_OK;
}

void gpur_remote_actors_close(gpur_apex *apex)
{
    for (int32_t i = 0; apex->remote_actors && i < apex->config.remote_actors; i++)
        gpur_writer_destroy(apex->remote_actors[i].writer);
    free(apex->remote_actors);
}

static gpur_status check_actor(const gpur_apex *apex, int64_t actor)
{
    GPUR_REQUIRE(actor >= 0 && actor < apex->config.remote_actors,
                 "actor is %" PRId64 " and the run has %d remote actors; it must be below that", actor,
                 (int)apex->config.remote_actors);
    return GPUR_OK;
}

/* All but its rows. Incarnations have rising numbers, so one that is older than the last was replaced by it. */
static gpur_status read_header(const gpur_apex *apex, const void *block, int64_t bytes, gpur_block_header *header)
{
    GPUR_TRY(gpur_block_read_header(&apex->format->spec, block, bytes, header));
    GPUR_TRY(check_actor(apex, header->actor));
    const gpur_slot *const remote = &apex->remote_actors[header->actor];
    GPUR_REQUIRE(header->rows <= apex->config.block_rows && header->first_step <= INT64_MAX - header->rows,
                 "a block has %" PRId64 " rows, from step %" PRId64 "; it must have at most %d, of small numbers",
                 header->rows, header->first_step, (int)apex->config.block_rows);
    GPUR_REQUIRE(header->incarnation >= remote->incarnation,
                 "a block is of incarnation %" PRId64 " of actor %" PRId64 ", of which incarnation %" PRId64
                 " has come already",
                 header->incarnation, header->actor, remote->incarnation);
    GPUR_REQUIRE(header->incarnation > remote->incarnation || header->sequence >= remote->next_sequence,
                 "block %" PRId64 " of actor %" PRId64 " has come already; the next one is %" PRId64, header->sequence,
                 header->actor, remote->next_sequence);
    return GPUR_OK;
}

/* One at a time. */
static gpur_status receive(gpur_apex *apex, const void *block, int64_t bytes)
{
    gpur_block_header header;
    const gpur_status status = read_header(apex, block, bytes, &header);
    if (status != GPUR_OK) {
        gpur_apex_count_refused(apex);
        return status;
    }
    return gpur_apex_take_remote_block(&apex->remote_actors[header.actor], block, &header);
}

static int is_of_the_block(gpur_status status)
{
    return status == GPUR_OK || status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR ||
           status == GPUR_WOULD_BLOCK || status == GPUR_INTERRUPTED;
}

gpur_status gpur_apex_receive_block(gpur_apex *apex, const void *block, int64_t bytes)
{
    GPUR_REQUIRE(apex && block, "apex and block must not be NULL");
    gpur_mutex_lock(&apex->receiving);
    const gpur_status status = receive(apex, block, bytes);
    gpur_mutex_unlock(&apex->receiving);
    if (is_of_the_block(status))
        return status;
    gpur_mutex_lock(&apex->lock);
    gpur_apex_end(apex, status, gpur_last_error());
    gpur_mutex_unlock(&apex->lock);
    return status;
}

/* One at a time. */
static gpur_status receive_start(gpur_slot *remote, int64_t incarnation)
{
    const int is_first = !remote->is_running && remote->incarnation == 0;
    GPUR_REQUIRE(incarnation >= 0 && (is_first || incarnation > remote->incarnation),
                 "incarnation is %" PRId64 " and that of actor %d before was %" PRId64 "; it must be above that",
                 incarnation, (int)remote->actor, is_first ? -1 : remote->incarnation);
    gpur_mutex_lock(&remote->apex->lock);
    remote->incarnation = incarnation;
    remote->next_sequence = remote->steps = 0;
    gpur_apex_count_start(remote);
    gpur_mutex_unlock(&remote->apex->lock);
    return GPUR_OK;
}

gpur_status gpur_apex_receive_start(gpur_apex *apex, int32_t actor, int64_t incarnation)
{
    GPUR_REQUIRE(apex, "apex is NULL");
    GPUR_TRY(check_actor(apex, actor));
    gpur_mutex_lock(&apex->receiving);
    const gpur_status status = receive_start(&apex->remote_actors[actor], incarnation);
    gpur_mutex_unlock(&apex->receiving);
    return status;
}

gpur_status gpur_apex_receive_episode(gpur_apex *apex, int32_t actor, int64_t length, double episode_return)
{
    GPUR_REQUIRE(apex, "apex is NULL");
    GPUR_TRY(check_actor(apex, actor));
    GPUR_REQUIRE(length >= 1, "length is %" PRId64 "; it must be at least 1", length);
    GPUR_REQUIRE(isfinite(episode_return) || !gpur_replay_settings(apex->replay)->check_finite,
                 "episode_return is %g; it must be a finite number", episode_return);
    const gpur_actor_episode episode = {.episode_return = episode_return, .length = length};
    gpur_mutex_lock(&apex->lock);
    gpur_apex_add_episode(&apex->remote_actors[actor], &episode);
    apex->remote_actors[actor].heard = gpur_clock_seconds();
    gpur_mutex_unlock(&apex->lock);
    return GPUR_OK;
}

int64_t gpur_apex_weights_bytes(const gpur_apex *apex)
{
    return apex ? apex->shared.weights_bytes : 0;
}

gpur_status gpur_apex_get_weights(gpur_apex *apex, void *weights, int64_t bytes, int64_t *broadcast)
{
    GPUR_REQUIRE(apex && broadcast, "apex and broadcast must not be NULL");
    GPUR_REQUIRE(!weights || bytes == apex->shared.weights_bytes,
                 "bytes is %" PRId64 "; it must be gpur_apex_weights_bytes, %" PRId64, bytes,
                 apex->shared.weights_bytes);
    *broadcast = gpur_shared_broadcasts(&apex->shared);
    if (weights && *broadcast > 0)
        *broadcast = gpur_shared_read(&apex->shared, weights);
    return GPUR_OK;
}
