/* SPDX-License-Identifier: MIT */
/*
 * How transitions lie in memory. Packed: a row has all fields. Linked: a row has links to frames, and all fields but
 * obs and next_obs; the frames lie in a ring of their own.
 *
 * A link is 0, no frame, or 1 + the slot of a frame. Frames have ids like rows, counted up in the order of claims; the
 * frame of an id lies in slot id % frames. A row has 2 x stack links, those of obs and then those of next_obs, the
 * oldest frame first.
 */
#ifndef GPUR_REPLAY_STORAGE_LAYOUT_H
#define GPUR_REPLAY_STORAGE_LAYOUT_H

#include "replay/config.h"

enum {
    GPUR_LINKED_ROW_GRANULE = 32,
    GPUR_FRAME_GRANULE = 16,
    GPUR_MAX_LINKS = 2 * GPUR_MAX_STACK, /* of one row */
};

typedef struct gpur_linking {
    int32_t stack;   /* 0: packed, and nothing else counts */
    int32_t is_last; /* the stack is the last axis of an observation */
    int32_t repeats; /* an episode's first frame stands for those before it */
    int32_t per_row; /* most frames that one row links to */
    int64_t element; /* bytes of one number */
    int64_t frame_bytes, pitch;
    int64_t frames;       /* slots of the ring */
    int64_t block_frames; /* of a staging block */
    int64_t reach;        /* a row links to no frame that was stored longer ago than so many others */
    int64_t group_rows;   /* rows that leave together when they leave for want of frames */
} gpur_linking;

typedef struct gpur_storage {
    gpur_schema rows;                /* what a row of the ring holds; packed: the schema as it was given */
    int32_t stored[GPUR_MAX_FIELDS]; /* of each field of the schema, which of `rows` it is; -1: made of frames */
    int32_t links;                   /* the field of `rows` that has the links, or -1 */
    gpur_linking linking;
    int64_t secure; /* rows that are sure to have room at once, whatever frames they link to */
} gpur_storage;

/* Refuses a linked layout that is none. Resolves what depends on the layout: update_size and max_batch that are 0. */
gpur_status gpur_storage_resolve(gpur_replay_config *config, const gpur_schema *schema);

/* Refuses more frames than a link can tell apart. */
gpur_status gpur_storage_check(const gpur_replay_config *checked, const gpur_schema *schema);

/* How far back one environment's steps may link: where the ring reaches so many frames for every environment, none is
 * stored twice. */
int64_t gpur_frames_of_env(const gpur_replay_config *config);

/* Of a config that has been checked. */
gpur_storage gpur_storage_of(const gpur_replay_config *checked, const gpur_schema *schema);

#endif
