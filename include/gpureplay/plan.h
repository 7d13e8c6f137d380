/* SPDX-License-Identifier: MIT */
/* How many bytes a replay takes, before there is one. */
#ifndef GPUREPLAY_PLAN_H
#define GPUREPLAY_PLAN_H

#include "gpureplay/replay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a replay would take, in bytes. Needs no device. */
typedef struct gpur_replay_plan {
    uint64_t size;         /* sizeof(gpur_replay_plan), as the caller was compiled: set it before the call */
    int64_t row_bytes;     /* a packed row as the caller writes it: fields in order, each aligned to its own type, the
                              whole to the largest of them, as a C struct of those members would be */
    int64_t row_pitch;     /* the same row on the device: row_bytes rounded up to 64. GPUR_LINKED: links in place of obs
                              and next_obs, rounded up to 32 */
    int64_t ring_bytes;    /* device: capacity x row_pitch */
    int64_t feed_bytes;    /* device: blocks of the scatter feed, the visible window */
    int64_t pinned_bytes;  /* host, pinned on CUDA: staging_blocks x update_size x row_pitch, and 2 x max_batch ids;
                              of a prioritized replay as many priorities, and 256 bytes more; GPUR_LINKED: also the
                              staging blocks' frames */
    int64_t batch_bytes;   /* device: one batch of max_batch; there are as many as were alive at once, each for its
                              size */
    int64_t device_bytes;  /* ring_bytes + feed_bytes + priority_bytes + frame_ring_bytes: what gpur_replay_create takes
                              at once */
    int64_t priority_bytes; /* device: of a prioritized replay 8.57 bytes a transition (8.6 with
                               GPUR_WEIGHT_NORM_MEMORY), and 16 for each of max_batch; else 0 */
    int64_t frames;        /* GPUR_LINKED: frames kept; else 0, as all that follows */
    int64_t frame_bytes;   /* of one frame */
    int64_t frame_pitch;   /* the same on the device and in staging, rounded up to 16 */
    int64_t frame_ring_bytes; /* device: frames x frame_pitch */
    int64_t frame_reach;   /* how many frames back a transition may link before its frame is stored again */
} gpur_replay_plan;

/* Plans without allocating. Any thread. GPUR_INVALID_ARGUMENT as gpur_replay_create, or `plan->size` was not set. */
GPUR_API gpur_status gpur_replay_plan_bytes(const gpur_replay_config *config, gpur_replay_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
