/* SPDX-License-Identifier: MIT */
/*
 * The replay again, naive: a list of every row ever appended and where each one is. No ring, no window, no streams;
 * every question is a walk over the list. Rows are known by their place in the order of appending, which is their id.
 *
 * Rules from the design: rows gather in blocks of `block_rows`; a full block is uploaded; an upload makes room by
 * evicting the oldest visible rows; what a launch may still be reading is overwritten behind that launch, and is
 * published one launch later. Samples: Philox4x32-10 [Salmon et al. 2011], written out again here.
 */
#pragma once

#include "gpureplay/replay.h"

enum { ROW_STAGED, ROW_PUBLISH_AFTER, ROW_PUBLISH_NEXT, ROW_VISIBLE, ROW_GONE };

typedef struct reference_replay {
    int64_t capacity, block_rows, kept; /* kept: rows that stay visible while a block comes */
    int32_t flush;
    unsigned char *rows; /* (room) where each row is */
    int64_t count, room;
    int64_t gone;         /* rows 0 to gone - 1 have left */
    int64_t block_filled; /* rows in the open block, uploaded ones included */
    int64_t straight;     /* an append of as many rows that finds nothing staged is uploaded at once; 0: none is */
    int64_t refreshed;    /* rows that reference_refresh has published since the last launch */
    int64_t launches;
} reference_replay;

/* `settings` with every default resolved. */
void reference_begin(reference_replay *model, const gpur_replay_config *settings, int64_t room);
void reference_end(reference_replay *model);

void reference_append(reference_replay *model, int64_t count);        /* finished rows in host memory */
void reference_stage(reference_replay *model, int64_t count);         /* rows of steps: always through staging */
void reference_append_arrays(reference_replay *model, int64_t count); /* from device memory */
void reference_flush(reference_replay *model);
void reference_launch(reference_replay *model);  /* what a sample publishes first */
void reference_refresh(reference_replay *model); /* what a call publishes that reads rows but does not sample */
void reference_trim(reference_replay *model, int64_t keep); /* after reference_refresh */
void reference_load(reference_replay *model);    /* saved, and loaded into a new replay */

int64_t reference_count(const reference_replay *model, int where);
int64_t reference_first(const reference_replay *model, int where); /* id, or -1 */
int64_t reference_size(const reference_replay *model);             /* what gpur_replay_size must return */

/* The id of row b of uniform sample number `sample`, of the visible rows. */
int64_t reference_sample(const reference_replay *model, uint64_t seed, uint64_t sample, int64_t b);

/* 128 random bits: out[0] is the lowest word. */
void reference_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]);

/* The upper half of the product of the lowest 64 random bits and n: below n. */
uint64_t reference_random_below(uint64_t seed, uint32_t purpose, uint64_t step, uint32_t lane, uint64_t n);
