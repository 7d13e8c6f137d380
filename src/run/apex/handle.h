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

static const double GPUR_APEX_POLL_SECONDS = 0.01; /* between two looks of the thread that advances */

/* The last so many values, whose median is reported. */
typedef struct gpur_recent {
    double values[GPUR_APEX_RECENT];
    int64_t count; /* ever added */
} gpur_recent;

static inline void gpur_recent_add(gpur_recent *recent, double value)
{
    recent->values[recent->count++ % GPUR_APEX_RECENT] = value;
}

double gpur_recent_median(const gpur_recent *recent); /* NaN if there are none */

/* What may come in. */
typedef enum gpur_apex_gate {
    GPUR_APEX_CLOSED,  /* nothing, but results of evaluations: all else waits */
    GPUR_APEX_OPEN,    /* all, until the run has most_steps */
    GPUR_APEX_LETS_END /* what own actors send that are to end, whatever the limiter says */
} gpur_apex_gate;

typedef enum gpur_apex_evaluation_state {
    GPUR_EVALUATION_NONE,
    GPUR_EVALUATION_PLAYED, /* the evaluator is to play it */
    GPUR_EVALUATION_ENDED,  /* its result has come, and was not reported yet */
    GPUR_EVALUATION_MISSING /* the evaluator was given up */
} gpur_apex_evaluation_state;

/* The last evaluation. */
typedef struct gpur_apex_evaluation {
    gpur_apex_evaluation_state state;
    int32_t is_alone; /* 1: of gpur_run_evaluate, so that an error of the evaluator does not end the run */
    int64_t number;   /* counts up from 1 */
    int32_t deaths;   /* of the evaluator while it is played */
    gpur_run_event event;
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
    gpur_policy *evaluated;  /* has the weights of the last evaluation; NULL: there are none */
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
    gpur_slot *evaluator; /* an own actor, wanted from the first evaluation on */
    int32_t actors;       /* wanted, without the evaluator */
    int32_t running;      /* likewise */
    int has_begun, is_quitting;
    gpur_apex_gate gate;
    int64_t most_steps;          /* environment steps with which the gate closes by itself */
    gpur_waiting_block *waiting; /* list of blocks, in the order in which they came */
    int32_t inserting;           /* threads that are appending now */
    gpur_limiter limiter;
    gpur_apex_counts counts;
    gpur_recent ages; /* of the weights of the last blocks */
    gpur_apex_evaluation evaluation;
    int has_lost_evaluator; /* 1: it died, and `restarts` is 0 */
    int64_t base_steps;     /* train steps of the learner before those that are counted */
    double broadcast_seconds, receive_seconds, learner_wait_seconds;

    gpur_mutex set_lock; /* one call of gpur_apex_set_actors at a time */
};

/* The Ape-X of a run that is one. */
static inline gpur_apex *gpur_apex_of(gpur_run *run)
{
    return (gpur_apex *)(void *)run;
}

/* Finds it. Refuses NULL, and a run of another system. */
gpur_status gpur_apex_find(gpur_run *run, gpur_apex **apex);

/* What an actor counts by itself. */
static inline gpur_actor_counts *gpur_slot_counts(const gpur_slot *slot)
{
    return gpur_shared_counts(&slot->apex->shared, slot->actor);
}
