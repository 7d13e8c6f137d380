/* SPDX-License-Identifier: MIT */
/* The batch of a train step: one array in device memory for each input of the algorithm, and the conversion of
 * observations to the input of a network. Sources fill it (batch_source.h). */
#pragma once

#include "base/arena.h"
#include "learn/network/input.h"
#include "learn/part.h"
#include "replay/sampler/gather.h"

/* Inputs that an algorithm wants, as bits. */
enum {
    GPUR_WANTS_OBS = 1,
    GPUR_WANTS_NEXT_OBS = 2,
    GPUR_WANTS_ACTION = 4, /* vectors only with observations that are the input, unchanged */
    GPUR_WANTS_REWARD = 8,
    GPUR_WANTS_DISCOUNT = 16,
    GPUR_WANTS_WEIGHT = 32, /* importance weights */
    GPUR_WANTS_RAW = 64,    /* observations also as the replay stores them, unless that is how the network reads them */
    GPUR_WANTS_NEXT_MASK = 128, /* which actions next_obs allows */
};

typedef struct gpur_train_batch {
    gpur_device *device;
    gpur_replay *replay;
    int64_t rows;      /* B, or those of a part */
    int64_t first_row; /* of a part: its first row in the batch */
    int64_t next_row;  /* where next_obs begin in x and in raw, in rows from the first obs */
    int32_t wants;
    int32_t observations; /* per row: obs and next_obs, or one of them */
    gpur_learn_fields fields;
    gpur_input input;
    int64_t x_pitch;                   /* numbers from one row of x to the next: padded to 16 bytes with zeros */
    int32_t is_preprocessed;           /* 1: gathers from the replay write x themselves; raw is only for host batches */
    int64_t raw_bytes;                 /* of the array `raw`; 0: there is none */
    unsigned char *raw;                /* (observations B, obs) as the replay stores them, input.raw_pitch bytes
                                          apart */
    float *x;                          /* (observations B, features) obs of all rows, then next_obs of all rows */
    float *next_x;                     /* of next_obs, in x; NULL: not wanted */
    void *action;                      /* (B) int32 or int64; NULL: actions are vectors, which lie in x, in each row of
                                          obs behind its numbers */
    float *reward, *discount, *weight; /* (B); NULL: not wanted */
    int64_t mask_bytes;
    unsigned char *next_mask; /* (B, mask_bytes); NULL: not wanted */
    int64_t *id;              /* (B) of the rows */
    uint32_t *links;          /* (B, links per row) of a GPUR_LAYOUT_FRAMES replay */
} gpur_train_batch;

/* `rows`: of the batch. `wants`: GPUR_WANTS_*, one observation at least. */
void gpur_train_batch_open(gpur_train_batch *batch, const gpur_part_context *context, int64_t rows, int32_t wants);
void gpur_train_batch_assign(gpur_train_batch *batch, gpur_arena *arena);

/* `rows` rows of a batch, from `first` on, as a batch of their own in the same arrays: of this replay, whose schema has
 * these fields. */
gpur_train_batch gpur_train_batch_part(const gpur_train_batch *batch, gpur_replay *replay,
                                       const gpur_learn_fields *fields, int64_t first, int64_t rows);

enum { GPUR_MAX_TRAIN_FIELDS = 5 };

/* Lists the fields that a gather copies, and where to, and returns their number. `is_raw`: observations are among them,
 * as the replay stores them. */
int32_t gpur_train_batch_fields(const gpur_train_batch *batch, int is_raw,
                                gpur_gather_field list[GPUR_MAX_TRAIN_FIELDS]);
