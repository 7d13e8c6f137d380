/* SPDX-License-Identifier: MIT */
/* Remote actors whose blocks, episodes and weights the caller brings. The actor's side is gpur_apex_act, the learner's
 * gpur_apex_receive_block and its relatives. */
#pragma once

#include "run/apex/transport/transport.h"

extern const gpur_transport gpur_callbacks_transport;

/* Waits until no call of the caller takes anything. Under the lock. */
void gpur_callbacks_wait(gpur_apex *apex);
