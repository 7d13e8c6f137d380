/* SPDX-License-Identifier: MIT */
/*
 * A part of a learner: an entry of its algorithm's table of parts (learner.h), whose phases are walked in the order
 * below. A part's functions get the part's own struct, zeroed before `open`. A phase that a part has no function for is
 * NULL.
 */
#pragma once

#include "base/arena.h"
#include "learn/config.h"
#include "learn/network/network.h"

struct gpur_return_cache;
struct gpur_step_actor;
struct gpur_train_step;

/* The context in which parts are opened, as the algorithm's settings say. */
typedef struct gpur_part_context {
    gpur_device *device;
    gpur_replay *replay;
    const gpur_network *network; /* the one that reads the batch; must not move */
    const gpur_network_config *network_config;
    gpur_step_config step_config; /* checked */
    gpur_learn_fields fields;
    struct gpur_train_step *step;
    const struct gpur_step_actor *actor; /* NULL: there is none */
    void *actor_state;                   /* its own; must not move */
    const gpur_returns_config *returns;
    struct gpur_return_cache *cache; /* NULL, as is `returns`: the learner has none */
    int32_t host_batches;
} gpur_part_context;

typedef struct gpur_part {
    gpur_status (*open)(void *part, const gpur_part_context *context); /* after a failure `close` is called */
    void (*assign)(void *part, gpur_arena *arena);                     /* addresses in the learner's device memory */
    gpur_status (*connect)(void *part);                                /* prepares launches with these addresses */
    gpur_status (*start)(void *part, gpur_stream *stream); /* after the first weights are set: constants, graphs */
    void (*close)(void *part);
    int64_t (*pinned_bytes)(const void *part);
} gpur_part;
