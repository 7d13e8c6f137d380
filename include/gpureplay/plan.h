/* SPDX-License-Identifier: MIT */
/* How much memory a replay takes, before it is created. */
#ifndef GPUREPLAY_PLAN_H
#define GPUREPLAY_PLAN_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What gpur_replay_plan_bytes reports, in bytes except where another unit is given. "Device" is memory of the replay's
 * device, which is host memory where that is the CPU. "Pinned" is host memory, page-locked where the device is a GPU.
 * The members from `frames` on are 0 unless the layout is GPUR_LAYOUT_FRAMES.
 */
typedef struct gpur_replay_plan {
    uint64_t size;            /* sizeof(gpur_replay_plan), as the caller was compiled: set it before the call */
    int64_t row_bytes;        /* one transition as the caller writes it, like a C struct of the fields: fields in order,
                                 each aligned to its type, the whole padded to the widest type */
    int64_t row_pitch;        /* one transition in the ring: row_bytes rounded up to 64. GPUR_LAYOUT_FRAMES: links
                                 replace obs and next_obs, and the sum is rounded up to 32 */
    int64_t ring_bytes;       /* device: capacity x row_pitch */
    int64_t upload_bytes;     /* device: the buffer of GPUR_UPLOAD_SCATTER, and the window (256 bytes) */
    int64_t pinned_bytes;     /* pinned: staging_blocks x block_rows x row_pitch, and 2 x max_batch ids of 8 bytes. A
                                 prioritized replay: 2 x max_batch priorities of 4 bytes and 256 bytes more.
                                 GPUR_LAYOUT_FRAMES: the frames of the staging blocks, too */
    int64_t batch_bytes;      /* device: one batch of max_batch transitions. Batches are allocated when they are first
                                 needed: as many as are in use at the same time, each for its number of transitions
                                 rounded up to a power of two */
    int64_t device_bytes;     /* device: what gpur_replay_create allocates, which is ring_bytes + upload_bytes +
                                 priority_bytes + frame_ring_bytes */
    int64_t priority_bytes;   /* device: for a prioritized replay 8.6 bytes a transition (8.64 with
                                 GPUR_WEIGHT_NORM_MEMORY) and 16 x max_batch; with hindsight 28 bytes a transition
                                 and 8 more, for the rows of episodes; otherwise 0 */
    int64_t frames;           /* number of frames in the ring of frames */
    int64_t frame_bytes;      /* one frame */
    int64_t frame_pitch;      /* one frame on the device and in staging: frame_bytes rounded up to 16 */
    int64_t frame_ring_bytes; /* device: frames x frame_pitch */
    int64_t frame_reach;      /* number of frames: a transition can only link to this many frames, the ones stored last.
                                 An older frame is stored again when a transition needs it */
} gpur_replay_plan;

/*
 * Computes the memory that a replay with these settings will take. Needs no device and allocates nothing. Any thread.
 *
 *   config  as for gpur_replay_create
 *   plan    `size` is set by the caller; the other members are filled in
 *
 *   GPUR_INVALID_ARGUMENT  a setting that gpur_replay_create refuses, NULL, or `plan->size` was not set
 */
GPUR_API gpur_status gpur_replay_plan_bytes(const gpur_replay_config *config, gpur_replay_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
