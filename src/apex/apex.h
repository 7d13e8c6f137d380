/* SPDX-License-Identifier: MIT */
/*
 * The Ape-X handle. Three kinds of threads work on it: the one that advances (learn.c) trains and delivers events; the
 * supervisor (supervisor.c) starts actors, takes what processes send, and sees to those that end; and actors in threads
 * of their own, which append for themselves. What they share is under one lock; the time under it is that of counting.
 */
#pragma once

#include "apex/connection.h"
#include "apex/learner.h"
#include "apex/limiter.h"
#include "apex/shared.h"
#include "base/mutex.h"
#include "replay/block/block.h"

#include <sys/types.h>

enum { GPUR_APEX_RECENT = 100, GPUR_APEX_ERROR = 512 };

typedef struct gpur_apex_folder gpur_apex_folder; /* folder.h */

/* The last so many values, of which the mean or the median is reported. */
typedef struct gpur_recent {
    double values[GPUR_APEX_RECENT];
    int64_t count; /* ever added */
} gpur_recent;

/* The learner's record of an actor of a number, where one incarnation follows another. */
typedef struct gpur_slot {
    gpur_apex *apex;
    int32_t actor;
    gpur_writer *writer; /* opened before it is wanted, and kept */

    /* Under the lock. */
    int32_t is_wanted, is_running;
    int32_t is_from_caller; /* 1: a remote actor, whose blocks the caller brings */
    double heard;           /* remote actors: time of the last block or episode received; 0: never */
    float epsilon;
    int64_t incarnation;         /* the one that runs; else the next one */
    int64_t process;             /* -1: none */
    int64_t blocks, rows;        /* of this incarnation, received and appended */
    int64_t next_sequence, gaps; /* the number of the next block; blocks that were passed over */
    int64_t steps;               /* reported so far */
    int32_t block_rows;          /* of this incarnation's blocks, at most */
    int32_t has_sent;            /* 1: a block of this incarnation was appended; of the
                                    one that evaluates: an episode has come */

    /* Of the supervisor's thread. */
    int32_t quick_deaths;           /* in a row, soon after its start and with nothing sent */
    int32_t quick_failures;         /* those of them that no signal caused */
    double started, deadline, next; /* seconds: when it began, is killed, and may begin again */
    gpur_inbox inbox;               /* fd -1: it has no process, or that has closed its end */
    pthread_t thread;
    _Atomic int has_returned;    /* 1: the thread can be joined */
    gpur_status status;          /* of a thread, or of what a process has sent */
    char error[GPUR_APEX_ERROR]; /* "": none */
} gpur_slot;

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
    int32_t is_played;         /* 1: some of its episodes are missing */
    int64_t number;            /* counts up from 1 */
    int64_t step, train_steps; /* of the run when it was asked for */
    int64_t episodes, length;  /* so far, and their steps */
    double sum, squares;       /* of their returns */
} gpur_apex_evaluation;

/* Counters that a saved run goes on from. */
typedef struct gpur_apex_counts {
    int64_t env_steps, episodes, train_steps, blocks, rows, bytes, refused_blocks, lost_blocks, lost_rows;
    int64_t starts, deaths, broadcasts, pulled, trims, limiter_timeouts;
} gpur_apex_counts;

/* A block that waits to be inserted, on the stack of its thread. Blocks are inserted in the order in which they came:
 * else one actor, whose weights are new, could insert block after block while those of others get older. */
typedef struct gpur_waiting_block {
    struct gpur_waiting_block *next;
    const gpur_slot *slot; /* of whose actor it is */
    int64_t rows;
} gpur_waiting_block;

struct gpur_apex {
    gpur_apex_config config; /* pointers are to memory of the run */
    gpur_apex_learner learner;
    gpur_replay *replay;
    const gpur_env_type *type;
    char *env_options;
    char **command; /* NULL: threads */
    float *epsilons;
    gpur_field fields[GPUR_MAX_FIELDS]; /* the schema again, as configs have it */
    gpur_block_format *format;
    int64_t max_message;          /* bytes of the longest one that an actor may send */
    gpur_device *device;          /* of actors in threads: the CPU */
    gpur_actor_policies policies; /* of the learner's device: through them weights are broadcast */
    unsigned char *weights;       /* (weights_bytes) */
    gpur_shared shared;
    gpur_slot *slots; /* (GPUR_APEX_SLOTS) */

    gpur_slot *remote_actors; /* (config.remote_actors) */
    gpur_mutex receiving;     /* one call of gpur_apex_receive_block at a time */

    char *folder_name;
    gpur_apex_folder *folder; /* NULL: none */

    pthread_t supervisor;
    int has_supervisor;
    int wake; /* an eventfd on which the supervisor waits */

    gpur_mutex lock;                     /* protects what follows, and of members what they say */
    int32_t actors;                      /* wanted, without the evaluator */
    int32_t running;                     /* likewise */
    int has_begun, is_open, is_quitting; /* open: advancing. Else all that comes waits */
    int64_t most_steps;                  /* environment steps with which the gate closes by itself */
    int is_finishing;                    /* 1: the limiter lets all rows in */
    gpur_waiting_block *waiting;         /* list of blocks, in the order in which they came */
    int32_t inserting;                   /* threads that are appending now */
    gpur_limiter limiter;
    gpur_apex_counts counts;
    gpur_recent returns, evaluated, ages; /* evaluated: the mean of each evaluation */
    gpur_apex_evaluation evaluation;
    int64_t next_evaluation; /* environment steps of the run when it is due; 0: not known yet */
    int64_t base_steps;      /* train steps of the learner before those that are counted */
    double seconds, train_seconds, broadcast_seconds, receive_seconds, learner_wait_seconds;
    gpur_apex_queue queue;
    gpur_status status; /* of the run, with its message */
    char error[GPUR_APEX_ERROR];

    gpur_mutex set_lock; /* one call of gpur_apex_set_actors at a time */
    _Atomic int stopping;
};

static inline int gpur_slot_evaluates(const gpur_slot *slot)
{
    return slot->actor == GPUR_APEX_EVALUATOR;
}

/* config.c */

/* Reads and checks the settings, with the learner, its replay and the type of environment, and copies what they point
 * to. */
gpur_status gpur_apex_configure(gpur_apex *apex, const gpur_apex_config *given);
void gpur_apex_free_config(gpur_apex *apex);

/* Reads the settings, and checks those that need nothing else. */
gpur_status gpur_apex_read_config(const gpur_apex_config *given, gpur_apex_config *config);

/* Refuses a number that is none of config->actors. */
gpur_status gpur_apex_check_actor(const gpur_apex_config *config, int32_t actor);

/* The epsilon of actor i of n; of action vectors sigma, the same for all. */
float gpur_apex_exploration_of(const gpur_apex_config *config, int has_vectors, int32_t i, int32_t n);

/* The rows of a block of one of so many actors, at most. */
int32_t gpur_apex_block_rows(const gpur_apex_config *config, int32_t actors);

/* What an actor must know, of config->actors. */
gpur_actor_settings gpur_apex_actor_settings(const gpur_apex_config *config, int has_vectors, int32_t actor,
                                             int64_t incarnation);

/* events.c: what happened, in the order in which it did. All under the lock. */

void gpur_apex_add_episode(gpur_slot *slot, const gpur_actor_episode *episode);
void gpur_apex_add_started(gpur_slot *slot);
void gpur_apex_add_ended(gpur_slot *slot, int64_t steps, int64_t lost_blocks, int64_t lost_rows, int32_t asked,
                         const char *error);

/* Begins an evaluation; one that is being played is cut off. With 0 only that. */
void gpur_apex_ask_to_evaluate(gpur_apex *apex, int is_wanted);

/* Ends the run, if it has not ended before. */
void gpur_apex_end(gpur_apex *apex, gpur_status status, const char *error);

/* Without the lock, in the thread that advances. */
void gpur_apex_deliver_events(gpur_apex *apex);

void gpur_recent_add(gpur_recent *recent, double value);
double gpur_recent_mean(const gpur_recent *recent, int64_t most); /* of at most so many; NaN if there are none */
double gpur_recent_median(const gpur_recent *recent);

/* intake.c */

/*
 * Takes a block of an actor's: checks it and its place in the sequence, waits until the run is open and the limiter
 * lets it in, and appends it. In the thread of the supervisor, or of the actor.
 *
 *   GPUR_INVALID_ARGUMENT, GPUR_FILE_ERROR  the block is refused, and counted
 *   GPUR_INTERRUPTED                        the run is being destroyed, or has ended by an error
 *   GPUR_WOULD_BLOCK                        a remote actor's block, and the run is not open
 *   others                                  the run cannot go on
 */
gpur_status gpur_apex_take_block(gpur_slot *slot, const void *block, int64_t bytes, int64_t steps);

/* The same for the block of a remote actor, whose header has been read, and has no more rows than a block of this run.
 * An actor new to this run is registered if its block is undamaged: so a damaged one cannot pass for another actor. */
gpur_status gpur_apex_take_remote_block(gpur_slot *remote, const void *block, const gpur_block_header *header);

/* Counts a block that was refused before it came here. */
void gpur_apex_count_refused(gpur_apex *apex);

/* Takes an episode, when the run is open. */
gpur_status gpur_apex_take_episode(gpur_slot *slot, const gpur_actor_episode *episode, int64_t steps);

/* Takes the last number of steps. */
void gpur_apex_take_end(gpur_slot *slot, int64_t steps);

/* Counts the start of a remote actor that the caller brings, and the end of the incarnation before it. Under the lock.
 * */
void gpur_apex_count_start(gpur_slot *remote);

/* receive.c: remote actors whose blocks the caller brings. The second accepts a half opened one. */

gpur_status gpur_remote_actors_open(gpur_apex *apex);
void gpur_remote_actors_close(gpur_apex *apex);

/* 1 if blocks may come from others than the run's own actors. */
static inline int gpur_apex_has_remote_actors(const gpur_apex *apex)
{
    return apex->folder || apex->config.remote_actors > 0;
}

/* supervisor.c */

gpur_status gpur_supervisor_open(gpur_apex *apex);
void gpur_supervisor_close(
    gpur_apex *apex); /* ends all actors, and the supervisor's thread; also after a failed open */
void gpur_supervisor_wake(gpur_apex *apex);

/* Makes the first `actors` wanted, and the others not. */
gpur_status gpur_supervisor_set_actors(gpur_apex *apex, int32_t actors);

/* Opens the slot's writer, if it has none. */
gpur_status gpur_slot_open_writer(gpur_slot *slot);

/* What an actor is told. */
gpur_actor_settings gpur_slot_settings(const gpur_slot *slot);

/* carrier.c: how actors are started. In the supervisor's thread. */

gpur_status gpur_slot_start_thread(gpur_slot *slot);
gpur_status gpur_slot_start_process(gpur_slot *slot);

/* folder.c: the learner's side of a folder of blocks. gpur_folder_close accepts a half opened one. */

gpur_status gpur_folder_open(gpur_apex *apex, const char *folder);
void gpur_folder_close(gpur_apex *apex);

/* Looks for files, if the last look was long enough ago, and appends one of them. Returns 1 if it did: then more may be
 * there. In the supervisor's thread. An error that is not a file's ends the run. */
int gpur_folder_look(gpur_apex *apex);

/* apex.c */

/* Refuses NULL, and a run that has ended. */
gpur_status gpur_apex_check_open(gpur_apex *apex);
