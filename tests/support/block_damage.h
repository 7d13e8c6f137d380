/* SPDX-License-Identifier: MIT */
/* Good blocks of several formats, and ways to damage them, for the test of mutations and the fuzz target. */
#pragma once

#include "gpureplay.h"

enum { BLOCK_KINDS = 4, BLOCK_ROOM = 8192 };

/* A replay, a writer, and a good block of its format. */
typedef struct block_kind {
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_block_format *format;
    unsigned char block[BLOCK_ROOM];
    int64_t bytes;
} block_kind;

/* A format and a block of it, without a replay. To be closed whatever this returns. */
gpur_status block_kind_make(block_kind *k, int32_t kind);

/* 1 when it could be made. Kinds: rows; rows, compressed; frames; frames, compressed. */
int block_kind_open(block_kind *k, gpur_device *device, int32_t kind);
void block_kind_close(block_kind *k);

/* Makes the checksum, and the size of the payload in the header, those of the bytes, if there is a header. */
void block_repair(unsigned char *block, int64_t bytes);

/* What an append could change: counts, positions, and how much is staged. Equal states are equal bytes. */
typedef struct block_state {
    int64_t appended, next_id, staged, writing, frames, recorded, filled, frames_filled, active;
} block_state;
block_state block_state_of(gpur_replay *replay);

/* A checksum of all that can be gathered from the replay; 0 on a failing call. */
uint64_t block_contents(gpur_replay *replay);
