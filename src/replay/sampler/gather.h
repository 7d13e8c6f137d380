/* SPDX-License-Identifier: MIT */
/* The launches that make one draw: the rows, and from their links the frames, as they are or as a first layer reads
 * them. */
#ifndef GPUR_REPLAY_SAMPLER_GATHER_H
#define GPUR_REPLAY_SAMPLER_GATHER_H

#include "replay/storage/copies.h"
#include "device/device.h"
#include "gpureplay/replay.h"
#include "replay/priority/sum_tree.h"
#include "replay/schema.h"

/* Launches that copy further fields of the rows that were drawn, between which and the draw no row may leave. */
typedef struct gpur_more_gathers {
    int32_t count;
    gpur_gather_args list[GPUR_COPY_PARTS - 1]; /* (count) */
} gpur_more_gathers;

typedef struct gpur_drawing {
    gpur_gather_args rows;
    gpur_more_gathers more;           /* where the rows have more fields than one launch copies */
    gpur_gather_observed_args frames; /* frames.batch 0: none are wanted, or the replay is packed */
    int32_t is_observed;              /* 0: as they are, and of `frames` only gather_frames's part is filled in */
} gpur_drawing;

/* From "these fields, to there" to the arguments of the gather kernel. */

/* Where one field of the rows goes. The widest copies need `to`, `pitch` and the field's place to be multiples of 16.
 */
typedef struct gpur_draw_field {
    int32_t field; /* index in the schema: gpur_schema_find */
    void *to;      /* (rows, field) in device memory */
    int64_t pitch; /* bytes from one row to the next; the field's own bytes at least */
} gpur_draw_field;

/* obs and next_obs of a linked replay as a first layer reads them: rows of its x, how->x_pitch numbers apart. */
typedef struct gpur_draw_observed {
    const gpur_observe_args *how; /* but obs, x, count and obs_pitch */
    void *obs, *next_obs;
} gpur_draw_observed;

typedef struct gpur_draw_request {
    const gpur_draw_field *fields; /* (field_count) */
    int32_t field_count;           /* 0 to GPUR_MAX_FIELDS */
    int32_t source;                /* GPUR_UNIFORM, GPUR_UNIFORM_DISTINCT or GPUR_SOURCE_IDS; after a draw by priority,
                                      which is a launch of its own (replay/priorities.h), the last */
    int64_t rows;                  /* 1 to max_batch */
    int64_t *id;                   /* (rows) device memory; NULL: not wanted. -1 where no row was */
    float *weight;                 /* (rows) device memory; NULL: not wanted. 0 where no row was, else 1 */
    float *discount;               /* (rows) device memory; NULL: not wanted. gamma x (1 - terminated), or as stored */
    uint32_t *links;               /* (rows, gpur_replay_links) device memory of the draw's own; packed: not used */
    const int64_t *ids;            /* (rows) device memory, for GPUR_SOURCE_IDS */
    int32_t for_learner;           /* 1: a learner's random numbers, which are not a user's of the same seed and step */
    uint64_t seed;
    const uint64_t *step; /* (1) device memory, read when the gather runs; NULL: step_value */
    uint64_t step_value;
    const gpur_draw_observed *observed; /* NULL, or in place of the fields obs and next_obs */
} gpur_draw_request;

/* May be launched any number of times between gpur_consumer_begin and gpur_consumer_end. */
gpur_status gpur_drawing_prepare(gpur_replay *replay, const gpur_draw_request *request, gpur_drawing *drawing);

/* Enqueues the gathers on the consumer's stream. Of a linked replay, or of rows that take several launches, under
 * the intake's lock, which the caller must not hold: between them no append may take the rows or frames for gone. */
gpur_status gpur_drawing_launch(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing);

/* The same where the caller holds that lock. */
gpur_status gpur_drawing_launch_locked(gpur_replay *replay, gpur_stream *stream, const gpur_drawing *drawing);

/* The rows alone: the fields that a row of the ring holds. Refuses more of them than one launch copies. */
gpur_status gpur_draw_prepare(gpur_replay *replay, const gpur_draw_request *request, gpur_gather_args *args);

/* The same for any number of fields: `more`, whose count is 0, gets the launches that come after `args`. */
gpur_status gpur_draw_prepare_all(gpur_replay *replay, const gpur_draw_request *request, gpur_gather_args *args,
                                  gpur_more_gathers *more);

/* As if the rows were packed, whatever the replay's layout: for rows that a caller brings. */
gpur_status gpur_draw_prepare_packed(gpur_replay *replay, const gpur_draw_request *request, gpur_gather_args *args);

/* The good launch shape of a gather of so many rows. */
gpur_grid gpur_draw_grid(gpur_replay *replay, int64_t rows);

/* Links of one row; 0: packed. */
int32_t gpur_replay_links(const gpur_replay *replay);

/* What a learner needs to know of its replay. Valid as long as the replay. */
gpur_device *gpur_replay_device(gpur_replay *replay);
const gpur_schema *gpur_replay_schema(gpur_replay *replay);
const gpur_replay_config *gpur_replay_settings(gpur_replay *replay); /* as checked; `fields` is NULL */
const gpur_priorities *gpur_replay_priorities(gpur_replay *replay);  /* its `device` is NULL where there are none */

#endif
