/* SPDX-License-Identifier: MIT */
/* Holds a stream of the CPU back until it is let through, so that a test knows what has not run yet. */
#pragma once

#include "device/cpu/cpu.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>

typedef struct gate {
    sem_t open;
} gate;

static inline void gate_init(gate *g)
{
    sem_init(&g->open, 0, 0);
}

static inline void gate_destroy(gate *g)
{
    sem_destroy(&g->open);
}

static inline gpur_status gate_wait(gpur_stream *stream, void *payload)
{
    gate *g = NULL;
    (void)stream;
    memcpy(&g, payload, sizeof g);
    while (sem_wait(&g->open) != 0 && errno == EINTR)
        ;
    return GPUR_OK;
}

/* Enqueues the gate. Only with the thread executor: inline, the caller would wait for itself. */
static inline gpur_status gate_close(gate *g, gpur_stream *stream)
{
    memcpy(gpur_cpu_begin(stream), &g, sizeof g);
    return gpur_cpu_end(stream, gate_wait);
}

static inline void gate_open(gate *g)
{
    sem_post(&g->open);
}
