/* SPDX-License-Identifier: MIT */
/*
 * Where the threads meet: writers claim rows of the open staging block under the lock, fill them without it, and
 * commit. Full blocks go to the feed with the last commit; a consumer or a flush seals what is there, also in
 * mid-block.
 */
#ifndef GPUR_REPLAY_STORAGE_INGEST_H
#define GPUR_REPLAY_STORAGE_INGEST_H

#include "base/mutex.h"
#include "replay/storage/ring.h"
#include "replay/storage/staging.h"
#include "base/clock.h"

typedef struct gpur_intake {
    gpur_quick_lock lock; /* over all of this, staging and feed; a change: a commit, or the end of a sealing */
    gpur_staging staging;
    gpur_feed feed;
    gpur_frame_log frames; /* GPUR_LINKED */
    int32_t flush, when_full;
    int64_t writing;  /* claims not committed */
    int64_t staged;   /* rows claimed and not fed */
    int64_t ids;      /* rows that have their place: the id of the next */
    int32_t sealing;  /* threads that wait for all claims to be committed; no new ones until then */
    int32_t inside;   /* calls of writers that have entered and not left */
    int32_t frozen;   /* none may enter */

    int64_t appended, waits, episodes_cut; /* statistics */
    double wait_seconds, busy_seconds;     /* busy: in appends, beside waiting */
    uint64_t small_calls;                  /* see append_clock.h */
} gpur_intake;

gpur_status gpur_intake_build(gpur_intake *intake, gpur_device *device, const gpur_replay_config *config,
                              const gpur_storage *storage, const gpur_replay_plan *plan);
void gpur_intake_destroy(gpur_intake *intake); /* tolerates half-built; waits for the feed's work */

static inline void gpur_intake_lock(gpur_intake *intake)
{
    gpur_quick_lock_take(&intake->lock);
}

static inline void gpur_intake_unlock(gpur_intake *intake)
{
    gpur_quick_lock_give(&intake->lock);
}

/* Lock and enter (see below) for who may not wait. 1: both; 0: another thread holds the lock, or it is frozen. */
int gpur_intake_try_enter(gpur_intake *intake);

/* The rest is called with the lock held. */

void gpur_intake_await_thaw(gpur_intake *intake);

/* Around every call of a writer that adds rows or changes what the writer keeps: so that a checkpoint sees it done or
 * not begun. Enter waits while the intake is frozen. */
static inline void gpur_intake_enter(gpur_intake *intake)
{
    if (intake->frozen)
        gpur_intake_await_thaw(intake);
    intake->inside++;
}

static inline void gpur_intake_leave(gpur_intake *intake)
{
    intake->inside--;
    if (intake->frozen)
        gpur_quick_lock_tell(&intake->lock);
}

/* Lets nobody enter any more, waits until all have left, and feeds what they gave; the next row begins a block. Frozen,
 * also after a failure, until the thaw. One thread at a time. */
gpur_status gpur_intake_freeze(gpur_intake *intake);
void gpur_intake_thaw(gpur_intake *intake);

typedef struct gpur_claim {
    gpur_block *block;
    unsigned char *rows; /* (count, pitch), the claimer's own until the commit */
    int64_t count;
    int64_t first_id; /* of its rows: blocks are fed in the order of opening, so ids follow the order of claims */
} gpur_claim;

/*
 * Claims 1 to `wanted` rows. Lets go of the lock while it waits for a block: for one that is in use if `waits`.
 * GPUR_LINKED: one row.
 *
 *   GPUR_WOULD_BLOCK  every block is in use, and `waits` is 0
 */
gpur_status gpur_intake_claim(gpur_intake *intake, int64_t wanted, int waits, gpur_claim *claim);

/* GPUR_LINKED: the place of one more frame, at most as many as a row may have, and its id. Between claim and commit,
 * and without letting go of the lock. */
unsigned char *gpur_intake_claim_frame(gpur_intake *intake, const gpur_claim *claim, int64_t *id);

/* 1 when appends wait for a block by the replay's settings. */
static inline int gpur_intake_waits(const gpur_intake *intake)
{
    return intake->when_full == GPUR_WHEN_FULL_WAIT;
}

/* Counts rows that went to the feed without a claim. */
void gpur_intake_count_fed(gpur_intake *intake, int64_t rows);

/* Waits for a sealing to end: until the lock is given up, claims then do not let go of it but for want of a block. */
void gpur_intake_settle(gpur_intake *intake);

/* 1 when `wanted` rows could be claimed, in however many claims, without waiting for anybody. */
int gpur_intake_has_room(const gpur_intake *intake, int64_t wanted);

/* 1 when claims of `wanted` rows fill a block, so that their commits may feed. */
int gpur_intake_fills_block(const gpur_intake *intake, int64_t wanted);

gpur_status gpur_intake_commit(gpur_intake *intake, const gpur_claim *claim);

/* Claim and commit in one of `count` rows, for who fills them before the lock is let go of, where that meets nothing
 * else: the open block has room and is not filled up. NULL where it has not. GPUR_PACKED alone. */
static inline unsigned char *gpur_intake_take(gpur_intake *intake, int64_t count)
{
    const gpur_staging *const staging = &intake->staging;
    gpur_block *const block = staging->open;
    if (!block || intake->sealing > 0 || count >= staging->block_rows - block->filled)
        return NULL;
    unsigned char *const rows = block->rows + block->filled * staging->pitch;
    block->filled += count;
    intake->ids += count;
    intake->staged += count;
    intake->appended += count;
    return rows;
}

/* 1 when the next claim would begin a block, and nothing that was appended before is still staged: a whole block may
 * then go round the staging. */
int gpur_intake_is_clear(const gpur_intake *intake);

/* Feeds all that was claimed before the call, waiting for its commits. */
gpur_status gpur_intake_seal(gpur_intake *intake);

/* What a launch begun now would see. */
gpur_window gpur_intake_visible(const gpur_intake *intake);

/* Publishes what a draw made now would publish, and begins a turn that is no draw. */
gpur_status gpur_intake_begin_look(gpur_intake *intake);

/* GPUR_TOO_FEW: a launch begun now would not see `needed` rows, 1 or more, or fewer than `burn_in` rows have become
 * visible in all, evicted ones included. */
gpur_status gpur_intake_check_launch(const gpur_intake *intake, int64_t needed, int64_t burn_in);

/* Checks the same, publishes by the flush mode and begins a launch. */
gpur_status gpur_intake_begin_launch(gpur_intake *intake, int64_t needed, int64_t burn_in);

/*
 * The time that appends take beside waiting, which the intake counts. Asking the clock takes as long as copying a small
 * row, so of small calls one in GPUR_CLOCK_EVERY is timed and stands for as many; a prime, so that it meets calls that
 * fill a block as often as others.
 */

enum { GPUR_CLOCK_EVERY = 13, GPUR_CLOCK_SMALL = 16384 };

typedef struct gpur_append_clock {
    double begin, waited; /* the moment, and what all appends had waited until then */
    int weight;           /* calls that this one stands for; 0: it is not timed */
} gpur_append_clock;

/* With the intake's lock held. */
static inline gpur_append_clock gpur_append_clock_begin(gpur_intake *intake, int64_t rows)
{
    gpur_append_clock clock = {0, intake->wait_seconds, 1};
    if (rows * intake->staging.pitch <= GPUR_CLOCK_SMALL)
        clock.weight = ++intake->small_calls % GPUR_CLOCK_EVERY == 0 ? GPUR_CLOCK_EVERY : 0;
    clock.begin = clock.weight ? gpur_clock_seconds() : 0;
    return clock;
}

/* With the lock held, too. */
static inline void gpur_append_clock_end(const gpur_append_clock *clock, gpur_intake *intake)
{
    if (clock->weight == 0)
        return;
    const double busy = gpur_clock_seconds() - clock->begin - (intake->wait_seconds - clock->waited);
    intake->busy_seconds += busy > 0 ? clock->weight * busy : 0; /* other threads may have waited meanwhile */
}

#endif
