/* SPDX-License-Identifier: MIT */
/*
 * The two copies of a network's weights that acting reads. One is the latest; the other, the older one, is what the
 * next write overwrites, and becomes the latest then. So acts that began before a write finish with the weights that
 * they began with.
 *
 * Two things keep reads and writes apart. On the device, events make a read wait for the last write of its copy, and a
 * write for the last reads of its copy. On the host, a read or a write of a copy is in progress while its work and its
 * events are being enqueued: reads of one copy at the same time, a write alone.
 */
#pragma once

#include "base/mutex.h"
#include "learn/network/params.h"

enum { GPUR_MAX_COPY_READERS = 64 };

/* Names one of the two copies. */
enum { GPUR_COPY_LATEST = 0, GPUR_COPY_OLDER = 1 };

typedef struct gpur_acting_copies {
    gpur_device *device;
    const gpur_params *params;
    float *weights[2];          /* (P) device; behind each may lie its copy in bfloat16: gpur_params_bf16 */
    _Atomic int64_t version[2]; /* of the weights in each copy; set by the write of the copy */
    gpur_event *written[2];
    gpur_event *read[2][GPUR_MAX_COPY_READERS]; /* (readers) of each copy: the last read by each reader */
    int readers;
    gpur_mutex lock; /* protects all members below; never held while work is enqueued */
    int latest;      /* index of the latest copy */
    int reads[2];    /* reads in progress of each copy */
    int writing;     /* index of the copy of which a write is in progress, or waits for reads in progress; -1: none */
} gpur_acting_copies;

/* `readers`: 1 to GPUR_MAX_COPY_READERS. The owner assigns `weights`. After a failure call gpur_acting_copies_close,
 * which also accepts a zeroed one. It waits for enqueued writes; the owner has waited for reads. */
gpur_status gpur_acting_copies_open(gpur_acting_copies *copies, gpur_device *device, const gpur_params *params,
                                    int readers);
void gpur_acting_copies_close(gpur_acting_copies *copies);

/* Waits for a write in progress of this copy, and makes `stream` wait for its last write. `age`: GPUR_COPY_*. `copy`
 * gets its index. On GPUR_OK the caller enqueues work on `stream` that reads the copy, and must call
 * gpur_acting_copies_end_read, even if that failed. */
gpur_status gpur_acting_copies_begin_read(gpur_acting_copies *copies, int age, gpur_stream *stream, int *copy);

/* Ends the read by this reader, 0 to readers - 1: a reader ends its reads on one stream, and has one in progress at a
 * time. Returns `status`, that of the work enqueued, if it is an error. */
gpur_status gpur_acting_copies_end_read(gpur_acting_copies *copies, int copy, int reader, gpur_stream *stream,
                                        gpur_status status);

/* Enqueues the write of `count` weights, from `offset` on of `weights`, (P) in host or device memory, to the copy of
 * this age. With a version of 0 or more the copy gets it, and becomes the latest. Waits for reads in progress of this
 * copy, and for a write in progress of either, and makes `stream` wait for the last reads. */
gpur_status gpur_acting_copies_write(gpur_acting_copies *copies, int age, int64_t version, gpur_stream *stream,
                                     const float *weights, int64_t offset, int64_t count);

/* The index of the latest copy. */
int gpur_acting_copies_latest(gpur_acting_copies *copies);
