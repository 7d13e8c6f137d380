/* SPDX-License-Identifier: MIT */
/* Plans and launches the gather of a batch: the rows and, by their links, the frames, either as they are stored or
 * preprocessed for a network's first layer. */
#pragma once

#include "replay/storage/copies.h"
#include "device/device.h"
#include "gpureplay/replay.h"
#include "replay/priority/sum_tree.h"
#include "replay/schema.h"

/* Further kernel launches, for the fields that do not fit into the first one. No row may be evicted between the first
 * launch and these. */
typedef struct gpur_more_gathers {
    int32_t count;
    gpur_gather_args list[GPUR_COPY_LAUNCHES - 1]; /* (count) */
} gpur_more_gathers;

typedef struct gpur_gather_plan {
    gpur_gather_args rows;                     /* arguments of the first kernel launch */
    gpur_more_gathers more;                    /* if the rows have more fields than one launch copies */
    gpur_gather_preprocessed_args frames_args; /* frames.batch 0: no frames are gathered */
    gpur_hindsight_relabel_args relabel;       /* of a sample: new goals in the gathered rows; batch 0: none */
    int32_t is_preprocessed;                   /* 1: frames are preprocessed. 0: only arguments of gather_frames are
                                                  filled in */
} gpur_gather_plan;

/* A gather request (fields and destinations), which is translated into kernel arguments. */

/* The destination of one field. 16-byte copies need `to`, `pitch`, and the field's offset and size to be multiples of
 * 16. */
typedef struct gpur_gather_field {
    int32_t field; /* index in the schema: gpur_schema_find */
    void *to;      /* (rows, field) in device memory */
    int64_t pitch; /* bytes from one value to the next; at least the field's size */
} gpur_gather_field;

/* The destinations of preprocessed obs and next_obs (GPUR_LAYOUT_FRAMES): rows of x_pitch numbers, as a network's first
 * layer reads them. */
typedef struct gpur_preprocess_output {
    const gpur_preprocess_args *args; /* all but obs, x, count and obs_pitch */
    void *obs, *next_obs;             /* NULL: not wanted */
} gpur_preprocess_output;

typedef struct gpur_gather_request {
    const gpur_gather_field *fields; /* (field_count) */
    int32_t field_count;             /* 0 to GPUR_MAX_FIELDS */
    int32_t source;                  /* GPUR_GATHER_*: how the kernel gets its rows; GPUR_GATHER_IDS also after a sample
                                        that is a launch of its own (sampler/sampler.h) */
    int64_t rows;                    /* 1 or more */
    int64_t *id;                     /* (rows) device memory; NULL: not wanted. -1 if there is no such row */
    float *weight;                   /* (rows) device memory; NULL: not wanted. 0 if there is no such row, else 1 */
    float *discount;                 /* (rows) device memory; NULL: not wanted. gamma x (1 - terminated), or as
                                        stored */
    uint32_t *links;                 /* (rows, gpur_replay_links) device memory of this gather; GPUR_LAYOUT_ROWS: not
                                        used */
    const int64_t *ids;              /* (rows) device memory, for GPUR_GATHER_IDS */
    uint8_t *relabeled; /* (rows) device memory; NULL: not wanted. 1 if hindsight gave the row a new goal */
    uint32_t purpose;   /* GPUR_RANDOM_* of the random numbers; not used with GPUR_GATHER_IDS */
    uint64_t seed;
    const uint64_t *step; /* (1) device memory, read when the gather runs; NULL: step_value */
    uint64_t step_value;
    const gpur_preprocess_output *preprocess; /* in place of the fields obs and next_obs; NULL: not preprocessed */
} gpur_gather_request;

/* Plans a gather, which may then be launched any number of times, between gpur_consumer_begin and gpur_consumer_end. */
gpur_status gpur_gather_plan_prepare(gpur_replay *replay, const gpur_gather_request *request, gpur_gather_plan *plan);

/* 1 if the gather takes several kernel launches (GPUR_LAYOUT_FRAMES, or many fields). */
int gpur_gather_takes_several_launches(const gpur_gather_plan *plan);

/* Enqueues a gather on the consumer stream. If it takes several kernel launches the caller must hold the window lock,
 * so that no append evicts rows or frames between them. */
gpur_status gpur_gather_plan_launch(gpur_replay *replay, gpur_stream *stream, const gpur_gather_plan *plan);

/* The same without the first kernel launch, where that was part of another. */
gpur_status gpur_gather_plan_launch_rest(gpur_replay *replay, gpur_stream *stream, const gpur_gather_plan *plan);

/* Fills in the arguments of a gather of rows without frames. Refuses more fields than one launch copies. */
gpur_status gpur_gather_prepare(gpur_replay *replay, const gpur_gather_request *request, gpur_gather_args *args);

/* The same for packed rows of a caller, whatever the replay's layout. */
gpur_status gpur_gather_prepare_packed(gpur_replay *replay, const gpur_gather_request *request, gpur_gather_args *args);

/* 1 if a warp of this device copies whole rows: short ones, on a GPU. */
int gpur_gather_is_by_warps(const gpur_replay *replay, const gpur_gather_args *args);

/* The launch shape of a gather. */
gpur_grid gpur_gather_grid(const gpur_replay *replay, const gpur_gather_args *args);
