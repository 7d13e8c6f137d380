/* SPDX-License-Identifier: MIT */
/*
 * The cache of returns of a learner (gpureplay/returns.h), in device memory.
 *
 * A refresh works through the cache chunk by chunk: it draws whole blocks (replay/sampler/sequences.h), gathers the
 * rows, evaluates the network and stores v(s') and the address of each row. Then one kernel replaces the v by returns.
 * Rows that are evicted during the refresh do no harm: a return depends on later rows of its block, which are evicted
 * later than the row of the entry.
 */
#pragma once

#include "learn/batch_source.h"
#include "learn/network/pass.h"
#include "learn/part.h"
#include "replay/sampler/sequences.h"

#include <stdatomic.h>

/* The estimators of returns: one entry of a table for each public one (GPUR_ESTIMATOR_PENG, ...). */
typedef struct gpur_estimator {
    const char *name;
    int32_t rule;         /* GPUR_RETURNS_* of kernels/args_returns.h */
    int32_t cuts_traces;  /* 1: needs to know whether actions are greedy (Watkins) */
    int32_t needs_lambda; /* 1: the setting `lambda` is read */
} gpur_estimator;

/* NULL: there is no such estimator. */
const gpur_estimator *gpur_estimator_of(int32_t estimator);

/* 1 if entries are drawn by their errors at some train step. */
int gpur_returns_are_prioritized(const gpur_returns_config *config);

typedef struct gpur_return_cache {
    gpur_device *device;
    gpur_replay *replay;
    const gpur_network *network;
    struct gpur_train_step *step; /* has the weights that a refresh evaluates, and the batch that draws fill */
    gpur_returns_config config;
    const gpur_estimator *estimator;
    int64_t size;         /* S entries; 0: there is no cache */
    int64_t chunk_blocks; /* blocks of a chunk */
    int64_t chunks;       /* of a refresh; the blocks of the last one that are beyond S are not stored */
    int32_t needs_taken;  /* 1: refreshes compute Q(s, a), which takes a forward pass of obs */
    int32_t is_prioritized, is_physical;
    int64_t obs_pitch; /* bytes from one stored observation to the next */

    gpur_train_batch chunk; /* rows of a chunk: next_obs and, where needed, obs and action */
    gpur_batch_source rows; /* of a chunk, by `ids` */
    gpur_pass values;       /* over the observations of the chunk that are evaluated */
    int64_t *ids;           /* (rows of a chunk) */
    float *q;               /* (rows of a chunk, A) scratch */
    gpur_graph *of_chunk;   /* refreshes one chunk */

    gpur_cache_state *state; /* (1) device */
    gpur_cache_entry *entry; /* (S) */
    float *taken;          /* (S) Q(s, a), or after a refresh |return - Q(s, a)| if is_prioritized; NULL: not needed */
    uint8_t *greedy;       /* (S) NULL: not needed */
    unsigned char *obs;    /* (S) obs_pitch bytes apart; NULL, as is the next: the cache is virtual */
    int32_t *action;       /* (S) */
    int64_t entries_bytes; /* size of the last five arrays */

    float *drawn_value; /* (B) returns of the batch */
    int32_t *drawn;     /* (B) entries of the batch; NULL: the cache is virtual */

    atomic_int is_filled; /* 1: a refresh has been enqueued since the learner was created or loaded */
    atomic_llong refreshes;
} gpur_return_cache;

/* The learner's part that is a gpur_return_cache. Without a cache it has no memory. Its `connect` comes before that of
 * the step, whose source it sets. */
extern const gpur_part gpur_return_cache_part;

/* Refuses settings of a cache of returns that do not fit its learner or its replay, and does nothing without a cache.
 * Sets the index source to GPUR_UNIFORM, which a cache does not use. */
gpur_status gpur_returns_config_check(gpur_dqn_config *config, gpur_replay *replay);

/* Requires the consumer lock. Enqueues a refresh. */
gpur_status gpur_return_cache_refresh(gpur_return_cache *cache, gpur_stream *stream);
