/* SPDX-License-Identifier: MIT */
/* The first pass over a file. Chunks are checked one by one, so that several threads can. */
#include "base/thread.h"
#include "replay/checkpoint.h"

#include <sched.h>
#include <stdatomic.h>

enum { MOST_HELPERS = 3, CHUNKS_A_HELPER = 2 };

typedef struct verifying {
    const gpur_checkpoint *checkpoint;
    atomic_llong next;  /* chunk that nobody has taken */
    atomic_llong done;  /* chunks that are what was written */
    atomic_llong wrong; /* a chunk that a helper could not read so, or -1 */
} verifying;

typedef struct helper {
    verifying *all;
    unsigned char *buffer; /* (GPUR_CHUNK) */
    pthread_t thread;
} helper;

/* -1: there is no more. */
static int64_t take(verifying *v)
{
    const int64_t chunk = atomic_fetch_add(&v->next, 1);
    return chunk < v->checkpoint->chunks ? chunk : -1;
}

static void stop(verifying *v)
{
    atomic_store(&v->next, v->checkpoint->chunks);
}

static gpur_status check(verifying *v, int64_t chunk, unsigned char *buffer)
{
    int64_t begin, end;
    GPUR_TRY(gpur_checkpoint_read_chunk(v->checkpoint, chunk, buffer, &begin, &end));
    atomic_fetch_add(&v->done, 1);
    return GPUR_OK;
}

static void *help(void *context)
{
    const helper *const h = context;
    for (int64_t chunk = take(h->all); chunk >= 0; chunk = take(h->all))
        if (check(h->all, chunk, h->buffer) != GPUR_OK) {
            atomic_store(&h->all->wrong, chunk);
            stop(h->all);
        }
    return NULL;
}

/* Of what has been found right, as if it lay first. */
static gpur_status tell(const verifying *v, const gpur_checkpoint_options *options)
{
    const gpur_checkpoint *const c = v->checkpoint;
    const int64_t end = c->data_at + c->covered_at + atomic_load(&v->done) * GPUR_CHUNK;
    return gpur_checkpoint_tell(options, end < c->file.bytes ? end : c->file.bytes, 2 * c->file.bytes);
}

static gpur_status check_along(verifying *v, unsigned char *buffer, const gpur_checkpoint_options *options)
{
    for (int64_t chunk = take(v); chunk >= 0; chunk = take(v)) {
        GPUR_TRY(check(v, chunk, buffer));
        GPUR_TRY(tell(v, options));
    }
    return GPUR_OK;
}

static int32_t count_helpers(const gpur_checkpoint *checkpoint)
{
    cpu_set_t ours;
    const int64_t useful = checkpoint->chunks / CHUNKS_A_HELPER;
    const int32_t spare = sched_getaffinity(0, sizeof ours, &ours) == 0 ? CPU_COUNT(&ours) - 1 : 0;
    const int32_t most = spare < MOST_HELPERS ? spare : MOST_HELPERS;
    return useful < most ? (int32_t)useful : most;
}

/* A helper's message is its thread's own: what it found wrong is read again for it. */
static gpur_status find_wrong(verifying *v, unsigned char *buffer)
{
    const int64_t wrong = atomic_load(&v->wrong);
    if (wrong < 0)
        return GPUR_OK;
    GPUR_TRY(check(v, wrong, buffer));
    return gpur_fail(GPUR_FILE_ERROR, "it changes while it is read");
}

/* `buffer` (1 + count, GPUR_CHUNK). A thread that cannot be had is done without. */
static gpur_status verify(verifying *v, unsigned char *buffer, int32_t count, const gpur_checkpoint_options *options)
{
    helper helpers[MOST_HELPERS];
    int32_t started = 0;
    for (; started < count; started++) {
        helper *const h = &helpers[started];
        *h = (helper){.all = v, .buffer = buffer + (1 + started) * (int64_t)GPUR_CHUNK};
        if (gpur_thread_start(&h->thread, help, h, "reading a file") != GPUR_OK)
            break;
    }
    const gpur_status status = check_along(v, buffer, options);
    stop(v);
    for (int32_t i = 0; i < started; i++)
        pthread_join(helpers[i].thread, NULL);
    return status == GPUR_OK ? find_wrong(v, buffer) : status;
}

gpur_status gpur_checkpoint_verify(gpur_checkpoint *checkpoint, gpur_device *device,
                                   const gpur_checkpoint_options *options)
{
    verifying v = {.checkpoint = checkpoint, .wrong = -1};
    const int32_t count = count_helpers(checkpoint);
    const size_t bytes = (size_t)(1 + count) * GPUR_CHUNK;
    unsigned char *const buffer = gpur_host_alloc(device, bytes);
    if (!buffer)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for buffers of %zu bytes", bytes);
    const gpur_status status = verify(&v, buffer, count, options);
    gpur_host_free(device, buffer, bytes);
    checkpoint->verified = status == GPUR_OK;
    return gpur_checkpoint_blame(checkpoint, status);
}
