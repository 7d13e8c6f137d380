/* SPDX-License-Identifier: MIT */
/* The memory that a replay will take, told before it is created. */
#ifndef GPUREPLAY_PLAN_H
#define GPUREPLAY_PLAN_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What gpur_replay_plan_bytes reports, in bytes unless another unit is named. "Device" memory is the CPU's own where
 * the device is the CPU; "pinned" memory is host memory, which is page-locked where the device is a GPU. The members
 * from `frames` on are 0 unless the layout is GPUR_LINKED.
 */
typedef struct gpur_replay_plan {
    uint64_t size;            /* sizeof(gpur_replay_plan), as the caller was compiled: set it before the call */
    int64_t row_bytes;        /* one transition as the caller writes it, laid out as a C struct of the fields would be:
                                 fields in order, each aligned to its type, the whole to the widest type */
    int64_t row_pitch;        /* one transition in the ring: row_bytes rounded up to 64. GPUR_LINKED: links replace obs
                                 and next_obs, and the sum is rounded up to 32 */
    int64_t ring_bytes;       /* device: capacity x row_pitch */
    int64_t feed_bytes;       /* device: the block of the scatter feed, and the visible window */
    int64_t pinned_bytes;     /* pinned: staging_blocks x update_size x row_pitch, and 2 x max_batch ids. A prioritized
                                 replay has 2 x max_batch priorities and 256 bytes more; GPUR_LINKED has the frames of
                                 the staging blocks */
    int64_t batch_bytes;      /* device: one batch of max_batch. Batches are allocated when they are drawn: there are as
                                 many as were held at the same time, each of its own size */
    int64_t device_bytes;     /* device: what gpur_replay_create allocates; ring_bytes + feed_bytes + priority_bytes +
                                 frame_ring_bytes */
    int64_t priority_bytes;   /* device: for a prioritized replay 8.57 bytes a transition (8.6 with
                                 GPUR_WEIGHT_NORM_MEMORY) and 16 for each of max_batch; else 0 */
    int64_t frames;           /* how many frames are kept */
    int64_t frame_bytes;      /* one frame */
    int64_t frame_pitch;      /* one frame on the device and in staging: frame_bytes rounded up to 16 */
    int64_t frame_ring_bytes; /* device: frames x frame_pitch */
    int64_t frame_reach; /* how many frames back a transition can link to a frame before that frame has to be stored
                            again */
} gpur_replay_plan;

/*
 * Computes the plan of a replay with these settings. Needs no device and allocates nothing. Any thread.
 *
 *   GPUR_INVALID_ARGUMENT  for the settings that gpur_replay_create refuses, for NULL, or if `plan->size` was not set
 */
GPUR_API gpur_status gpur_replay_plan_bytes(const gpur_replay_config *config, gpur_replay_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
