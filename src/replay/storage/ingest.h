/* SPDX-License-Identifier: MIT */
/*
 * Ingest: the path from the writers' threads to the ring. Writers claim rows of the open staging block under a lock,
 * fill them without it, and commit them. The last commit of a full block uploads it. A flush, or a consumer that begins
 * a launch under GPUR_FLUSH_AUTO, uploads a block that is not full.
 */
#pragma once

#include "base/clock.h"
#include "replay/storage/ring.h"
#include "replay/storage/staging.h"

typedef struct gpur_ingest {
    const gpur_storage *storage;
    gpur_ring *ring;
    gpur_staging staging;
    int32_t when_full;
    int64_t writing;      /* claims that have not been committed */
    int64_t staged;       /* rows claimed and not uploaded */
    int64_t next_id;      /* id of the next row to be claimed */
    int32_t flushing;     /* flushes that wait for all claims to be committed; until then there are no new claims */
    int32_t active_calls; /* writer calls between gpur_ingest_begin_call and gpur_ingest_end_call */
    int32_t paused;       /* 1: no writer call may begin */

    int64_t appended, waits, truncated_on_close; /* statistics */
    double wait_seconds, busy_seconds;           /* busy: time in appends without the waiting */
    uint64_t small_calls;                        /* appends that gpur_append_clock_begin took for small */
} gpur_ingest;

gpur_status gpur_ingest_build(gpur_ingest *ingest, const gpur_storage *storage, gpur_ring *ring);
void gpur_ingest_destroy(gpur_ingest *ingest); /* after both streams; also after a failed build */

/*
 * gpur_ingest_begin_call and gpur_ingest_end_call bracket every writer call that adds rows or changes the writer's
 * state: the first takes the window lock, the second releases it. A checkpoint pauses the ingest and waits for the
 * calls in progress, so it never sees half of one; a call that begins in a pause waits, without the lock, for its end.
 */
void gpur_ingest_begin_call(gpur_ingest *ingest);
void gpur_ingest_end_call(gpur_ingest *ingest);

/* gpur_ingest_begin_call without waiting. 0 if another thread holds the lock or the ingest is paused; the lock is not
 * held then. */
int gpur_ingest_try_begin_call(gpur_ingest *ingest);

/* All functions below require the window lock, and signal its condition variable when a claim is committed, a
 * block becomes spare, or a flush or a pause ends. */

/* Pauses the ingest: blocks new writer calls, waits for those in progress, and uploads everything staged. The next row
 * starts a new block. The ingest stays paused, even after a failure, until gpur_ingest_resume. One thread at a time. */
gpur_status gpur_ingest_pause(gpur_ingest *ingest);
void gpur_ingest_resume(gpur_ingest *ingest);

typedef struct gpur_claim {
    gpur_staging_block *block;
    unsigned char *rows; /* (count, pitch); no other thread uses them before the commit */
    int64_t count;
    int64_t first_id; /* of its rows. Blocks are uploaded in the order of their opening, so ids follow the claims */
    unsigned char *frames; /* GPUR_LAYOUT_FRAMES: those claimed with the rows, of which the first has this id */
    int64_t first_frame;
} gpur_claim;

/*
 * Claims 1 to `wanted` rows; with GPUR_LAYOUT_FRAMES always one. Releases the lock while it waits for a flush in
 * progress and, if `waits` is 1, for a staging block.
 *
 *   GPUR_WOULD_BLOCK  all blocks are in use, and `waits` is 0
 */
gpur_status gpur_ingest_claim(gpur_ingest *ingest, int64_t wanted, int waits, gpur_claim *claim);

/* Claims exactly so many rows and frames, 0 to as many as one staging block has room for, and otherwise does what
 * gpur_ingest_claim does. The caller records the rows in the frame index before it releases the lock. */
gpur_status gpur_ingest_claim_all(gpur_ingest *ingest, int64_t rows, int64_t frames, int waits, gpur_claim *claim);

/* GPUR_LAYOUT_FRAMES: claims memory for one more frame of the claimed row; `id` gets the frame's id. To be called
 * between claim and commit without releasing the lock, at most as often as a row can have frames. */
unsigned char *gpur_ingest_claim_frame(gpur_ingest *ingest, const gpur_claim *claim, int64_t *id);

/* 1 if appends wait for a staging block (GPUR_WHEN_FULL_WAIT). */
static inline int gpur_ingest_may_wait(const gpur_ingest *ingest)
{
    return ingest->when_full == GPUR_WHEN_FULL_WAIT;
}

/* Counts rows that were uploaded without a claim. */
void gpur_ingest_count_uploaded(gpur_ingest *ingest, int64_t rows);

/* Waits until no flush is in progress. While the lock is held, claims then wait only if no staging block is free. */
void gpur_ingest_wait_flush(gpur_ingest *ingest);

/* 1 if `wanted` rows can be claimed now, in one or several claims, without waiting. */
int gpur_ingest_has_room(const gpur_ingest *ingest, int64_t wanted);

/* 1 if claiming `wanted` rows fills a block, so that the commit may upload it. */
int gpur_ingest_fills_block(const gpur_ingest *ingest, int64_t wanted);

/* Commits the rows of a claim, and uploads closed blocks without open claims. */
gpur_status gpur_ingest_commit(gpur_ingest *ingest, const gpur_claim *claim);

/* Fast path, GPUR_LAYOUT_ROWS only: claims and commits `count` rows and returns their memory, which the caller must
 * fill before it releases the lock. NULL if there is no open block, a flush is in progress, or the rows would fill the
 * block. */
static inline unsigned char *gpur_ingest_claim_under_lock(gpur_ingest *ingest, int64_t count)
{
    const gpur_staging *const staging = &ingest->staging;
    gpur_staging_block *const block = staging->open;
    if (!block || ingest->flushing > 0 || count >= staging->block_rows - block->filled)
        return NULL;
    unsigned char *const rows = block->rows + block->filled * staging->pitch;
    block->filled += count;
    ingest->next_id += count;
    ingest->staged += count;
    ingest->appended += count;
    return rows;
}

/* 1 if nothing is staged, claimed or being flushed. Rows may then bypass the staging blocks, and ids still follow the
 * order of appends. */
int gpur_ingest_is_empty(const gpur_ingest *ingest);

/* Flushes: waits until all rows claimed before this call are committed, and uploads them. */
gpur_status gpur_ingest_flush(gpur_ingest *ingest);

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

/* Requires the window lock. */
static inline gpur_append_clock gpur_append_clock_begin(gpur_ingest *ingest, int64_t rows)
{
    gpur_append_clock clock = {0, ingest->wait_seconds, 1};
    if (rows * ingest->staging.pitch <= GPUR_CLOCK_SMALL)
        clock.weight = ++ingest->small_calls % GPUR_CLOCK_EVERY == 0 ? GPUR_CLOCK_EVERY : 0;
    clock.begin = clock.weight ? gpur_clock_seconds() : 0;
    return clock;
}

/* Requires the window lock. */
static inline void gpur_append_clock_end(const gpur_append_clock *clock, gpur_ingest *ingest)
{
    if (clock->weight == 0)
        return;
    const double busy = gpur_clock_seconds() - clock->begin - (ingest->wait_seconds - clock->waited);
    ingest->busy_seconds += busy > 0 ? clock->weight * busy : 0; /* wait_seconds has other threads' waits, too */
}
