/* SPDX-License-Identifier: MIT */
/* A contestant's memory of what was played: where it is kept, and how a learner trains from it. */
#ifndef BENCH_TRAINING_MEMORY_H
#define BENCH_TRAINING_MEMORY_H

#include "bench/setup.h"
#include "examples/vec_env.h"

/* Rows of a replay that holds nothing and lends its schema. */
enum { MEMORY_LENT = 1000 };

typedef struct memory_setup {
    gpur_replay *replay;
    gpur_learner *learner;
    const vec_env *envs; /* reset, at the first observations */
    int64_t batch;
} memory_setup;

/* Each call leaves the program when the library refuses. */
typedef struct memory_kind {
    const char *name;
    int64_t ring;         /* rows of the replay on the device */
    int32_t host_batches; /* of the learner */

    void *(*open)(const memory_setup *setup);
    void (*remember)(void *memory, const int32_t *actions, const vec_env *envs); /* the step that `envs` last took */
    void (*train)(void *memory, int64_t steps);                                  /* need not wait until they are done */
    void (*read)(void *memory, int64_t count, melee_row *rows);                  /* the oldest, to compare them */
    void (*close)(void *memory);
} memory_kind;

extern const memory_kind memory_list;   /* in-RAM, as in the paper */
extern const memory_kind memory_rows;   /* in-RAM, done well */
extern const memory_kind memory_device; /* in-device */

#endif
