/* SPDX-License-Identifier: MIT */
/*
 * Ingest: the path from the writers' threads to the ring. Writers claim rows of the open staging block under a lock,
 * fill them without it, and commit them. The last commit of a full block uploads it. A flush, or a consumer that begins
 * a launch under GPUR_FLUSH_AUTO, uploads a block that is not full.
 */
#ifndef GPUR_REPLAY_STORAGE_INGEST_H
#define GPUR_REPLAY_STORAGE_INGEST_H

#include "base/mutex.h"
#include "replay/storage/ring.h"
#include "replay/storage/staging.h"
#include "base/clock.h"

typedef struct gpur_intake {
    gpur_quick_lock lock; /* protects this whole struct; notified of commits, spare blocks, ended flushes and pauses */
    gpur_staging staging;
    gpur_feed feed;
    gpur_frame_log frames; /* GPUR_LINKED */
    int32_t flush, when_full;
    int64_t writing;  /* claims that have not been committed */
    int64_t staged;   /* rows claimed and not uploaded */
    int64_t ids;      /* id of the next row to be claimed */
    int32_t sealing;  /* flushes that wait for all claims to be committed; until then there are no new claims */
    int32_t inside;   /* writer calls between gpur_intake_enter and gpur_intake_leave */
    int32_t frozen;   /* 1: paused, no writer call may begin */

    int64_t appended, waits, episodes_cut; /* statistics */
    double wait_seconds, busy_seconds;     /* busy: time in appends without the waiting */
    uint64_t small_calls;                  /* appends that gpur_append_clock_begin took for small */
} gpur_intake;

gpur_status gpur_intake_build(gpur_intake *intake, gpur_device *device, const gpur_replay_config *config,
                              const gpur_storage *storage, const gpur_replay_plan *plan);
void gpur_intake_destroy(gpur_intake *intake); /* also after a failed build; waits for enqueued work */

static inline void gpur_intake_lock(gpur_intake *intake)
{
    gpur_quick_lock_take(&intake->lock);
}

static inline void gpur_intake_unlock(gpur_intake *intake)
{
    gpur_quick_lock_give(&intake->lock);
}

/* Takes the lock and begins a writer call (gpur_intake_enter) without waiting. 0 if another thread holds the lock or
 * the ingest is paused; the lock is not held then. */
int gpur_intake_try_enter(gpur_intake *intake);

/* All functions below require the lock. */

/* Waits until the ingest is not paused; releases the lock while it waits. */
void gpur_intake_await_thaw(gpur_intake *intake);

/* gpur_intake_enter and gpur_intake_leave bracket every writer call that adds rows or changes the writer's state. A
 * checkpoint pauses the ingest and waits for the calls in progress, so it never sees half of one. gpur_intake_enter
 * waits while the ingest is paused. */
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

/* Pauses the ingest: blocks new writer calls, waits for those in progress, and uploads everything staged. The next row
 * starts a new block. The ingest stays paused, even after a failure, until gpur_intake_thaw. One thread at a time. */
gpur_status gpur_intake_freeze(gpur_intake *intake);
void gpur_intake_thaw(gpur_intake *intake);

typedef struct gpur_claim {
    gpur_block *block;
    unsigned char *rows; /* (count, pitch); no other thread uses them before the commit */
    int64_t count;
    int64_t first_id; /* of its rows. Blocks are uploaded in the order of their opening, so ids follow the claims */
} gpur_claim;

/*
 * Claims 1 to `wanted` rows; with GPUR_LINKED always one. Releases the lock while it waits for a flush in progress and,
 * if `waits` is 1, for a staging block.
 *
 *   GPUR_WOULD_BLOCK  all blocks are in use, and `waits` is 0
 */
gpur_status gpur_intake_claim(gpur_intake *intake, int64_t wanted, int waits, gpur_claim *claim);

/* GPUR_LINKED: claims memory for one more frame of the claimed row; `id` gets the frame's id. To be called between
 * claim and commit without releasing the lock, at most as often as a row can have frames. */
unsigned char *gpur_intake_claim_frame(gpur_intake *intake, const gpur_claim *claim, int64_t *id);

/* 1 if appends wait for a staging block (GPUR_WHEN_FULL_WAIT). */
static inline int gpur_intake_waits(const gpur_intake *intake)
{
    return intake->when_full == GPUR_WHEN_FULL_WAIT;
}

/* Counts rows that were uploaded without a claim. */
void gpur_intake_count_fed(gpur_intake *intake, int64_t rows);

/* Waits until no flush is in progress. While the lock is held, claims then wait only if no staging block is free. */
void gpur_intake_settle(gpur_intake *intake);

/* 1 if `wanted` rows can be claimed now, in one or several claims, without waiting. */
int gpur_intake_has_room(const gpur_intake *intake, int64_t wanted);

/* 1 if claiming `wanted` rows fills a block, so that the commit may upload it. */
int gpur_intake_fills_block(const gpur_intake *intake, int64_t wanted);

/* Commits the rows of a claim, and uploads closed blocks without open claims. */
gpur_status gpur_intake_commit(gpur_intake *intake, const gpur_claim *claim);

/* Fast path, GPUR_PACKED only: claims and commits `count` rows and returns their memory, which the caller must fill
 * before it releases the lock. NULL if there is no open block, a flush is in progress, or the rows would fill the
 * block. */
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

/* 1 if nothing is staged, claimed or being flushed. Rows may then bypass the staging blocks, and ids still follow the
 * order of appends. */
int gpur_intake_is_clear(const gpur_intake *intake);

/* Flushes: waits until all rows claimed before this call are committed, and uploads them. */
gpur_status gpur_intake_seal(gpur_intake *intake);

/* The window that a launch would see if it began now. */
gpur_window gpur_intake_visible(const gpur_intake *intake);

/* Publishes what a sample would publish now, and begins a launch that reads rows without sampling. */
gpur_status gpur_intake_begin_look(gpur_intake *intake);

/* GPUR_TOO_FEW: a launch that began now would see fewer than `needed` rows (1 or more), or fewer than `burn_in` rows
 * have become visible so far, evicted ones included. */
gpur_status gpur_intake_check_launch(const gpur_intake *intake, int64_t needed, int64_t burn_in);

/* Makes the same checks, publishes as the flush mode says and begins a launch. */
gpur_status gpur_intake_begin_launch(gpur_intake *intake, int64_t needed, int64_t burn_in);

/*
 * Measures busy_seconds: the time that appends take without the waiting, which is measured elsewhere. Reading the clock
 * takes as long as copying a small row, so of small calls one in GPUR_CLOCK_EVERY is timed and counts as that many. The
 * number is prime, so that calls that fill a block are timed as often as others.
 */

enum { GPUR_CLOCK_EVERY = 13, GPUR_CLOCK_SMALL = 16384 /* bytes */ };

typedef struct gpur_append_clock {
    double begin, waited; /* the time, and wait_seconds at that time */
    int weight;           /* calls that this one counts as; 0: it is not timed */
} gpur_append_clock;

/* Requires the ingest lock. */
static inline gpur_append_clock gpur_append_clock_begin(gpur_intake *intake, int64_t rows)
{
    gpur_append_clock clock = {0, intake->wait_seconds, 1};
    if (rows * intake->staging.pitch <= GPUR_CLOCK_SMALL)
        clock.weight = ++intake->small_calls % GPUR_CLOCK_EVERY == 0 ? GPUR_CLOCK_EVERY : 0;
    clock.begin = clock.weight ? gpur_clock_seconds() : 0;
    return clock;
}

/* Requires the ingest lock. */
static inline void gpur_append_clock_end(const gpur_append_clock *clock, gpur_intake *intake)
{
    if (clock->weight == 0)
        return;
    const double busy = gpur_clock_seconds() - clock->begin - (intake->wait_seconds - clock->waited);
    intake->busy_seconds += busy > 0 ? clock->weight * busy : 0; /* wait_seconds has other threads' waits, too */
}

#endif
