/* SPDX-License-Identifier: MIT */
/*
 * Staging blocks: pinned memory between the writers and the ring. One block is open at a time and all writers fill it,
 * so blocks become full however many writers there are, and an idle writer occupies none. The states of a block:
 *
 *   spare (its last copy may still run) -> open -> closed (full; a writer may still write to it) -> uploaded -> spare
 *
 * All functions except build and destroy require the window lock.
 */
#pragma once

#include "device/device.h"
#include "replay/storage/layout.h"

typedef struct gpur_staging_block {
    unsigned char *rows;   /* (block_rows, pitch) pinned */
    unsigned char *frames; /* (block_frames, frame_pitch) pinned */
    gpur_event *copied;    /* recorded after its last upload */
    int64_t filled;        /* rows claimed by writers */
    int64_t uploaded;      /* rows uploaded; a block may take several uploads */
    int64_t frames_filled, frames_uploaded;
    int64_t writing; /* claims that are not committed yet */
} gpur_staging_block;

/* Blocks in the order in which they were added. */
typedef struct gpur_staging_queue {
    gpur_staging_block *blocks[GPUR_MAX_STAGING_BLOCKS]; /* (count) */
    int32_t count;
} gpur_staging_queue;

typedef struct gpur_staging {
    gpur_device *device; /* not retained */
    unsigned char *memory;
    gpur_staging_block blocks[GPUR_MAX_STAGING_BLOCKS]; /* (count) */
    int32_t count;
    int64_t block_rows, pitch;
    int64_t block_frames, frame_pitch; /* 0 with GPUR_LAYOUT_ROWS */
    int64_t row_frames;                /* the most frames of one row */
    gpur_staging_block *open;          /* the block that writers fill, or NULL */
    gpur_staging_queue closed, spare;
} gpur_staging;

gpur_status gpur_staging_build(gpur_staging *staging, gpur_device *device, const gpur_replay_config *config,
                               const gpur_ring_layout *layout);
void gpur_staging_destroy(gpur_staging *staging); /* also after a failed build */

void gpur_queue_push(gpur_staging_queue *queue, gpur_staging_block *block);
gpur_staging_block *gpur_queue_remove(gpur_staging_queue *queue, int32_t index); /* removes the block at this index */

/* Removes a spare block whose last copy is done from the queue; NULL if there is none. Results stay reproducible
 * although this polls events, because it does not matter which block a row passes through. The block that became spare
 * last is tried first: the CPU's caches may still hold it. */
gpur_staging_block *gpur_staging_pop_idle(gpur_staging *staging);

/* 1 if so many more rows and frames fit into the block. */
int gpur_staging_block_has_room(const gpur_staging *staging, const gpur_staging_block *block, int64_t rows,
                                int64_t frames);

/* Makes the block empty. */
void gpur_staging_block_clear(gpur_staging_block *block);

/* Number of rows that always fit into an empty block, however many frames each has. */
int64_t gpur_staging_block_room(const gpur_staging *staging);

/* Number of rows that can be claimed now without waiting for a copy. */
int64_t gpur_staging_room(const gpur_staging *staging);
