/* SPDX-License-Identifier: MIT */
/*
 * Everything at once over one small replay, for so many seconds: writers on several threads append and overwrite, one
 * thread draws and gathers by id, one trains, one acts. Every row carries a checksum of its own content, which is
 * random, and every frame one of its; so what mixes two writes shows, in a user's batch and in the learner's private
 * one.
 */
#ifndef GPUR_SUPPORT_SOAK_H
#define GPUR_SUPPORT_SOAK_H

#include "learn/learner.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SOAK_WRITERS = 4, SOAK_BATCH = 16, SOAK_ACTIONS = 5, SOAK_CAPACITY = 300, SOAK_UPDATE = 24 };

typedef struct soak soak;

/* What depends on how the replay keeps its rows. What it finds wrong it tells by soak_fail. */
typedef struct soak_kind {
    gpur_status (*configure)(soak *s, gpur_replay_config *replay, gpur_learner_config *learner);
    void (*write)(soak *s, int number); /* until s->over; `number` of SOAK_WRITERS */
    void (*check)(soak *s, gpur_batch *batch);
    void (*check_trained)(soak *s); /* what the last train step was made of, while none is under way */
} soak_kind;

extern const soak_kind soak_packed, soak_linked;

typedef struct soak_case {
    const char *words;
    const soak_kind *kind;
    int32_t source; /* GPUR_UNIFORM*, GPUR_PRIORITIZED*: of the user's draws and the learner's */
    int32_t flush, feed;
    int32_t step_kernel;
} soak_case;

/* What came of it. */
typedef struct soak_counts {
    _Atomic int64_t given;   /* rows, by writers of finished ones */
    _Atomic int64_t batches; /* drawn and gathered by the user */
    _Atomic int64_t rows;    /* looked at: of those, and of the learner's */
    _Atomic int64_t steps, acts;
    _Atomic int64_t ranked; /* priorities given by the user */
} soak_counts;

struct soak {
    soak_case setting;
    gpur_device *device; /* the caller's */
    gpur_replay *replay;
    gpur_learner *learner;
    float gamma;
    soak_counts counts;
    atomic_int over;
    atomic_int writers; /* begun */
    pthread_mutex_t mutex;
    char failure[700]; /* the first; "": none. Under the mutex while threads run */
};

/* Soaks for so many seconds, or longer where the ring has not gone round a few times by then. What it found wrong is in
 * s->failure; close it in any case. */
void soak_run(soak *s, gpur_device *device, const soak_case *setting, double seconds);
void soak_close(soak *s);

/* Notes the first failure, and ends the soak. */
void soak_fail(soak *s, const char *format, ...) GPUR_PRINTF(2, 3);

/* 1 when it is GPUR_OK; else the failure is noted with the name of the call and this thread's last error. */
int soak_ok(soak *s, gpur_status status, const char *call);

/* A checksum of bytes, going on from that of what was before them; begin with 0 [FNV-1a, 64 bits]. */
uint64_t soak_hash(uint64_t before, const void *bytes, size_t count);

/* Beside a batch's own fields: ids, tags, weights. A tag is (writer or environment) << 40 | its row's number, and so of
 * one source both grow together. Notes what is wrong. */
void soak_check_order(soak *s, gpur_batch *batch);

#endif
