/* SPDX-License-Identifier: MIT */
/* Training statistics, copied to the host at the end of each launch and read without waiting. */
#pragma once

#include "device/device.h"
#include "kernels/args_learn.h"

#include <pthread.h>

/* Launches whose state is stored: the two that may be in flight, and two that are done. */
enum { GPUR_TRAIN_STATS_SLOTS = 4 };

typedef struct gpur_train_stats {
    gpur_device *device;
    pthread_mutex_t mutex;
    gpur_train_state *slot; /* (GPUR_TRAIN_STATS_SLOTS) pinned */
    gpur_event *copied[GPUR_TRAIN_STATS_SLOTS];
    int64_t launches;
    int64_t steps_enqueued;
    gpur_train_state seen; /* the state at the previous read */
    double seen_at;        /* time of the previous read, in seconds */
    double mean_loss;      /* the mean that the previous read returned */
} gpur_train_stats;

/* Bytes of host memory of one gpur_train_stats, pinned on CUDA. */
enum { GPUR_TRAIN_STATS_BYTES = GPUR_TRAIN_STATS_SLOTS * (int)sizeof(gpur_train_state) };

/* After a failure call gpur_train_stats_close. */
gpur_status gpur_train_stats_open(gpur_train_stats *stats, gpur_device *device);
void gpur_train_stats_close(gpur_train_stats *stats);

/* Enqueues the copy of the state on `stream`, after a launch of `steps` train steps. */
gpur_status gpur_train_stats_record(gpur_train_stats *stats, gpur_stream *stream, const gpur_train_state *state,
                                    int64_t steps);

/* The newest state that has reached the host; mean_loss and steps_per_second are since the previous read;
 * mean_loss is the previous read's if no step was done since. */
typedef struct gpur_train_stats_snapshot {
    gpur_train_state state;
    int64_t steps_enqueued;
    double mean_loss, steps_per_second;
} gpur_train_stats_snapshot;

/* Returns the newest state that has reached the host. Does not count as a read. */
gpur_train_state gpur_train_stats_newest(gpur_train_stats *stats);

/* Takes a state that is on the host, after a train step that is done. No launch may be in flight. */
void gpur_train_stats_put(gpur_train_stats *stats, const gpur_train_state *state);

/* Returns the number of train steps enqueued so far. */
int64_t gpur_train_stats_steps_enqueued(gpur_train_stats *stats);

/* Sets the statistics as if one launch had ended with this state. No launch may be in flight. */
void gpur_train_stats_restore(gpur_train_stats *stats, const gpur_train_state *state, int64_t steps_enqueued);

/* Reads the statistics; mean_loss and steps_per_second begin anew. */
void gpur_train_stats_read(gpur_train_stats *stats, gpur_train_stats_snapshot *view);
