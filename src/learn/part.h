/* SPDX-License-Identifier: MIT */
/*
 * A part of a learner: an entry of the table in learner.c, whose phases are walked in the order below. A part's
 * functions get the part's own struct, zeroed before `open`. A phase that a part has no function for is NULL.
 */
#pragma once

#include "base/arena.h"
#include "learn/config.h"
#include "learn/network/network.h"

struct gpur_algorithm;
struct gpur_dpg_step;
struct gpur_return_cache;
struct gpur_train_step;

/* What parts are opened with. All but `fields` outlives them. */
typedef struct gpur_part_context {
    gpur_device *device;
    gpur_replay *replay;
    const gpur_network *network;
    const gpur_dqn_config *config; /* checked */
    const gpur_learn_fields *fields;
    struct gpur_train_step *step;
    const struct gpur_algorithm *algorithm; /* of the step */
    struct gpur_dpg_step *dpg;              /* of DPG's steps; else NULL */
    struct gpur_return_cache *cache;        /* NULL: the learner has none */
} gpur_part_context;

/* An array of all parameters, padding included, that a learner's file has. */
typedef struct gpur_saved_array {
    const char *name; /* prefix of the tensors' names */
    float *memory;    /* (P) device */
} gpur_saved_array;
enum { GPUR_MAX_SAVED_ARRAYS = 7 };

typedef struct gpur_saved_arrays {
    gpur_saved_array list[GPUR_MAX_SAVED_ARRAYS];
    int32_t count;
} gpur_saved_arrays;

/* Adds an array, unless `memory` is NULL. */
static inline void gpur_saved_arrays_add(gpur_saved_arrays *arrays, const char *name, float *memory)
{
    if (memory)
        arrays->list[arrays->count++] = (gpur_saved_array){name, memory};
}

typedef struct gpur_part {
    gpur_status (*open)(void *part, const gpur_part_context *context); /* after a failure `close` is called */
    void (*assign)(void *part, gpur_arena *arena);                     /* addresses in the learner's device memory */
    gpur_status (*connect)(void *part);                                /* prepares launches with these addresses */
    gpur_status (*start)(void *part, gpur_stream *stream); /* after the first step has run: constants, graphs */
    void (*close)(void *part);
    int64_t (*pinned_bytes)(const void *part);
    void (*save)(const void *part, gpur_saved_arrays *arrays); /* adds its arrays */
} gpur_part;
