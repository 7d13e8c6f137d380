/* SPDX-License-Identifier: MIT */
/* What comes from actors, on its way into the replay. */
#include "apex/apex.h"

#include "base/clock.h"
#include <inttypes.h>
#include <math.h>

/* A caller who brings a block waits so long for the run to be open, and is then asked to call again. */
static const double WAIT_OPEN_SECONDS = 0.1;

/* Under the lock. The steps that are counted close the gate, since the thread that advances may look at them much
 * later. While gpur_apex_finish runs, blocks that the caller brings are not taken, and neither are files. */
static int is_open(const gpur_slot *slot)
{
    const gpur_apex *const apex = slot->apex;
    return apex->is_open && apex->counts.env_steps < apex->most_steps && !(slot->is_from_caller && apex->is_finishing);
}

/* Under the lock. */
static gpur_status wait_until_open(const gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    const double end = slot->is_from_caller ? gpur_clock_seconds() + WAIT_OPEN_SECONDS : (double)INFINITY;
    while (!is_open(slot) && !apex->is_quitting && apex->status == GPUR_OK) {
        if (gpur_clock_seconds() >= end)
            return gpur_fail(GPUR_WOULD_BLOCK, "nobody advances the run; call again");
        gpur_mutex_wait_for(&apex->lock, WAIT_OPEN_SECONDS);
    }
    if (apex->is_quitting || apex->status != GPUR_OK)
        return gpur_fail(GPUR_INTERRUPTED, "the run takes nothing any more");
    return GPUR_OK;
}

static void join(gpur_apex *apex, gpur_waiting_block *block)
{
    gpur_waiting_block **at = &apex->waiting;
    while (*at)
        at = &(*at)->next;
    *at = block;
}

static void leave(gpur_apex *apex, const gpur_waiting_block *block)
{
    gpur_waiting_block **at = &apex->waiting;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
}

static int may_insert(const gpur_apex *apex, const gpur_waiting_block *block)
{
    return apex->waiting == block && (apex->is_finishing || gpur_limiter_may_insert(&apex->limiter, block->rows));
}

/* Waits until the run is open and the limiter lets the block in. The time in which the run is not open is no wait for
 * the limiter. */
static gpur_status wait_in_line(const gpur_waiting_block *block)
{
    const gpur_slot *const slot = block->slot;
    gpur_apex *const apex = slot->apex;
    double waited = 0.0;
    GPUR_TRY(wait_until_open(slot));
    while (!may_insert(apex, block) && waited < apex->config.limiter_timeout) {
        const double begin = gpur_clock_seconds();
        gpur_mutex_wait_for(&apex->lock, apex->config.limiter_timeout - waited);
        waited += gpur_clock_seconds() - begin;
        if (!is_open(slot))
            waited = 0.0;
        GPUR_TRY(wait_until_open(slot));
    }
    apex->counts.limiter_timeouts += !may_insert(apex, block);
    return GPUR_OK;
}

static gpur_status wait_to_insert(const gpur_slot *slot, int64_t rows)
{
    gpur_waiting_block block = {.slot = slot, .rows = rows};
    join(slot->apex, &block);
    const gpur_status status = wait_in_line(&block);
    leave(slot->apex, &block);
    if (status != GPUR_OK) /* otherwise the end of the insert wakes the block behind this one */
        gpur_mutex_notify_all(&slot->apex->lock);
    return status;
}

static gpur_status append(gpur_slot *slot, const gpur_block_view *block)
{
    for (int32_t i = 0; i < slot->apex->config.replicate; i++)
        GPUR_TRY(gpur_writer_append_view(slot->writer, block));
    return GPUR_OK;
}

/* Environment steps that are counted, or with a number below 0 that are not counted any more. Under the lock. */
static void add_steps(gpur_slot *slot, int64_t more)
{
    slot->steps += more;
    if (!gpur_slot_evaluates(slot))
        slot->apex->counts.env_steps += more;
}

/* Environment steps as the actor reports them; returns how many are new. Under the lock. */
static int64_t count_steps(gpur_slot *slot, int64_t steps)
{
    const int64_t more = gpur_max(steps - slot->steps, 0);
    add_steps(slot, more);
    return more;
}

/* Steps and rows are counted before they are appended, so that others that come meanwhile find the gate closed, or the
 * limiter ahead. Returns the new steps. Under the lock. */
static int64_t begin_insert(gpur_slot *slot, int64_t rows, int64_t steps)
{
    gpur_limiter_count(&slot->apex->limiter, rows, 0);
    slot->apex->inserting++;
    return count_steps(slot, steps);
}

/* Under the lock. */
static void count_block(gpur_slot *slot, const gpur_block_header *h)
{
    gpur_apex *const apex = slot->apex;
    const int64_t gap = h->sequence - slot->next_sequence;
    slot->next_sequence = h->sequence + 1;
    slot->gaps += gap;
    slot->blocks++;
    slot->rows += h->rows;
    slot->has_sent = 1;
    slot->heard = gpur_clock_seconds();
    apex->counts.lost_blocks += gap;
    apex->counts.blocks++;
    apex->counts.rows += h->rows;
    apex->counts.bytes += GPUR_BLOCK_HEADER + h->payload_bytes;
    gpur_recent_add(&apex->ages, (double)(apex->base_steps + apex->counts.train_steps - h->weights_version));
}

static gpur_status insert(gpur_slot *slot, const gpur_block_view *block, int64_t steps)
{
    gpur_apex *const apex = slot->apex;
    const int64_t rows = block->header.rows;
    gpur_mutex_lock(&apex->lock);
    const gpur_status waited = wait_to_insert(slot, rows);
    const int64_t more = waited == GPUR_OK ? begin_insert(slot, rows, steps) : 0;
    gpur_mutex_unlock(&apex->lock);
    GPUR_TRY(waited);
    const double begin = gpur_clock_seconds();
    const gpur_status status = append(slot, block);
    const int can_sample = gpur_replay_can_sample(apex->replay);
    gpur_mutex_lock(&apex->lock);
    apex->inserting--;
    apex->receive_seconds += gpur_clock_seconds() - begin;
    if (status == GPUR_OK)
        count_block(slot, &block->header);
    else
        gpur_limiter_count(&apex->limiter, -rows, 0);
    if (status != GPUR_OK)
        add_steps(slot, -more);
    apex->limiter.has_begun |= can_sample;
    gpur_mutex_notify_all(&apex->lock);
    gpur_mutex_unlock(&apex->lock);
    return status;
}

/* Refuses a block of another actor. */
static gpur_status check_source(const gpur_slot *slot, const gpur_block_header *h)
{
    const int64_t most = slot->apex->config.block_rows;
    GPUR_REQUIRE(h->actor == slot->actor && h->incarnation == slot->incarnation && h->rows <= most,
                 "a block is of actor %" PRId64 ", incarnation %" PRId64 ", and has %" PRId64
                 " rows; it must be of actor %d, incarnation %" PRId64 ", and have at most %" PRId64,
                 h->actor, h->incarnation, h->rows, (int)slot->actor, slot->incarnation, most);
    return GPUR_OK;
}

void gpur_apex_count_start(gpur_slot *remote)
{
    gpur_apex *const apex = remote->apex;
    apex->counts.starts++;
    apex->counts.deaths += remote->is_running;
    remote->is_running = 1;
    gpur_apex_add_started(remote);
}

void gpur_apex_count_refused(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->lock);
    apex->counts.refused_blocks++;
    gpur_mutex_unlock(&apex->lock);
}

/* Registers an incarnation of a remote actor at its first block. Of an actor new to this run, blocks before that one
 * are not counted as lost, because an earlier learner may have taken them. The same holds after a restart if blocks
 * come from a folder, which others may empty; if the caller brings them, the gap counts as lost. */
static gpur_status register_incarnation(gpur_slot *remote, const gpur_block_header *header)
{
    gpur_apex *const apex = remote->apex;
    if (remote->writer && remote->incarnation == header->incarnation)
        return GPUR_OK;
    GPUR_TRY(gpur_slot_open_writer(remote));
    gpur_mutex_lock(&apex->lock);
    const int has_started = remote->is_running && remote->incarnation == header->incarnation;
    remote->incarnation = header->incarnation;
    remote->next_sequence = remote->is_running ? 0 : header->sequence;
    remote->steps = remote->is_running ? 0 : header->first_step;
    if (remote->is_from_caller && !has_started)
        gpur_apex_count_start(remote);
    gpur_mutex_unlock(&apex->lock);
    return GPUR_OK;
}

/* Counts a block that was refused, or was taken before, which is no error. */
static gpur_status judge(gpur_slot *slot, gpur_status status, int is_new)
{
    const int is_refused = status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR;
    if (is_refused || (status == GPUR_OK && !is_new))
        gpur_apex_count_refused(slot->apex);
    return status;
}

gpur_status gpur_apex_take_block(gpur_slot *slot, const void *block, int64_t bytes, int64_t steps)
{
    gpur_block_header header;
    gpur_block_view view = {.memory = NULL};
    gpur_status status = gpur_block_read_header(&slot->apex->format->spec, block, bytes, &header);
    if (status == GPUR_OK)
        status = check_source(slot, &header);
    const int is_new = status == GPUR_OK && header.sequence >= slot->next_sequence;
    if (is_new)
        status = gpur_block_open(&slot->apex->format->spec, block, &header, &view);
    if (is_new && status == GPUR_OK)
        status = insert(slot, &view, steps);
    gpur_block_close(&view);
    return judge(slot, status, is_new);
}

gpur_status gpur_apex_take_remote_block(gpur_slot *remote, const void *block, const gpur_block_header *header)
{
    gpur_block_view view;
    gpur_status status = gpur_block_open(&remote->apex->format->spec, block, header, &view);
    if (status == GPUR_OK)
        status = register_incarnation(remote, header);
    const int is_new = status == GPUR_OK && header->sequence >= remote->next_sequence;
    if (is_new)
        status = insert(remote, &view, header->first_step + header->rows);
    gpur_block_close(&view);
    return judge(remote, status, is_new);
}

gpur_status gpur_apex_take_episode(gpur_slot *slot, const gpur_actor_episode *episode, int64_t steps)
{
    gpur_apex *const apex = slot->apex;
    gpur_mutex_lock(&apex->lock);
    const gpur_status status = wait_until_open(slot);
    if (status == GPUR_OK) {
        count_steps(slot, steps);
        slot->has_sent |= gpur_slot_evaluates(slot);
        gpur_apex_add_episode(slot, episode);
    }
    gpur_mutex_unlock(&apex->lock);
    return status;
}

void gpur_apex_take_end(gpur_slot *slot, int64_t steps)
{
    gpur_mutex_lock(&slot->apex->lock);
    count_steps(slot, steps);
    gpur_mutex_unlock(&slot->apex->lock);
}
