/* SPDX-License-Identifier: MIT */
/* What comes from actors, on its way into the replay. */
#include "apex/apex.h"

#include "base/clock.h"
#include <inttypes.h>
#include <math.h>

/* Seconds. A caller who brings a block waits so long for the run to be open, and is then told to call again. */
static const double patience = 0.1;

/* Under the lock. The steps that are counted close the gate, since the thread that advances may look at them much
 * later. While gpur_apex_finish runs, blocks that the caller brings are not taken, and neither are files. */
static int is_open(const gpur_member *member)
{
    const gpur_apex *const apex = member->apex;
    return apex->is_open && apex->counts.env_steps < apex->most_steps && !(member->is_carried && apex->is_finishing);
}

/* Under the lock. */
static gpur_status wait_until_open(const gpur_member *member)
{
    gpur_apex *const apex = member->apex;
    const double end = member->is_carried ? gpur_clock_seconds() + patience : (double)INFINITY;
    while (!is_open(member) && !apex->is_quitting && apex->status == GPUR_OK) {
        if (gpur_clock_seconds() >= end)
            return gpur_fail(GPUR_WOULD_BLOCK, "nobody advances the run; call again");
        gpur_mutex_wait_for(&apex->lock, patience);
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
    const gpur_member *const member = block->member;
    gpur_apex *const apex = member->apex;
    double waited = 0.0;
    GPUR_TRY(wait_until_open(member));
    while (!may_insert(apex, block) && waited < apex->config.limiter_timeout) {
        const double begin = gpur_clock_seconds();
        gpur_mutex_wait_for(&apex->lock, apex->config.limiter_timeout - waited);
        waited += gpur_clock_seconds() - begin;
        if (!is_open(member))
            waited = 0.0;
        GPUR_TRY(wait_until_open(member));
    }
    apex->counts.limiter_timeouts += !may_insert(apex, block);
    return GPUR_OK;
}

static gpur_status wait_to_insert(const gpur_member *member, int64_t rows)
{
    gpur_waiting_block block = {.member = member, .rows = rows};
    join(member->apex, &block);
    const gpur_status status = wait_in_line(&block);
    leave(member->apex, &block);
    if (status != GPUR_OK) /* otherwise the end of the insert wakes the block behind this one */
        gpur_mutex_notify_all(&member->apex->lock);
    return status;
}

static gpur_status append(gpur_member *member, const gpur_block_view *block)
{
    for (int32_t i = 0; i < member->apex->config.replicate; i++)
        GPUR_TRY(gpur_writer_append_view(member->writer, block));
    return GPUR_OK;
}

/* Environment steps that are counted, or with a number below 0 that are not counted any more. Under the lock. */
static void add_steps(gpur_member *member, int64_t more)
{
    member->steps += more;
    if (!gpur_member_evaluates(member))
        member->apex->counts.env_steps += more;
}

/* Environment steps as the actor reports them; returns how many are new. Under the lock. */
static int64_t count_steps(gpur_member *member, int64_t steps)
{
    const int64_t more = gpur_max(steps - member->steps, 0);
    add_steps(member, more);
    return more;
}

/* Steps and rows are counted before they are appended, so that others that come meanwhile find the gate closed, or the
 * limiter ahead. Returns the new steps. Under the lock. */
static int64_t begin_insert(gpur_member *member, int64_t rows, int64_t steps)
{
    gpur_limiter_count(&member->apex->limiter, rows, 0);
    member->apex->inserting++;
    return count_steps(member, steps);
}

/* Under the lock. */
static void count_block(gpur_member *member, const gpur_block_header *h)
{
    gpur_apex *const apex = member->apex;
    const int64_t gap = h->sequence - member->next_sequence;
    member->next_sequence = h->sequence + 1;
    member->gaps += gap;
    member->blocks++;
    member->rows += h->rows;
    member->has_sent = 1;
    member->heard = gpur_clock_seconds();
    apex->counts.lost_blocks += gap;
    apex->counts.blocks++;
    apex->counts.rows += h->rows;
    apex->counts.bytes += GPUR_BLOCK_HEADER + h->payload_bytes;
    gpur_recent_add(&apex->ages, (double)(apex->base_steps + apex->counts.train_steps - h->weights_version));
}

static gpur_status insert(gpur_member *member, const gpur_block_view *block, int64_t steps)
{
    gpur_apex *const apex = member->apex;
    const int64_t rows = block->header.rows;
    gpur_mutex_lock(&apex->lock);
    const gpur_status waited = wait_to_insert(member, rows);
    const int64_t more = waited == GPUR_OK ? begin_insert(member, rows, steps) : 0;
    gpur_mutex_unlock(&apex->lock);
    GPUR_TRY(waited);
    const double begin = gpur_clock_seconds();
    const gpur_status status = append(member, block);
    const int can_sample = gpur_replay_can_sample(apex->replay);
    gpur_mutex_lock(&apex->lock);
    apex->inserting--;
    apex->receive_seconds += gpur_clock_seconds() - begin;
    if (status == GPUR_OK)
        count_block(member, &block->header);
    else
        gpur_limiter_count(&apex->limiter, -rows, 0);
    if (status != GPUR_OK)
        add_steps(member, -more);
    apex->limiter.has_begun |= can_sample;
    gpur_mutex_notify_all(&apex->lock);
    gpur_mutex_unlock(&apex->lock);
    return status;
}

/* Refuses a block of another actor. */
static gpur_status check_source(const gpur_member *member, const gpur_block_header *h)
{
    const int64_t most = member->apex->config.block_rows;
    GPUR_REQUIRE(h->actor == member->place && h->incarnation == member->incarnation && h->rows <= most,
                 "a block is of actor %" PRId64 ", incarnation %" PRId64 ", and has %" PRId64
                 " rows; it must be of actor %d, incarnation %" PRId64 ", and have at most %" PRId64,
                 h->actor, h->incarnation, h->rows, (int)member->place, member->incarnation, most);
    return GPUR_OK;
}

void gpur_apex_count_start(gpur_member *worker)
{
    gpur_apex *const apex = worker->apex;
    apex->counts.starts++;
    apex->counts.deaths += worker->is_running;
    worker->is_running = 1;
    gpur_apex_add_started(worker);
}

void gpur_apex_count_refused(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->lock);
    apex->counts.refused_blocks++;
    gpur_mutex_unlock(&apex->lock);
}

/* A worker that this run has not met goes on from the block that came: what came before is not missed, since another
 * run of the learner may have taken it. So does one that was started again, if it writes to a folder, which others may
 * empty; of one that the caller carries the blocks before are missed. */
static gpur_status meet(gpur_member *worker, const gpur_block_header *header)
{
    gpur_apex *const apex = worker->apex;
    if (worker->writer && worker->incarnation == header->incarnation)
        return GPUR_OK;
    GPUR_TRY(gpur_member_open_writer(worker));
    gpur_mutex_lock(&apex->lock);
    const int has_started = worker->is_running && worker->incarnation == header->incarnation;
    worker->incarnation = header->incarnation;
    worker->next_sequence = worker->is_running ? 0 : header->sequence;
    worker->steps = worker->is_running ? 0 : header->first_step;
    if (worker->is_carried && !has_started)
        gpur_apex_count_start(worker);
    gpur_mutex_unlock(&apex->lock);
    return GPUR_OK;
}

/* Counts a block that was refused, or was taken before, which is no error. */
static gpur_status judge(gpur_member *member, gpur_status status, int is_new)
{
    const int is_refused = status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR;
    if (is_refused || (status == GPUR_OK && !is_new))
        gpur_apex_count_refused(member->apex);
    return status;
}

gpur_status gpur_apex_take_block(gpur_member *member, const void *block, int64_t bytes, int64_t steps)
{
    gpur_block_header header;
    gpur_block_view view = {.memory = NULL};
    gpur_status status = gpur_block_read_header(&member->apex->format->spec, block, bytes, &header);
    if (status == GPUR_OK)
        status = check_source(member, &header);
    const int is_new = status == GPUR_OK && header.sequence >= member->next_sequence;
    if (is_new)
        status = gpur_block_open(&member->apex->format->spec, block, &header, &view);
    if (is_new && status == GPUR_OK)
        status = insert(member, &view, steps);
    gpur_block_close(&view);
    return judge(member, status, is_new);
}

gpur_status gpur_apex_take_workers_block(gpur_member *worker, const void *block, const gpur_block_header *header)
{
    gpur_block_view view;
    gpur_status status = gpur_block_open(&worker->apex->format->spec, block, header, &view);
    if (status == GPUR_OK)
        status = meet(worker, header);
    const int is_new = status == GPUR_OK && header->sequence >= worker->next_sequence;
    if (is_new)
        status = insert(worker, &view, header->first_step + header->rows);
    gpur_block_close(&view);
    return judge(worker, status, is_new);
}

gpur_status gpur_apex_take_episode(gpur_member *member, const gpur_actor_episode *episode, int64_t steps)
{
    gpur_apex *const apex = member->apex;
    gpur_mutex_lock(&apex->lock);
    const gpur_status status = wait_until_open(member);
    if (status == GPUR_OK) {
        count_steps(member, steps);
        member->has_sent |= gpur_member_evaluates(member);
        gpur_apex_add_episode(member, episode);
    }
    gpur_mutex_unlock(&apex->lock);
    return status;
}

void gpur_apex_take_end(gpur_member *member, int64_t steps)
{
    gpur_mutex_lock(&member->apex->lock);
    count_steps(member, steps);
    gpur_mutex_unlock(&member->apex->lock);
}
