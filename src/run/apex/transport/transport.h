/* SPDX-License-Identifier: MIT */
/*
 * A transport: how actors' packed blocks travel to the learner, and weights to the actors. The actor's side is a
 * gpur_actor_transport (actor.h); this is the learner's side. Each transport has both in one file of this folder, and
 * an entry in the supervisor's list. All functions but open and close are called in the supervisor's thread, and do not
 * wait.
 */
#pragma once

#include "run/apex/handle.h"

typedef struct gpur_transport {
    int (*is_used)(const gpur_apex *apex); /* 1: the run's settings ask for it */
    gpur_status (*open)(gpur_apex *apex);  /* after a failure `close` is called, too */
    void (*close)(gpur_apex *apex);        /* accepts what was not opened */

    /* For the run's own actors; NULL: others start them. */

    gpur_status (*start)(gpur_slot *slot);

    /* 1: the actor has ended, and all that it sent was taken. *was_killed: by a signal, and not because it was late to
     * end. Then slot->status and its error say how, and slot->transport is NULL. */
    int (*has_ended)(gpur_slot *slot, int *was_killed);
    int (*descriptor)(const gpur_slot *slot); /* what tells that something has come, or -1; NULL: nothing does */
    void (*receive)(gpur_slot *slot);         /* takes some of what has come */

    /* For remote actors: takes what has come. Returns 1 if it took something, so that more may be there. NULL: others
     * bring it. */
    int (*poll)(gpur_apex *apex);
} gpur_transport;

/* Threads and processes that the run starts, and remote actors of a folder or of the caller. The actor's side of the
 * last three is gpur_apex_serve, gpur_apex_work and gpur_apex_act. */
extern const gpur_transport gpur_thread_transport, gpur_process_transport, gpur_folder_transport,
    gpur_callbacks_transport;
