/* SPDX-License-Identifier: MIT */
/* The supervisor of a run: a thread that starts actors, takes what processes and files bring, and sees to those that
 * end. It waits for nothing else, so an actor's death is noticed whatever holds up blocks. */
#pragma once

#include "run/apex/handle.h"

gpur_status gpur_supervisor_open(gpur_apex *apex);
void gpur_supervisor_close(gpur_apex *apex); /* ends all actors, and the thread; also after a failed open */

/* Makes the first `actors` wanted, and the others not. */
gpur_status gpur_supervisor_set_actors(gpur_apex *apex, int32_t actors);

enum { GPUR_APEX_KILL_AFTER_SECONDS = 5 }; /* from asking an actor to end to killing its process */

/* An actor is to end soon, or is killed. In the supervisor's thread. */
void gpur_supervisor_expect_end(gpur_slot *slot);

/* Wakes the thread. */
void gpur_supervisor_wake(gpur_apex *apex);
