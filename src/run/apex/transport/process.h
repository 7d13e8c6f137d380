/* SPDX-License-Identifier: MIT */
/* Actors in processes that the run starts. The actor's side is gpur_apex_serve. */
#pragma once

#include "run/apex/transport/transport.h"

extern const gpur_transport gpur_process_transport;

enum { GPUR_APEX_KILL_AFTER_SECONDS = 5 }; /* from asking an actor to end to killing its process */
