/* SPDX-License-Identifier: MIT */
/*
 * The way of packed blocks and episodes from actors into the run. A packed block is checked once, when it is opened
 * here; it then waits until the run is open and the limiter lets it in, behind the blocks that came before it, and is
 * appended. Actors in threads and callers wait with their block. The supervisor's thread, which must see to actors
 * meanwhile, tries instead, and is woken when its block may go in.
 */
#pragma once

#include "run/apex/actor.h"
#include "run/apex/handle.h"

/* While it waits it is in the list of the run, so that blocks are inserted in the order in which they came: else one
 * actor, whose weights are new, could insert block after block while those of others get older. */
struct gpur_intake_block {
    gpur_slot *slot;
    gpur_block_view view;
    int64_t steps;      /* of the environment that its actor had taken */
    int32_t is_new;     /* 0: it was taken before, which is counted and no error */
    int32_t is_in_line; /* 1: it is in the list */
    int32_t is_polled;  /* 1: the supervisor's thread has it, which waits for other things meanwhile, and is woken */
    gpur_intake_block *next;
    double held_since; /* seconds when the limiter began to hold it; 0: it does not */
};

/* Checks a block of an own actor, and its number in the sequence. To be closed whatever this returns.
 *
 *   GPUR_INVALID_ARGUMENT, GPUR_FILE_ERROR  the block is refused, and counted */
gpur_status gpur_intake_open(gpur_slot *slot, const void *bytes, int64_t count, int64_t steps,
                             gpur_intake_block *block);

/* The same for a remote actor's block, whose header has been read, and has no more rows than a block of this run. If
 * the block is undamaged, its incarnation is registered: so a damaged one cannot pass for another actor. */
gpur_status gpur_intake_open_remote(gpur_slot *slot, const void *bytes, const gpur_block_header *header,
                                    gpur_intake_block *block);

/* Whether a call waits until the run takes what came; of GPUR_SLOT_CALLER it waits for an open run a moment only. One
 * that tries returns GPUR_WOULD_BLOCK instead, and may be repeated. */
typedef enum gpur_intake_mode { GPUR_INTAKE_TRIES, GPUR_INTAKE_WAITS } gpur_intake_mode;

/* Appends an open block.
 *
 *   GPUR_INVALID_ARGUMENT, GPUR_FILE_ERROR  the block is refused, and counted
 *   GPUR_INTERRUPTED                        the run is being destroyed, or has ended by an error
 *   GPUR_WOULD_BLOCK                        the run is not open, or the limiter holds the block
 *   others                                  the run cannot go on */
gpur_status gpur_intake_insert(gpur_intake_block *block, gpur_intake_mode mode);
void gpur_intake_close(gpur_intake_block *block); /* accepts a zeroed one */

/* 1 if a status is the fault of what came, and not of the run. */
static inline int gpur_intake_is_refusal(gpur_status status)
{
    return status == GPUR_INVALID_ARGUMENT || status == GPUR_FILE_ERROR;
}

/* Takes an episode when the run is open. */
gpur_status gpur_intake_take_episode(gpur_slot *slot, const gpur_actor_episode *episode, int64_t steps,
                                     gpur_intake_mode mode);

/* Counts an episode, and adds its event. Under the lock. */
void gpur_intake_add_episode(gpur_slot *slot, const gpur_actor_episode *episode);

/* Takes an actor's last number of steps. */
void gpur_intake_take_end(gpur_slot *slot, int64_t steps);

/* Counts a block that a status refuses, which may be before it came here; returns the status. */
gpur_status gpur_intake_judge(gpur_apex *apex, gpur_status status);

/* Counts the start of a remote actor, and the end of the incarnation before it. Under the lock. */
void gpur_intake_count_start(gpur_slot *slot);

/* Wakes those who wait with a block, after the limiter or the gate has changed. Under the lock. */
void gpur_intake_notify(gpur_apex *apex);
