/* SPDX-License-Identifier: MIT */
/* Slots: the learner's record of the actor of a number, where one incarnation follows another. */
#pragma once

#include "gpureplay/apex.h"
#include "gpureplay/run_handle.h"
#include "gpureplay/writer.h"

/* Where the actors of a table come from. */
typedef enum gpur_slot_origin {
    GPUR_SLOT_OWN,    /* the run starts them */
    GPUR_SLOT_FOLDER, /* remote actors, whose blocks come as files */
    GPUR_SLOT_CALLER, /* remote actors, whose blocks the caller brings */
    GPUR_SLOT_ORIGINS,
} gpur_slot_origin;

typedef struct gpur_apex gpur_apex; /* handle.h */

typedef struct gpur_slot {
    gpur_apex *apex;
    gpur_slot_origin origin;
    int32_t actor;       /* its number */
    gpur_writer *writer; /* NULL: not opened yet */

    /* Under the lock of the run. */
    int32_t is_wanted, is_running;
    int32_t has_ended;    /* 1: this incarnation is gone, so its last block does not wait for the limiter */
    int32_t is_receiving; /* GPUR_SLOT_CALLER: a call of the caller takes something of this actor; others wait */
    double heard;         /* remote actors: time of the last block or episode received; 0: never */
    float epsilon;
    int64_t incarnation;         /* the one that runs; else the next one */
    int64_t process;             /* -1: none */
    int64_t blocks, rows;        /* of this incarnation, received and appended */
    int64_t next_sequence, gaps; /* the number of the next block; numbers that were left out */
    int64_t steps;               /* of the environment, reported so far */
    int32_t block_rows;          /* the most rows of a block of this incarnation */
    int32_t has_sent;  /* 1: a block of this incarnation was appended; the evaluator: an evaluation has come */
    double next_start; /* own actors: seconds when the next incarnation may begin */

    int32_t early_deaths;   /* own actors: in a row, soon after the start and with nothing sent */
    int32_t early_failures; /* how many of them no signal caused */

    /* Own actors, used only by the supervisor's thread: what a round has to do, and what is known of one that runs. */
    int32_t looks, asks, starts; /* 1: the actor runs; is to end; may begin */
    double started;              /* seconds */
    double deadline;             /* seconds when its process is killed */
    gpur_status status;          /* of the actor, or of what it has sent */
    char *error;                 /* why it ends; NULL: nothing is known */
    void *transport;             /* what the transport keeps of the incarnation that runs */
} gpur_slot;

/* Slots by the numbers of their actors. They are put there under the lock of the run. */
typedef struct gpur_slot_table {
    gpur_slot *slots[GPUR_APEX_MAX_ACTORS]; /* NULL: nothing of this actor has come yet */
    int32_t count;                          /* 1 above the largest number of a slot that is there */
} gpur_slot_table;

static inline int gpur_slot_evaluates(const gpur_slot *slot)
{
    return slot->actor == GPUR_APEX_EVALUATOR;
}

gpur_status gpur_slot_create(gpur_apex *apex, gpur_slot_origin origin, int32_t actor, gpur_slot **slot);
void gpur_slot_destroy(gpur_slot *slot); /* NULL does nothing */

/* Finds the slot of an actor in its table, and makes it if it is not there. Of a table one thread at a time. */
gpur_status gpur_slot_find(gpur_apex *apex, gpur_slot_origin origin, int32_t actor, gpur_slot **slot);
void gpur_slot_table_close(gpur_slot_table *table);

/* Opens the slot's writer, if it has none. */
gpur_status gpur_slot_open_writer(gpur_slot *slot);

/* Adds an event of the actor, and sets what all of these have. Under the lock of the run. */
void gpur_slot_add_event(const gpur_slot *slot, gpur_run_event event);

/* Keeps the text of an error, if the slot has none. */
void gpur_slot_note_error(gpur_slot *slot, const char *error);
void gpur_slot_forget_error(gpur_slot *slot);

static inline const char *gpur_slot_error(const gpur_slot *slot)
{
    return slot->error ? slot->error : "";
}
