/* SPDX-License-Identifier: MIT */
/*
 * The handle of an Ape-X run: what its threads share. Three kinds of threads work on it: the one that advances
 * (advance.c) trains and delivers events; the supervisor's (supervisor.c) starts actors, takes what processes send, and
 * sees to those that end; and actors in threads of their own append for themselves. What they share is under one lock,
 * which is held for counting only.
 */
#pragma once

#include "base/mutex.h"
#include "learn/learner.h"
#include "replay/block/block.h"
#include "run/core.h"
#include "run/apex/limiter.h"
#include "run/apex/shared.h"
#include "run/apex/slot.h"

enum { GPUR_APEX_RECENT = 100, GPUR_APEX_ERROR = 512 };

/* The last so many values, whose median is reported. */
typedef struct gpur_recent {
    double values[GPUR_APEX_RECENT];
    int64_t count; /* ever added */
} gpur_recent;

/* An event that has not been delivered yet. */
typedef struct gpur_apex_entry {
    gpur_apex_event event;
    char error[GPUR_APEX_ERROR];
} gpur_apex_entry;

typedef struct gpur_apex_queue {
    gpur_apex_entry *entries; /* (count) */
    int64_t count, room;
} gpur_apex_queue;

/* The evaluation that was asked for last. */
typedef struct gpur_apex_evaluation {
    int32_t is_played;              /* 1: some of its episodes are missing */
    int64_t number;                 /* counts up from 1 */
    int64_t env_steps, train_steps; /* of the run when it was asked for */
    int64_t episodes, length;       /* so far, and their steps */
    double sum, squares;            /* of their returns */
} gpur_apex_evaluation;

/* Counters that a saved run goes on from, beside those of all runs. */
typedef struct gpur_apex_counts {
    int64_t blocks, rows, bytes, refused_blocks, lost_blocks, lost_rows;
    int64_t starts, deaths, broadcasts, pulled, trims, limiter_timeouts;
} gpur_apex_counts;

/* A block that waits to be inserted, in memory of whoever waits with it. Blocks are inserted in the order in which they
 * came: else one actor, whose weights are new, could insert block after block while those of others get older. */
typedef struct gpur_waiting_block {
    struct gpur_waiting_block *next;
    const gpur_slot *slot;
    int64_t rows;
    int32_t is_polled; /* 1: the supervisor's thread has it, which waits for other things meanwhile, and is woken */
} gpur_waiting_block;

typedef struct gpur_supervisor gpur_supervisor;   /* supervisor.c */
typedef struct gpur_folder_side gpur_folder_side; /* transport/folder.c */

struct gpur_apex {
    gpur_run core;           /* its lock protects what is said below, and of slots what they say */
    gpur_apex_config config; /* pointers are to memory of the run */
    gpur_learner *learner;   /* of DQN or of DPG */
    gpur_apex_networks networks;
    gpur_replay *replay;
    char **command; /* NULL: threads */
    float *epsilons;
    char *folder_name;                  /* NULL: none */
    gpur_field fields[GPUR_MAX_FIELDS]; /* the schema again, as configs have it */
    gpur_block_format *format;
    int64_t max_message;          /* bytes of the longest one that an actor may send */
    gpur_actor_policies policies; /* on the learner's device: through them weights are broadcast */
    unsigned char *weights;       /* (weights_bytes) */
    gpur_shared shared;

    /* Of transports. */
    gpur_supervisor *supervisor;
    gpur_device *device; /* of actors in threads: the CPU */
    gpur_folder_side *folder;
    int32_t has_remote_actors; /* 1: blocks may come from others than the run's own actors */
    int wake;                  /* an eventfd on which the supervisor waits */

    /* Under the lock. */
    gpur_slot_table tables[GPUR_SLOT_ORIGINS];
    gpur_slot *evaluator;                /* an own actor */
    int32_t actors;                      /* wanted, without the evaluator */
    int32_t running;                     /* likewise */
    int has_begun, is_open, is_quitting; /* open: advancing. Else all that comes waits */
    int64_t most_steps;                  /* environment steps with which the gate closes by itself */
    int is_finishing;                    /* 1: the limiter lets all rows in */
    gpur_waiting_block *waiting;         /* list of blocks, in the order in which they came */
    int32_t inserting;                   /* threads that are appending now */
    gpur_limiter limiter;
    gpur_apex_counts counts;
    gpur_recent ages; /* of the weights of the last blocks */
    gpur_apex_evaluation evaluation;
    int64_t next_evaluation; /* environment steps of the run when it is due; 0: not known yet */
    int64_t base_steps;      /* train steps of the learner before those that are counted */
    double train_seconds, broadcast_seconds, receive_seconds, learner_wait_seconds;
    gpur_apex_queue queue;

    gpur_mutex set_lock; /* one call of gpur_apex_set_actors at a time */
};

/* Refuses NULL, and a run that has ended. */
gpur_status gpur_apex_check_open(gpur_apex *apex);

/* Wakes the supervisor's thread. */
void gpur_apex_wake(gpur_apex *apex);
