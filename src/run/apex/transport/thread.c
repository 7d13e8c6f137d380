/* SPDX-License-Identifier: MIT */
/* The transport of actors in threads: a block is a call of the intake, and weights are in memory of the run. */
#include "run/apex/transport/transport.h"

#include "base/thread.h"
#include "run/apex/intake.h"

#include <stdlib.h>
#include <string.h>

typedef struct actor_thread {
    gpur_slot *slot;
    gpur_actor_settings settings;
    int64_t pulled; /* the broadcast whose weights it has */
    pthread_t thread;
    gpur_status status; /* of the actor, with its error; NULL: none */
    char *error;
    _Atomic int has_returned; /* 1: the thread can be joined */
} actor_thread;

static gpur_status take_block(void *context, const void *bytes, int64_t count, int64_t steps)
{
    gpur_intake_block block;
    gpur_status status = gpur_intake_open(((const actor_thread *)context)->slot, bytes, count, steps, &block);
    if (status == GPUR_OK)
        status = gpur_intake_insert(&block, GPUR_INTAKE_WAITS);
    gpur_intake_close(&block);
    return status;
}

static gpur_status take_episode(void *context, const gpur_actor_episode *episode, int64_t steps)
{
    return gpur_intake_take_episode(((const actor_thread *)context)->slot, episode, steps, GPUR_INTAKE_WAITS);
}

static gpur_status pull(void *context, gpur_actor_policies *policies, unsigned char *weights, int *is_newer)
{
    actor_thread *const t = context;
    return gpur_shared_pull(&t->slot->apex->shared, policies, weights, &t->pulled, is_newer);
}

static gpur_status take_evaluation(void *context, const gpur_actor_evaluation *evaluation)
{
    gpur_apex_take_evaluation(((const actor_thread *)context)->slot, evaluation);
    return GPUR_OK;
}

static gpur_status act(actor_thread *t, gpur_actor_counts *counts)
{
    const gpur_apex *const apex = t->slot->apex;
    const gpur_actor_transport transport = {t, take_block, take_episode, pull, take_evaluation, NULL};
    const gpur_actor_context context = {.type = apex->core.config.type,
                                        .env_options = apex->core.config.env_options,
                                        .device = apex->device,
                                        .format = apex->format,
                                        .networks = apex->networks,
                                        .counts = counts,
                                        .shared = &apex->shared};
    return gpur_actor_run(&context, &t->settings, &transport);
}

static void *run(void *context)
{
    actor_thread *const t = context;
    gpur_apex *const apex = t->slot->apex;
    gpur_actor_counts *const counts = gpur_slot_counts(t->slot);
    t->status = act(t, counts);
    if (t->status != GPUR_OK && t->status != GPUR_INTERRUPTED)
        t->error = strdup(gpur_last_error());
    gpur_intake_take_end(t->slot, atomic_load(&counts->steps));
    atomic_store(&t->has_returned, 1);
    gpur_supervisor_wake(apex);
    return NULL;
}

static gpur_status start(gpur_slot *slot)
{
    actor_thread *const t = calloc(1, sizeof *t);
    if (!t)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for an actor");
    t->slot = slot;
    t->settings = gpur_apex_slot_settings(slot);
    const gpur_status status = gpur_thread_start(&t->thread, run, t, "an actor");
    if (status == GPUR_OK)
        slot->transport = t;
    else
        free(t);
    return status;
}

static int has_ended(gpur_slot *slot, int *was_killed)
{
    actor_thread *const t = slot->transport;
    if (!atomic_load(&t->has_returned))
        return 0;
    pthread_join(t->thread, NULL);
    slot->status = t->status;
    gpur_slot_note_error(slot, t->error ? t->error : "");
    *was_killed = 0;
    free(t->error);
    free(t);
    slot->transport = NULL;
    return 1;
}

static int is_used(const gpur_apex *apex)
{
    return !apex->command;
}

/* Actors in threads share a device whose calls are the work of the calling thread alone. */
static gpur_status open_device(gpur_apex *apex)
{
    return gpur_actor_open_device(1, &apex->device);
}

static void close_device(gpur_apex *apex)
{
    gpur_device_close(apex->device);
}

const gpur_transport gpur_thread_transport = {
    .is_used = is_used, .open = open_device, .close = close_device, .start = start, .has_ended = has_ended};
