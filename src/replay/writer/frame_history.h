/* SPDX-License-Identifier: MIT */
/*
 * With GPUR_LAYOUT_FRAMES: the last frames of each environment, as many as the two stacks of a row can span. Frames are
 * numbered per episode. The first real frame is number stack - 1; lower numbers are padding, either no frame or an
 * alias of another frame. Each entry has the id under which its frame is stored, so that rows link to it instead of
 * storing it again.
 */
#pragma once

#include "replay/replay.h"

enum { GPUR_FRAME_NONE = -1 };

typedef struct gpur_frame_entry {
    int64_t alias_of; /* number of the frame it stands for: its own, a later one (padding), or GPUR_FRAME_NONE */
    int64_t id;       /* id under which the frame is stored, or -1 */
    uint32_t link;    /* link to that id */
} gpur_frame_entry;

typedef struct gpur_frame_history {
    gpur_device *device; /* not retained */
    const gpur_frame_layout *layout;
    int32_t num_envs, observations; /* GPUR_OBSERVATIONS_* */
    int64_t room;                   /* entries per environment: a power of two, enough for a row's two stacks */
    int64_t input_bytes;            /* size of one observation as the caller gives it */
    int64_t *last;                  /* (num_envs) number of the last frame */
    gpur_frame_entry *entries;      /* (num_envs, room) frame f is entry f % room */
    unsigned char *frames;          /* (num_envs, room, frame_bytes) */
    size_t bytes;                   /* size of the allocation that has these three arrays */
} gpur_frame_history;

/* Computes sizes and offsets without allocating memory. `history` must be zeroed. */
void gpur_frame_history_plan(gpur_frame_history *history, const gpur_ring_layout *layout, int32_t num_envs,
                             int32_t observations, int32_t n_step);

/* Does nothing with GPUR_LAYOUT_ROWS. */
gpur_status gpur_frame_history_build(gpur_frame_history *history, gpur_device *device, const gpur_ring_layout *layout,
                                     int32_t num_envs, int32_t observations, int32_t n_step);
void gpur_frame_history_destroy(gpur_frame_history *history); /* also after a failed build */

/* Marks all frames as not stored, so that later rows store them again. */
void gpur_frame_history_invalidate(gpur_frame_history *history);

/* Changes the ids of stored frames: that with id f gets numbers[f] - 1, and with 0 is no longer stored. */
void gpur_frame_history_renumber(gpur_frame_history *history, const uint32_t *numbers);

/* Begins an episode of an environment with its first observation. */
void gpur_frame_history_begin(gpur_frame_history *history, int64_t env, const unsigned char *obs);

/* Gets the environment's current observation, in the form in which the caller gives them. */
void gpur_frame_history_get(const gpur_frame_history *history, int64_t env, unsigned char *obs);

/* Adds the last frame of the environment's next observation. */
void gpur_frame_history_add(gpur_frame_history *history, int64_t env, const unsigned char *obs);

/* Refuses a stack whose older frames are not the environment's last frames. `what` names the array in the message. */
gpur_status gpur_frame_history_check(const gpur_frame_history *history, int64_t env, const unsigned char *obs,
                                     const char *what);

/* Where the frames of rows are stored: with the ring's layout, or in the blocks of a packer. */
typedef struct gpur_frame_store {
    unsigned char *(*claim)(const struct gpur_frame_store *store, int64_t *id); /* memory and id of one more frame */
    void *owner;
    const gpur_claim *rows; /* of a replay: the claim of the row */
    int64_t head;           /* id that the next frame has before the row */
    int64_t slots, reach;   /* as in gpur_frame_layout: a link is 1 + id % slots */
} gpur_frame_store;

/*
 * Writes the links of a row that spans the last `steps` steps. Stores frames that are not stored yet, and again those
 * that are more than `reach` ids old, since a link to such a frame would delay the reuse of its slot. Returns the
 * smallest id that the row links to; the store's head if that is smaller.
 */
int64_t gpur_frame_history_link(gpur_frame_history *history, const gpur_frame_store *store, int64_t env, int64_t steps,
                                uint32_t *links);
