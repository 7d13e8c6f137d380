/* SPDX-License-Identifier: MIT */
/*
 * The storage of lanes: environments that step together on the device, and whose experience never passes the host.
 * kernels/args_lanes.h describes the memory. Counters are in device memory, too: so a call that was captured into a
 * graph continues with each launch of the graph. The host must ask the device for them.
 *
 * Each stored field has a ring of its own, so that adding a step copies contiguous memory. A field next_x beside a
 * field x of the same type and shape is not stored: it is x of the next row, or a final observation.
 */
#pragma once

#include "device/device.h"
#include "replay/priority/sum_tree.h"
#include "replay/schema.h"

/* Final observations that there is room for: as many as lanes that end in two steps, or so many of the rows. Episodes
 * of so many steps and more lose none. */
enum { GPUR_LANE_EPISODE = 24 };

/* A field of the schema. */
typedef enum gpur_lane_role {
    GPUR_LANE_STORED, /* it has a ring */
    GPUR_LANE_NEXT,   /* it is `of` of the next row */
    GPUR_LANE_REWARD,
    GPUR_LANE_TERMINATION, /* terminated */
    GPUR_LANE_TRUNCATION,
} gpur_lane_role;

typedef struct gpur_lane_part {
    gpur_lane_role role;
    int32_t of;            /* GPUR_LANE_NEXT: index of the field x */
    int32_t is_stack;      /* 1: only the newest frame of each value is stored */
    unsigned char *ring;   /* GPUR_LANE_STORED */
    unsigned char *finals; /* of a field x that has a next_x, unless environments are reset later */
} gpur_lane_part;

typedef struct gpur_lane_store {
    gpur_device *device; /* not retained; NULL: the replay has no lanes */
    const gpur_schema *schema;
    const gpur_priorities *priorities; /* its device NULL: none */
    unsigned char *memory;
    int64_t *ids; /* (max_batch) of sequences */
    gpur_lane_rings lanes;
    gpur_lane_part parts[GPUR_MAX_FIELDS]; /* (schema->count) */
    int64_t told; /* rows that could be drawn when the host asked last; the consumer lock protects it */
    float reward_clip;
    int32_t stack_is_last; /* 1: the last axis of stacks counts the frames; 0: the first */
} gpur_lane_store;

/* What a store is made for. */
typedef struct gpur_lane_config {
    int64_t lanes, steps; /* N; T, 2 or more */
    int64_t max_batch;
    int32_t resets_later; /* 1: environments are reset by the step after the last one of an episode */
    float reward_clip;
    int32_t stack;         /* frames of obs; 1: it is no stack */
    int32_t stack_is_last; /* as in gpur_lane_store */
} gpur_lane_config;

/* With the steps of the capacity, which a search for the one that fits changes. */
gpur_lane_config gpur_lane_config_of(const gpur_replay_config *checked);

/* Refuses a schema that lanes cannot have: it must have reward, terminated and truncated, of one number each. */
gpur_status gpur_lane_schema_check(const gpur_schema *schema);

/* Refuses a frame_stack above 1 where no observation of the schema is such a stack. */
gpur_status gpur_lane_stacks_check(const gpur_replay_config *config, const gpur_schema *schema);

/* Bytes that are stored of a value of a field. */
int64_t gpur_lane_part_bytes(const gpur_lane_store *store, int32_t field);

/* Bytes of device memory. */
int64_t gpur_lane_store_bytes(const gpur_schema *schema, const gpur_lane_config *config);

/* `window` is device memory (1). After a failure call gpur_lane_store_destroy. */
gpur_status gpur_lane_store_build(gpur_lane_store *store, gpur_device *device, const gpur_schema *schema,
                                  const gpur_lane_config *config, const gpur_priorities *priorities,
                                  gpur_window *window);
void gpur_lane_store_destroy(gpur_lane_store *store);

/* 1: the field is of a pair x and next_x, and not stored. */
static inline int gpur_lane_store_is_next(const gpur_lane_store *store, int32_t field)
{
    return store->parts[field].role == GPUR_LANE_NEXT;
}

/* Enqueues a step of all lanes. `fields` (schema->count) are device arrays (N, ...) in the order of the schema. That of
 * a field next_x has the final observations of lanes whose episode has ended with this step, and is read for these
 * alone; NULL: there are none. */
gpur_status gpur_lane_store_add(const gpur_lane_store *store, gpur_stream *stream, const void *const *fields);

/* Enqueues the reset of lanes by the caller. `which` (N) is device memory: 1 for each lane that was reset since the
 * newest step; NULL: all were. */
gpur_status gpur_lane_store_reset(const gpur_lane_store *store, gpur_stream *stream, const uint8_t *which);

/* A draw, or rows by their ids, all in device memory; NULL: not wanted. */
typedef struct gpur_lane_batch {
    int64_t count;
    const int64_t *ids;   /* (count) rows to take; NULL: they are drawn */
    int32_t index_source; /* GPUR_UNIFORM* or GPUR_PRIORITIZED_*: how they are drawn */
    /* Rows of a sequence; count / length sequences are drawn, or found by the ids of their last rows. 0: single rows */
    int64_t length;
    int64_t min_length;             /* 1 to length */
    int32_t across_episodes;        /* of sequences, as of gpur_sequence_config */
    unsigned char *mask, *is_first; /* (count) of sequences */
    int32_t of_each_lane;           /* 1, with GPUR_UNIFORM: count / N rows of each lane */
    void *const *fields;            /* (schema->count) arrays (count, ...) */
    const int64_t *pitches; /* (schema->count) bytes from one value to the next, but of reward and ends; NULL: their
                               sizes */
    int64_t *id;
    float *weight, *discount;
    int32_t *steps; /* of each transition */
    int32_t n_step; /* 1 to GPUR_MAX_N_STEP */
    float gamma;
    uint64_t seed;
    const uint64_t *step; /* (1) the number of the draw; NULL: the store counts it */
    uint32_t purpose;     /* GPUR_RANDOM_* */
    uint32_t *leaf;       /* (count) scratch memory of draws by priority; NULL: the priorities' own */
    gpur_schedule beta;   /* of the weights, by the number of the draw */
} gpur_lane_batch;

/* Enqueues a draw, by priority of at most max_batch rows. */
gpur_status gpur_lane_store_draw(const gpur_lane_store *store, gpur_stream *stream, const gpur_lane_batch *batch);

/* Waits for the stream, and reads the state. */
gpur_status gpur_lane_store_read(const gpur_lane_store *store, gpur_stream *stream, gpur_lanes_state *state);
