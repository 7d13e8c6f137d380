/* SPDX-License-Identifier: MIT */
/* The intake: checks what comes from actors, waits for the limiter, appends it and counts it. */
#include "run/apex/intake.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>

/* A caller who brings a block waits so long for the run to be open, and is then asked to call again. */
static const double CALLER_WAIT_SECONDS = 0.1;

/* 1 if the actor is to end, and the run waits for that alone. Under the lock. */
static int is_let_end(const gpur_slot *slot)
{
    return slot->apex->gate == GPUR_APEX_LETS_END && slot->origin == GPUR_SLOT_OWN && !slot->is_wanted;
}

/* Under the lock. The steps that are counted close the gate, since the thread that advances may look at them much
 * later. */
static int is_open(const gpur_slot *slot)
{
    const gpur_apex *const apex = slot->apex;
    return is_let_end(slot) || (apex->gate == GPUR_APEX_OPEN && apex->core.stats.env_steps < apex->most_steps);
}

/* Under the lock. */
static gpur_status check_run(const gpur_apex *apex)
{
    if (apex->is_quitting || apex->core.status != GPUR_OK)
        return gpur_fail(GPUR_INTERRUPTED, "the run takes nothing any more");
    return GPUR_OK;
}

/* Under the lock. */
static gpur_status wait_until_open(const gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    const double end = slot->origin == GPUR_SLOT_CALLER ? gpur_clock_seconds() + CALLER_WAIT_SECONDS : (double)INFINITY;
    while (!is_open(slot) && !apex->is_quitting && apex->core.status == GPUR_OK) {
        if (gpur_clock_seconds() >= end)
            return gpur_fail(
                GPUR_WOULD_BLOCK,
                "the run takes nothing now, since nobody advances it, or it waits for an evaluation; call again");
        gpur_mutex_wait_for(&apex->core.lock, CALLER_WAIT_SECONDS);
    }
    return check_run(apex);
}

/* The line of blocks. */

static void join_line(gpur_intake_block *block, int is_polled)
{
    gpur_intake_block **at = &block->slot->apex->waiting;
    if (block->is_in_line)
        return;
    while (*at)
        at = &(*at)->next;
    *at = block;
    block->next = NULL, block->is_polled = is_polled, block->is_in_line = 1;
}

static void leave_line(gpur_intake_block *block)
{
    gpur_intake_block **at = &block->slot->apex->waiting;
    if (!block->is_in_line)
        return;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    block->is_in_line = 0;
}

/* The last block of an actor that is gone, or is let end, waits neither for the limiter nor for others: so the end of
 * the actor is known at once, and the limiter counts the rows all the same. */
static int may_insert(const gpur_apex *apex, const gpur_intake_block *block)
{
    return block->slot->has_ended || is_let_end(block->slot) ||
           (apex->waiting == block && gpur_limiter_may_insert(&apex->limiter, block->view.header.rows));
}

void gpur_intake_notify(gpur_apex *apex)
{
    gpur_mutex_notify_all(&apex->core.lock);
    if (apex->waiting && apex->waiting->is_polled && may_insert(apex, apex->waiting))
        gpur_supervisor_wake(apex);
}

/* GPUR_WOULD_BLOCK: the run is not open, or the limiter holds the block. The time in which the run is not open is no
 * wait for the limiter. */
static gpur_status look_at_line(gpur_intake_block *block)
{
    gpur_apex *const apex = block->slot->apex;
    const double now = gpur_clock_seconds();
    GPUR_TRY(check_run(apex));
    if (!is_open(block->slot)) {
        block->held_since = 0.0;
        return GPUR_WOULD_BLOCK;
    }
    if (may_insert(apex, block))
        return GPUR_OK;
    if (block->held_since <= 0.0)
        block->held_since = now;
    if (now - block->held_since < apex->config.limiter_timeout)
        return GPUR_WOULD_BLOCK;
    apex->counts.limiter_timeouts++;
    return GPUR_OK;
}

/* Looks again and again until the block may go in. */
static gpur_status wait_in_line(gpur_intake_block *block)
{
    gpur_apex *const apex = block->slot->apex;
    gpur_status status;
    while ((status = look_at_line(block)) == GPUR_WOULD_BLOCK) {
        const double held = gpur_clock_seconds() - block->held_since;
        if (block->held_since > 0.0)
            gpur_mutex_wait_for(&apex->core.lock, fmax(apex->config.limiter_timeout - held, 0.0));
        else
            GPUR_TRY(wait_until_open(block->slot));
    }
    return status;
}

/* Counting. */

/* Environment steps that are counted, or with a number below 0 that are not counted any more. Under the lock. */
static void add_steps(gpur_slot *slot, int64_t more)
{
    slot->steps += more;
    slot->apex->core.stats.env_steps += more;
}

/* Environment steps as the actor reports them; returns how many are new. Under the lock. */
static int64_t count_steps(gpur_slot *slot, int64_t steps)
{
    const int64_t more = gpur_max(steps - slot->steps, 0);
    add_steps(slot, more);
    return more;
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
    gpur_recent_add(&apex->ages, (double)(apex->base_steps + apex->core.stats.train_steps - h->weights_version));
}

void gpur_intake_count_start(gpur_slot *slot)
{
    gpur_apex *const apex = slot->apex;
    apex->counts.starts++;
    apex->counts.deaths += slot->is_running;
    slot->is_running = 1;
    slot->has_ended = 0;
    gpur_slot_add_event(slot, (gpur_run_event){.kind = GPUR_RUN_STARTED});
}

static void count_refused(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    apex->counts.refused_blocks++;
    gpur_mutex_unlock(&apex->core.lock);
}

gpur_status gpur_intake_judge(gpur_apex *apex, gpur_status status)
{
    if (gpur_intake_is_refusal(status))
        count_refused(apex);
    return status;
}

/* Opening. */

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

static gpur_status check_own(gpur_intake_block *block, const void *bytes, int64_t count)
{
    gpur_block_header header;
    const gpur_block_spec *const spec = &block->slot->apex->format->spec;
    GPUR_TRY(gpur_block_read_header(spec, bytes, count, &header));
    GPUR_TRY(check_source(block->slot, &header));
    block->is_new = header.sequence >= block->slot->next_sequence;
    return block->is_new ? gpur_block_open(spec, bytes, &header, &block->view) : GPUR_OK;
}

/* Counts a block that is refused, or was taken before. */
static gpur_status judge_opened(const gpur_intake_block *block, gpur_status status)
{
    if (status == GPUR_OK && !block->is_new)
        count_refused(block->slot->apex);
    return gpur_intake_judge(block->slot->apex, status);
}

gpur_status gpur_intake_open(gpur_slot *slot, const void *bytes, int64_t count, int64_t steps, gpur_intake_block *block)
{
    *block = (gpur_intake_block){.slot = slot, .steps = steps};
    return judge_opened(block, check_own(block, bytes, count));
}

/* Registers an incarnation of a remote actor at its first block. Of an actor new to this run, blocks before that one
 * are not counted as lost, because an earlier learner may have taken them. The same holds after a restart if blocks
 * come from a folder, which others may empty; if the caller brings them, the gap counts as lost. */
static gpur_status register_incarnation(gpur_slot *slot, const gpur_block_header *header)
{
    gpur_apex *const apex = slot->apex;
    if (slot->writer && slot->incarnation == header->incarnation)
        return GPUR_OK;
    GPUR_TRY(gpur_slot_open_writer(slot));
    gpur_mutex_lock(&apex->core.lock);
    const int has_started = slot->is_running && slot->incarnation == header->incarnation;
    slot->incarnation = header->incarnation;
    slot->next_sequence = slot->is_running ? 0 : header->sequence;
    slot->steps = slot->is_running ? 0 : header->first_step;
    if (slot->origin == GPUR_SLOT_CALLER && !has_started)
        gpur_intake_count_start(slot);
    gpur_mutex_unlock(&apex->core.lock);
    return GPUR_OK;
}

gpur_status gpur_intake_open_remote(gpur_slot *slot, const void *bytes, const gpur_block_header *header,
                                    gpur_intake_block *block)
{
    *block = (gpur_intake_block){.slot = slot, .steps = header->first_step + header->rows};
    gpur_status status = gpur_block_open(&slot->apex->format->spec, bytes, header, &block->view);
    if (status == GPUR_OK)
        status = register_incarnation(slot, header);
    block->is_new = status == GPUR_OK && header->sequence >= slot->next_sequence;
    return judge_opened(block, status);
}

void gpur_intake_close(gpur_intake_block *block)
{
    if (block->is_in_line) {
        gpur_apex *const apex = block->slot->apex;
        gpur_mutex_lock(&apex->core.lock);
        leave_line(block);
        gpur_intake_notify(apex);
        gpur_mutex_unlock(&apex->core.lock);
    }
    gpur_block_close(&block->view);
    *block = (gpur_intake_block){0};
}

/* Inserting. */

static gpur_status append(const gpur_intake_block *block)
{
    for (int32_t i = 0; i < block->slot->apex->config.replicate; i++)
        GPUR_TRY(gpur_writer_append_view(block->slot->writer, &block->view));
    return GPUR_OK;
}

/* Under the lock, which is released while rows are appended. Steps and rows are counted before, so that others that
 * come meanwhile find the gate closed, or the limiter ahead. */
static gpur_status append_and_count(const gpur_intake_block *block)
{
    gpur_slot *const slot = block->slot;
    gpur_apex *const apex = slot->apex;
    const int64_t rows = block->view.header.rows, more = count_steps(slot, block->steps);
    gpur_limiter_count(&apex->limiter, rows, 0);
    apex->inserting++;
    gpur_mutex_unlock(&apex->core.lock);
    const double begin = gpur_clock_seconds();
    const gpur_status status = append(block);
    const int can_sample = gpur_replay_can_sample(apex->replay);
    gpur_mutex_lock(&apex->core.lock);
    apex->inserting--;
    apex->receive_seconds += gpur_clock_seconds() - begin;
    if (status == GPUR_OK) {
        count_block(slot, &block->view.header);
    } else {
        gpur_limiter_count(&apex->limiter, -rows, 0);
        add_steps(slot, -more);
    }
    apex->limiter.has_begun |= can_sample;
    return status;
}

/* Those behind this block in the line are woken when it has been inserted, or has given up. */
gpur_status gpur_intake_insert(gpur_intake_block *block, gpur_intake_mode mode)
{
    gpur_apex *const apex = block->slot->apex;
    const int waits = mode == GPUR_INTAKE_WAITS;
    if (!block->is_new)
        return GPUR_OK;
    gpur_mutex_lock(&apex->core.lock);
    join_line(block, !waits);
    gpur_status status = waits ? wait_in_line(block) : look_at_line(block);
    if (status != GPUR_WOULD_BLOCK || waits) {
        leave_line(block);
        if (status == GPUR_OK)
            status = append_and_count(block);
        gpur_intake_notify(apex);
    }
    gpur_mutex_unlock(&apex->core.lock);
    return gpur_intake_judge(apex, status);
}

/* Episodes and ends. */

/* 1 if this is the actor with the smallest epsilon, whose episodes are reported; of several the first. A remote actor
 * is compared with those of its table from which something has come. */
static int is_greediest(const gpur_slot *slot)
{
    const gpur_apex *const apex = slot->apex;
    const gpur_slot_table *const table = &apex->tables[slot->origin];
    for (int32_t i = 0; i < table->count; i++) {
        const gpur_slot *const other = table->slots[i];
        const int counts = other && (slot->origin == GPUR_SLOT_OWN ? i < apex->actors : other->heard > 0.0);
        if (counts && (other->epsilon < slot->epsilon || (other->epsilon <= slot->epsilon && i < slot->actor)))
            return 0;
    }
    return 1;
}

void gpur_intake_add_episode(gpur_slot *slot, const gpur_actor_episode *episode)
{
    gpur_apex *const apex = slot->apex;
    if (is_greediest(slot))
        gpur_run_add_return(&apex->core, episode->episode_return);
    apex->core.stats.episodes++;
    gpur_slot_add_event(slot, (gpur_run_event){.kind = GPUR_RUN_EPISODE,
                                               .length = episode->length,
                                               .episodes = 1,
                                               .mean_return = episode->episode_return});
}

gpur_status gpur_intake_take_episode(gpur_slot *slot, const gpur_actor_episode *episode, int64_t steps,
                                     gpur_intake_mode mode)
{
    gpur_apex *const apex = slot->apex;
    gpur_mutex_lock(&apex->core.lock);
    gpur_status status = mode == GPUR_INTAKE_WAITS ? wait_until_open(slot) : check_run(apex);
    if (status == GPUR_OK && !is_open(slot))
        status = GPUR_WOULD_BLOCK;
    if (status == GPUR_OK) {
        count_steps(slot, steps);
        gpur_intake_add_episode(slot, episode);
    }
    gpur_mutex_unlock(&apex->core.lock);
    return status;
}

void gpur_intake_take_end(gpur_slot *slot, int64_t steps)
{
    gpur_mutex_lock(&slot->apex->core.lock);
    if (!gpur_slot_evaluates(slot))
        count_steps(slot, steps);
    gpur_mutex_unlock(&slot->apex->core.lock);
}
