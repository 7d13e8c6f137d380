/* SPDX-License-Identifier: MIT */
/*
 * Pinned blocks between the writers and the feed. One block is open at a time and all writers fill it, so that blocks
 * are whole however many writers there are, and an idle writer holds none. A block goes
 *
 *   spare (its last copy may still run) -> open -> closed (full; perhaps a writer is still at it) -> fed -> spare
 *
 * Not locked: the intake is.
 */
#ifndef GPUR_REPLAY_STORAGE_STAGING_H
#define GPUR_REPLAY_STORAGE_STAGING_H

#include "device/device.h"
#include "replay/storage/layout.h"

typedef struct gpur_block {
    unsigned char *rows;   /* (block_rows, pitch) pinned */
    unsigned char *frames; /* (block_frames, frame_pitch) pinned */
    gpur_event *copied;    /* its last copy */
    int64_t filled;        /* rows given to writers */
    int64_t fed;           /* rows handed to the feed; a block may go in parts */
    int64_t frames_filled, frames_fed;
    int64_t writing; /* writers that have not finished */
} gpur_block;

/* Blocks in the order in which they came. */
typedef struct gpur_block_queue {
    gpur_block *blocks[GPUR_MAX_STAGING_BLOCKS]; /* (count) */
    int32_t count;
} gpur_block_queue;

typedef struct gpur_staging {
    gpur_device *device; /* not held */
    unsigned char *memory;
    gpur_block blocks[GPUR_MAX_STAGING_BLOCKS]; /* (count) */
    int32_t count;
    int64_t block_rows, pitch;
    int64_t block_frames, frame_pitch; /* 0: packed */
    int64_t row_frames;                /* most of one row */
    gpur_block *open;                  /* or NULL */
    gpur_block_queue closed, spare;
} gpur_staging;

gpur_status gpur_staging_build(gpur_staging *staging, gpur_device *device, const gpur_replay_config *config,
                               const gpur_storage *storage);
void gpur_staging_destroy(gpur_staging *staging); /* tolerates half-built */

void gpur_queue_push(gpur_block_queue *queue, gpur_block *block);
gpur_block *gpur_queue_take(gpur_block_queue *queue, int32_t place);

/* A spare block whose copy is done, taken out of the queue, or NULL. Asking what is done is harmless here: which memory
 * a row passes through leaves no trace. The newest is the one that the CPU's cache still holds. */
gpur_block *gpur_staging_take_idle(gpur_staging *staging);

/* 1 when one more row, with as many frames as a row may have, fits in the block. */
int gpur_block_has_room(const gpur_staging *staging, const gpur_block *block);

/* Forgets what was in it. */
void gpur_block_clear(gpur_block *block);

/* Rows that are sure to have room in an empty block, whatever frames they have. */
int64_t gpur_staging_block_room(const gpur_staging *staging);

/* Rows that could be claimed now without waiting for a copy. */
int64_t gpur_staging_room(const gpur_staging *staging);

#endif
