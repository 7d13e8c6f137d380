/* SPDX-License-Identifier: MIT */
/*
 * The layout of transitions in the ring. With GPUR_LAYOUT_ROWS a row has all fields. With GPUR_LAYOUT_FRAMES it has
 * links to frames in place of obs and next_obs, and all other fields; the frames lie in a ring of their own.
 *
 * A link is 0 (no frame) or 1 + the slot of a frame. Frames have ids, which count up in the order in which frames are
 * claimed; the frame with an id lies in slot id % frames. A row has 2 x stack links: those of obs, then those of
 * next_obs, each with the oldest frame first.
 */
#pragma once

#include "replay/config.h"

enum {
    GPUR_LINK_ROW_GRANULE = 32,
    GPUR_FRAME_GRANULE = 16,
    GPUR_MAX_LINKS = 2 * GPUR_MAX_STACK, /* of one row */
};

typedef struct gpur_frame_layout {
    int32_t stack;          /* frames in an observation; 0: GPUR_LAYOUT_ROWS, and no other member is used */
    int32_t stack_is_last;  /* 1: the stack is the last axis of an observation */
    int32_t pad_repeats;    /* 1: an episode is padded with its first frame; 0: with zeros */
    int32_t frames_per_row; /* the most frames that one row can link to */
    int32_t has_floats;     /* 1: the numbers of an observation are floats */
    int64_t element;        /* bytes of one number of an observation */
    int64_t frame_bytes, pitch;
    int64_t frames;       /* slots of the ring of frames */
    int64_t block_frames; /* frames that a staging block has room for */
    int64_t reach;        /* a row links to no frame more than so many ids before its own first frame */
    int64_t group_rows;   /* rows that are evicted together when frame slots are needed */
} gpur_frame_layout;

typedef struct gpur_ring_layout {
    gpur_schema rows;                /* the schema of the ring's rows; GPUR_LAYOUT_ROWS: the caller's schema */
    int32_t stored[GPUR_MAX_FIELDS]; /* for each field of the caller's schema its index in `rows`; -1: made of frames */
    int32_t links;                   /* index in `rows` of the field with the links, or -1 */
    gpur_frame_layout frame_layout;
    int64_t guaranteed_rows; /* rows that always fit at the same time, however many frames each links to */
} gpur_ring_layout;

/* Refuses layout settings that are out of range or, with GPUR_LAYOUT_FRAMES, do not fit the schema. Replaces a
 * block_rows or max_batch of 0 by its default, which depends on the layout. */
gpur_status gpur_ring_layout_resolve(gpur_replay_config *config, const gpur_schema *schema);

/* The rows that stay visible while a full ring receives blocks: as many as max_batch, but without
 * GPUR_UNIFORM_DISTINCT, where a sample needs one row, at most what half of the ring has room for, even if rows share
 * no frames. */
int64_t gpur_kept_rows(const gpur_replay_config *checked);

/* Refuses settings that need more frame slots than a link can address. */
gpur_status gpur_ring_layout_check(const gpur_replay_config *checked, const gpur_schema *schema);

/* Frames that one environment's rows link back over. If gpur_frame_layout.reach is at least this times the number of
 * environments, no frame is stored twice. */
int64_t gpur_frames_per_env(const gpur_replay_config *config);

/* Computes the layout of a config that gpur_ring_layout_resolve has accepted. */
gpur_ring_layout gpur_ring_layout_of(const gpur_replay_config *checked, const gpur_schema *schema);
