/* SPDX-License-Identifier: MIT */
/*
 * What the parts of a replay's storage share. They stand on each other, and each sees those below it alone:
 *
 *   ingest   staging blocks, which writers fill; uploads them into the ring
 *   ring     stored rows and frames; reserves their slots in the window
 *   window   which rows launches may read; moves the priorities of rows that enter and leave it
 *   frame_index, priorities, hindsight
 */
#pragma once

#include "base/mutex.h"
#include "device/device.h"
#include "replay/hindsight/hindsight.h"
#include "replay/priority/sum_tree.h"
#include "replay/storage/frame_index.h"
#include "replay/storage/layout.h"

/* All of it belongs to the replay. */
typedef struct gpur_storage {
    gpur_device *device;
    const gpur_replay_config *config; /* as checked */
    const gpur_ring_layout *layout;
    gpur_mutex *window_lock;
    gpur_stream *consumer_stream;  /* sampling and training; during a launch on the stream of another replay, that one.
                                      Changes under the window lock */
    gpur_stream *copy_stream;      /* uploads */
    gpur_priorities *priorities;   /* of the rows in the device's window */
    gpur_hindsight *hindsight;     /* likewise: the episodes that have ended */
    gpur_frame_index *frame_index; /* GPUR_LAYOUT_FRAMES */
} gpur_storage;
