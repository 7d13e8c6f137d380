/* SPDX-License-Identifier: MIT */
/* What training has come to, copied to the host at the end of each launch and read without waiting. */
#ifndef GPUR_LEARN_STATS_H
#define GPUR_LEARN_STATS_H

#include "device/device.h"

#include <pthread.h>

/* Launches whose state is kept: the two that may be in flight, and more than one that is done. */
enum { GPUR_PROGRESS_SLOTS = 4 };

typedef struct gpur_progress {
    gpur_device *device;
    pthread_mutex_t mutex;
    int has_mutex;
    gpur_train_state *slot; /* (GPUR_PROGRESS_SLOTS) pinned */
    gpur_event *copied[GPUR_PROGRESS_SLOTS];
    int64_t launches;
    int64_t steps_enqueued;
    gpur_train_state seen; /* by the stats before */
    double seen_at;        /* seconds */
} gpur_progress;

/* A failure leaves what gpur_progress_close takes. */
gpur_status gpur_progress_open(gpur_progress *progress, gpur_device *device);
void gpur_progress_close(gpur_progress *progress);

/* Enqueues the copy on `stream`, behind a launch of `steps` train steps. */
gpur_status gpur_progress_record(gpur_progress *progress, gpur_stream *stream, const gpur_train_state *state,
                                 int64_t steps);

/* What changed since the call before. */
typedef struct gpur_progress_view {
    gpur_train_state state;
    int64_t steps_enqueued;
    double mean_loss, steps_per_second;
} gpur_progress_view;
/* As after a launch that ended with this state, with no other before it; none may be in flight. */
void gpur_progress_restore(gpur_progress *progress, const gpur_train_state *state, int64_t steps_enqueued);
void gpur_progress_look(gpur_progress *progress, gpur_progress_view *view);

#endif
