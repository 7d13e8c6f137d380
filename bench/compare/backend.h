/* SPDX-License-Identifier: MIT */
/*
 * The backends that are compared: the same network, optimizer and transitions, and three ways to store the
 * transitions [Parr 2018, sections 4 and 5]. Every backend has a learner of the same config and seed.
 *
 *   in-RAM, as in the paper  a list of transitions, each allocated for itself; a sample takes distinct ones and copies
 *                            them into one batch, field by field; each step copies its batch up and is waited for
 *   in-RAM, done well        packed rows in one block of RAM; batches are gathered with prefetching into pinned
 *                            buffers, and copied up while the step before runs
 *   in-device                the replay of this library: sample, gather and step on the device; steps enqueued one by
 *                            one, as by an agent that trains once for every transition it receives, or many together
 *
 * A learner of rows in RAM needs a replay for its schema. That one is as small as can be and stays empty.
 */
#pragma once

#include "bench/lib/setup.h"

typedef struct backend backend;

typedef struct backend_kind {
    const char *name;
    int32_t host_batches; /* of its learner */
    int is_in_ram;
    void *(*open)(int64_t capacity); /* the store, which the following calls use; NULL: there is none */
    void (*close)(void *store);
    void (*append)(backend *b, gpur_writer *writer, int64_t count, const melee_row *rows);
    void (*train)(backend *b, int64_t steps);               /* the last step need not be done on return */
    void (*train_on)(backend *b, const int64_t *positions); /* on these (batch) rows; 0 is the oldest */
    void (*use_thread)(backend *b, int on); /* whether a thread of its own fills the batches; NULL: it has none */
} backend_kind;

struct backend {
    const backend_kind *kind;
    gpur_device *device;
    gpur_replay *replay;
    gpur_learner *learner; /* NULL: backend_set_learner was not called */
    int64_t batch;
    void *store;      /* the kind's */
    const char *note; /* how it trains here; NULL: there is nothing to choose */
};

enum { BACKENDS = 4 };
extern const backend_kind ram_list, ram_rows, in_device_calls, in_device;
extern const backend_kind *const backend_kinds[BACKENDS]; /* in this order */

void backend_open(backend *b, const backend_kind *kind, gpur_device *device, int64_t capacity);
void backend_close(backend *b); /* the learner, too */

/* Appends rows 0 to rows - 1 of bench_melee_rows. */
void backend_fill(backend *b, int64_t rows);

/* A learner with batches of this size, from the same weights; unset destroys it. */
void backend_set_learner(backend *b, const gpur_dqn_config *config);
void backend_unset_learner(backend *b);

/* The config of preset "melee-gpu" with this batch size. */
gpur_dqn_config backend_learner_config(int64_t batch);

/* A bench_body: trains and waits. `context` is the backend. */
void backend_train(void *context, int64_t steps);

/* Where batches may be filled by a thread of their own: times both, takes the faster and sets the note. */
void backend_choose_thread(backend *b);
