/* SPDX-License-Identifier: MIT */
/* The supervisor of a run: a thread that starts actors, takes what processes and files bring, and sees to those that
 * end. It waits for nothing else, so an actor's death is noticed whatever holds up blocks. */
#pragma once

#include "run/apex/handle.h"

gpur_status gpur_supervisor_open(gpur_apex *apex);
void gpur_supervisor_close(gpur_apex *apex); /* ends all actors, and the thread; also after a failed open */

/* Makes the first `actors` wanted, and the others not. */
gpur_status gpur_supervisor_set_actors(gpur_apex *apex, int32_t actors);
