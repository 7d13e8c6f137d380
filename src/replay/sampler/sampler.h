/* SPDX-License-Identifier: MIT */
/*
 * The samplers: one entry of a table for each public index source (GPUR_UNIFORM, ...). A sampler chooses the rows of a
 * batch and gives each an importance weight. docs/design.md, "Where to add", lists what a new one needs.
 */
#pragma once

#include "replay/sampler/gather.h"

/* Whose random numbers: a learner's differ from those of a caller with the same seed and step, and those of its
 * demonstrations from those of its own replay. */
typedef enum gpur_sample_user {
    GPUR_USER_CALLER,
    GPUR_USER_LEARNER,
    GPUR_USER_DEMONSTRATIONS,
    GPUR_USERS
} gpur_sample_user;

/* One sample: where it takes its random numbers from, and where its results go, in device memory. */
typedef struct gpur_sample_args {
    gpur_sample_user user;
    uint64_t seed;
    const uint64_t *step; /* (1) device: the number of the sample, read by the kernels; NULL: step_value */
    uint64_t step_value;
    gpur_schedule beta; /* importance weights' exponent, by the same number */
    int64_t *id;        /* (rows) */
    uint32_t *leaf;     /* (rows) scratch memory; NULL if the sampler needs no priorities */
    float *weight;      /* (rows) */
} gpur_sample_args;

typedef struct gpur_sampler {
    int32_t gather_source;        /* GPUR_GATHER_*: whether the gather kernel samples, or reads the ids of `draw` */
    uint32_t purpose[GPUR_USERS]; /* GPUR_RANDOM_* of the random numbers */
    int is_distinct;    /* 1: no row twice, so a sample needs as many visible rows as it has; 0: it needs one */
    int is_by_priority; /* 1: the replay must be prioritized, and a learner's errors become priorities */
    int is_stratified;  /* 1: one row from each of as many equal strata of the priorities' sum */

    /* Chooses the rows, gathers what the first launch of a plan copies, and computes the weights; NULL: the gather
     * kernel does all of it, and every weight is 1. */
    gpur_status (*draw)(gpur_replay *replay, const struct gpur_sampler *sampler, const gpur_sample_args *args,
                        const gpur_gather_args *gather, gpur_stream *stream);
} gpur_sampler;

/* The sampler of a checked index source. GPUR_SOURCE_AUTO, which settings replace by another, has an empty one. */
const gpur_sampler *gpur_sampler_of(int32_t index_source);

/* Visible rows that a sample of `rows` rows needs. */
int64_t gpur_sampler_needs(const gpur_sampler *sampler, int64_t rows);

/* Enqueues a sample on the consumer stream, between gpur_consumer_begin and gpur_consumer_end: chooses plan->rows.batch
 * rows, gathers them as planned, and computes their weights. If that takes several kernels, it takes the window lock,
 * so that no append evicts a row in between. */
gpur_status gpur_sample_enqueue(gpur_replay *replay, const gpur_sampler *sampler, const gpur_sample_args *args,
                                const gpur_gather_plan *plan, gpur_stream *stream);

/* The arguments of the kernels that sample `rows` rows by priority and weigh them. The fused step runs both in a kernel
 * of its own. */
gpur_priority_sample_args gpur_sampler_sample_args(const gpur_replay *replay, const gpur_sampler *sampler,
                                                   const gpur_sample_args *args, int64_t rows);
gpur_priority_weights_args gpur_sampler_weights_args(const gpur_replay *replay, const gpur_sample_args *args,
                                                     int64_t rows);

gpur_status gpur_sampler_launch_weights(const gpur_replay *replay, gpur_stream *stream,
                                        const gpur_priority_weights_args *args);

/* Launches a draw by priority, the gather of its rows, and their weights: as one kernel where a warp copies whole rows,
 * else as three. Sets `weigh`. */
gpur_status gpur_sampler_launch_by_priority(const gpur_replay *replay, gpur_stream *stream,
                                            const gpur_priority_gather_args *args);
