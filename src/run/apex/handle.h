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
#include "run/core.h"
#include "run/apex/actor.h"
#include "run/apex/limiter.h"
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

typedef struct gpur_intake_block gpur_intake_block; /* intake.h */
typedef struct gpur_supervisor gpur_supervisor;     /* supervisor.c */
typedef struct gpur_folder_side gpur_folder_side;   /* transport/folder.c */

struct gpur_apex {
    gpur_run core;           /* its lock protects what is said below, and of slots what they say */
    gpur_apex_config config; /* pointers are to memory of the run */
    gpur_learner *learner;   /* of DQN, DPG or SAC */
    gpur_policy *evaluated;  /* has the weights of the last evaluation; NULL: there are none */
    gpur_apex_networks networks;
    gpur_replay *replay;
    char **command; /* NULL: threads */
    float *epsilons;
    char *folder_name; /* NULL: none */
    gpur_block_format *format;
    int64_t max_message;          /* bytes of the longest one that an actor may send */
    gpur_mutex policies_lock;     /* held from a pull of `policies` until its weights are read */
    gpur_actor_policies policies; /* on the learner's device: through them weights are broadcast */
    unsigned char *weights;       /* (weights_bytes) */
    gpur_shared shared;

    /* Of transports. */
    gpur_supervisor *supervisor;
    gpur_device *device; /* of actors in threads: the CPU */
    gpur_folder_side *folder;
    int32_t has_remote_actors; /* 1: blocks may come from others than the run's own actors */
    int wake[2];               /* a pipe: the supervisor waits at its first end */

    /* Under the lock. */
    gpur_slot_table tables[GPUR_SLOT_ORIGINS];
    gpur_slot *evaluator; /* an own actor, wanted from the first evaluation on */
    int32_t actors;       /* wanted, without the evaluator */
    int32_t running;      /* likewise */
    int has_begun, is_quitting;
    gpur_apex_gate gate;
    int64_t most_steps;         /* environment steps with which the gate closes by itself */
    gpur_intake_block *waiting; /* list of blocks to be inserted, in the order in which they came */
    int32_t inserting;          /* threads that are appending now */
    int32_t receiving;          /* calls of the caller that take something of a remote actor */
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

/* Functions of gpur_run_system: advance.c, evaluation.c, state.c. */

gpur_status gpur_apex_check_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_apex_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_apex_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event);
gpur_status gpur_apex_save(gpur_run *core, const char *folder);
gpur_status gpur_apex_load(gpur_run *core, const char *folder, int32_t refill);

/* The settings: defaults, checks, and what an actor is told of them, settings.c. */

/* Reads and checks the settings, with the learner, its replay and the environment, and copies what they point to. */
gpur_status gpur_apex_configure(gpur_apex *apex, const gpur_apex_config *given);
void gpur_apex_free_config(gpur_apex *apex);

/* Reads the settings for a remote actor. Refuses its number if it is none of config->actors. */
gpur_status gpur_apex_read_remote_config(const gpur_apex_config *given, int32_t actor, gpur_apex_config *config);

/* The epsilon of actor i of n; of action vectors sigma, the same for all. */
float gpur_apex_exploration_of(const gpur_apex_config *config, int has_vectors, int32_t i, int32_t n);

/* The most rows of a block of one of so many actors. */
int32_t gpur_apex_block_rows(const gpur_apex_config *config, int32_t actors);

/* What an actor must know, of config->actors. */
gpur_actor_settings gpur_apex_actor_settings(const gpur_run_config *run, const gpur_apex_config *config,
                                             int has_vectors, int32_t actor, int64_t incarnation);

/* The same for the incarnation of an own actor that begins. */
gpur_actor_settings gpur_apex_slot_settings(const gpur_slot *slot);

/* The supervisor, a thread that starts actors, takes what processes and files bring, and sees to those that end. It
 * waits for nothing else, so an actor's death is noticed whatever holds up blocks. supervisor.c */

gpur_status gpur_supervisor_open(gpur_apex *apex);
void gpur_supervisor_close(gpur_apex *apex); /* ends all actors, and the thread; also after a failed open */

/* Makes the first `actors` wanted, and the others not. */
gpur_status gpur_supervisor_set_actors(gpur_apex *apex, int32_t actors);

enum { GPUR_APEX_KILL_AFTER_SECONDS = 5 }; /* from asking an actor to end to killing its process */

/* An actor is to end soon, or is killed. In the supervisor's thread. */
void gpur_supervisor_expect_end(gpur_slot *slot);

/* Wakes the thread. */
void gpur_supervisor_wake(gpur_apex *apex);

/* Evaluations, evaluation.c: the learner's side, which sets the weights that one actor plays by (evaluating_actor.c),
 * and takes the result. In the thread that advances, without the lock, unless it says otherwise. */

/* Begins an evaluation by the learner's present weights; one that is being played is given up. */
gpur_status gpur_apex_begin_evaluation(gpur_apex *apex, int64_t episodes, int32_t greedy, int32_t is_alone);

/* Waits until `is_over`, which is asked under the lock, answers 1, or the run is stopped, and delivers events
 * meanwhile. GPUR_INTERRUPTED: the run has ended by an error. */
gpur_status gpur_apex_await(gpur_apex *apex, int (*is_over)(const gpur_apex *apex));

/* Waits so until no evaluation is played, and reports one that has ended. GPUR_OK also if it is missing. */
gpur_status gpur_apex_await_evaluation(gpur_apex *apex);

/* Reports an evaluation beside the training that has ended. */
void gpur_apex_report_evaluation(gpur_apex *apex);

/* Takes a result from the evaluator. One of an evaluation that was given up is passed over. Any thread. */
void gpur_apex_take_evaluation(gpur_slot *slot, const gpur_actor_evaluation *result);

/* What is played will have no result. Under the lock. */
void gpur_apex_give_up_evaluation(gpur_apex *apex);
