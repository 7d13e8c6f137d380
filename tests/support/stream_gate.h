/* SPDX-License-Identifier: MIT */
/* Holds a stream of the CPU back until it is let through, so that a test knows what has not run yet. */
#ifndef GPUR_SUPPORT_STREAM_GATE_H
#define GPUR_SUPPORT_STREAM_GATE_H

#include "device/device.h"

#include <semaphore.h>

typedef struct gate {
    sem_t open;
} gate;

void gate_init(gate *g);
void gate_destroy(gate *g);

/* Enqueues the gate. Only with the thread executor: inline, the caller would wait for itself. */
gpur_status gate_close(gate *g, gpur_stream *stream);
void gate_open(gate *g);

#endif
