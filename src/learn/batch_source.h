/* SPDX-License-Identifier: MIT */
/* Where the rows of a train step come from: sampled from the replay, rows of the replay with given ids, entries of the
 * cache of returns, or packed rows of a host batch. A source gathers its rows to the step's batch, and has the graph of
 * a step on them. */
#pragma once

#include "learn/train_batch.h"
#include "replay/lanes/lanes.h"
#include "replay/sampler/sampler.h"

struct gpur_train_step;

/* The gather of rows to a batch. It stays where it was planned, since it points at members of its own. */
typedef struct gpur_rows_plan {
    gpur_gather_plan ring;
    gpur_lane_batch lanes;              /* in place of `ring` if the replay is of lanes; else its count is 0 */
    void *fields[GPUR_MAX_LANE_FIELDS]; /* where `lanes` points, like the next array */
    int64_t pitches[GPUR_MAX_LANE_FIELDS];
} gpur_rows_plan;

typedef struct gpur_batch_source {
    const struct gpur_train_step *step; /* the step that trains on the rows */
    const gpur_train_batch *batch;      /* the batch that they are gathered to */
    gpur_rows_plan plan;
    const int64_t *drawable;     /* (1) device: rows to draw; if it is 0, the step changes nothing */
    int32_t is_raw;              /* 1: the gather leaves observations that must be preprocessed */
    int32_t has_feedback;        /* 1: TD errors become new priorities of the rows */
    const gpur_sampler *sampler; /* NULL: the rows are given */
    gpur_sample_args sample;
    gpur_status (*gather)(const struct gpur_batch_source *source, gpur_stream *stream); /* of rows that are drawn
                                              elsewhere, such as from a cache of returns; NULL: they are not */
    const struct gpur_batch_source *beside; /* gathers the rest of the step's batch, after this one; NULL: there is
                                               none */
    gpur_graph *train;                      /* a train step on these rows; NULL: not recorded */
} gpur_batch_source;

/* Plan a gather to the batch, whose arrays must have been assigned: of rows that are sampled, which `sample` describes,
 * whose ids and weights go to the batch; and of the replay's rows with these ids, (rows) in device memory. */
gpur_status gpur_batch_source_of_samples(gpur_batch_source *source, const struct gpur_train_step *step,
                                         const gpur_train_batch *batch, int32_t index_source,
                                         const gpur_sample_args *sample);
gpur_status gpur_batch_source_of_ids(gpur_batch_source *source, const struct gpur_train_step *step,
                                     const gpur_train_batch *batch, const int64_t *ids);

/* Packed rows in device memory. */
typedef struct gpur_packed_rows {
    const unsigned char *rows; /* (B, row_bytes) */
    int64_t row_bytes;
    const int64_t *ids;        /* (B) device: 0 to B - 1 */
    const gpur_window *window; /* (1) device: ids 0 to B - 1 */
} gpur_packed_rows;
gpur_status gpur_batch_source_of_rows(gpur_batch_source *source, const struct gpur_train_step *step,
                                      const gpur_train_batch *batch, const gpur_packed_rows *packed);

/* Enqueues the gather as it is planned, of rows whose ids are there. It is a function to be called under a lock
 * (gpur_with_window_locked, gpur_with_ids_locked); `context` is a gpur_gather_work. */
typedef struct gpur_gather_work {
    const gpur_batch_source *source;
    gpur_stream *stream;
} gpur_gather_work;
gpur_status gpur_gather_locked(void *context);

/* Enqueues the sample, if there is one, and the gather, and those of the source beside it. For rows with given ids the
 * caller holds the window lock. */
gpur_status gpur_batch_source_gather(const gpur_batch_source *source, gpur_stream *stream);
