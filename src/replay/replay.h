/* SPDX-License-Identifier: MIT */
/*
 * The replay handle. A transition passes through its members from top to bottom: writers claim rows of a staging block
 * (ingest), the block is uploaded into the ring, the window is extended over its rows, and consumers sample from the
 * window into batches of the pool.
 */
#pragma once

#include "base/mutex.h"
#include "gpureplay/writer.h"
#include "replay/hindsight/hindsight.h"
#include "replay/lanes/lanes.h"
#include "replay/priority/sum_tree.h"
#include "replay/sampler/batch.h"
#include "replay/sampler/consumer.h"
#include "replay/storage/ingest.h"

struct gpur_replay {
    gpur_device *device; /* retained */
    gpur_replay_config config;
    gpur_schema schema;      /* as the caller gave it */
    gpur_ring_layout layout; /* layout of rows and frames in their rings */
    gpur_storage storage;    /* what ingest, ring and window see of this handle */

    /* The window lock protects all members from here to `hindsight`. A thread that needs the consumer lock, too,
     * takes that one first. */
    gpur_mutex window_lock;
    gpur_writer *writers;                     /* list in order of creation */
    struct gpur_action_limit *action_limits;  /* of the learners */
    struct gpur_writer_state *pending_states; /* states from a loaded file that wait for writers to be created */
    int64_t cut_on_load;                      /* open episodes of loaded files that no writer could go on with */
    gpur_ingest ingest;
    gpur_frame_index frame_index; /* GPUR_LAYOUT_FRAMES */
    gpur_ring ring;
    gpur_window_state window;
    gpur_priorities priorities; /* of the rows in the device's window */
    gpur_hindsight hindsight;   /* of the rows in the device's window; its device is NULL without hindsight */
    gpur_lane_store lanes;      /* GPUR_LAYOUT_LANES: in place of ingest, frame_index and ring */

    gpur_consumer consumer;
    gpur_stream *copy_stream; /* uploads */
    gpur_pool *pool;
    _Atomic int32_t actions; /* the smallest of action_limits, for those without the lock; 0: any */
    _Atomic int64_t sampled; /* transitions sampled or gathered, for gpur_replay_get_stats */
};

static inline void gpur_window_lock(gpur_replay *replay)
{
    gpur_mutex_lock(&replay->window_lock);
}

static inline void gpur_window_unlock(gpur_replay *replay)
{
    gpur_mutex_unlock(&replay->window_lock);
}

/* The window that a launch would see if it began now. Requires the window lock. */
static inline gpur_window gpur_replay_visible(const gpur_replay *replay)
{
    return gpur_window_visible(&replay->window, replay->ingest.staged);
}
