/* SPDX-License-Identifier: MIT */
#include "support/stream_gate.h"

#include "device/cpu/cpu.h"

#include <errno.h>
#include <string.h>

void gate_init(gate *g)
{
    sem_init(&g->open, 0, 0);
}

void gate_destroy(gate *g)
{
    sem_destroy(&g->open);
}

static gpur_status wait_at(gpur_stream *stream, void *payload)
{
    gate *g = NULL;
    (void)stream;
    memcpy(&g, payload, sizeof g);
    while (sem_wait(&g->open) != 0 && errno == EINTR)
        ;
    return GPUR_OK;
}

gpur_status gate_close(gate *g, gpur_stream *stream)
{
    memcpy(gpur_cpu_begin(stream), &g, sizeof g);
    return gpur_cpu_end(stream, wait_at);
}

void gate_open(gate *g)
{
    sem_post(&g->open);
}
