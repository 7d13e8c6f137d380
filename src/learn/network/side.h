/* SPDX-License-Identifier: MIT */
/* A second stream beside that of a train step, for work that nothing waits for at once: the target network's pass, and
 * the gradients of weights. In a graph its kernels are beside those of the first, and fill multiprocessors that these
 * leave free. No result depends on it. */
#pragma once

#include "device/device.h"

typedef struct gpur_side {
    gpur_stream *stream; /* NULL: there is none, and all work is enqueued on the first stream */
    gpur_event *forked, *joined;
    void *workspace; /* of the plans that run on it; assigned by the owner */
} gpur_side;

/* A stream, and the workspace of operations on it. */
typedef struct gpur_track {
    gpur_stream *stream;
    void *workspace;
} gpur_track;

/* Opens one if the device is to have it (gpur_device_second_streams). After a failure call gpur_side_close, which
 * also accepts a zeroed one. */
gpur_status gpur_side_open(gpur_side *side, gpur_device *device);
void gpur_side_close(gpur_side *side);

/* `track` gets the side, which from now on runs after what has been enqueued on the first track; or, without a side,
 * the first track. */
gpur_status gpur_side_fork(const gpur_side *side, const gpur_track *first, gpur_track *track);

/* Makes later work of the first stream wait for the work that is on the side now. */
gpur_status gpur_side_join(const gpur_side *side, gpur_stream *first);
