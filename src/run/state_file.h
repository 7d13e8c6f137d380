/* SPDX-License-Identifier: MIT */
/*
 * A run's own file, "run.safetensors", as one table, from which it is written, read, and refused. The environment, its
 * options and the seed are settings of every run; the counts of episodes and evaluations, and the last returns, are in
 * every file.
 */
#pragma once

#include "file/checkpoint_file.h"
#include "run/core.h"

/* An array of `rows` x `columns` numbers (columns 0: one axis). GPUR_I64 or GPUR_U8. An array without numbers is not in
 * the file. */
typedef struct gpur_state_array {
    const char *name;
    int32_t type;
    int64_t rows, columns;
    void *memory;
    int32_t are_counts; /* 1: GPUR_I64, each 0 to 2^61; refused otherwise */
} gpur_state_array;

enum { GPUR_STATE_SETTINGS = 20, GPUR_STATE_COUNTS = 24, GPUR_STATE_ARRAYS = 8 };

typedef struct gpur_state_table {
    gpur_run *run;
    const char *kind;                          /* of the file: the system */
    gpur_device *device;                       /* through which files are written */
    gpur_scalar settings[GPUR_STATE_SETTINGS]; /* must be equal in the run that loads the file */
    gpur_scalar counts[GPUR_STATE_COUNTS];     /* GPUR_SCALAR_I64 or I32, each 0 to 2^61; refused otherwise */
    gpur_state_array arrays[GPUR_STATE_ARRAYS];
    int32_t setting_count, count_count, array_count;

    /* Sets `arrays`, when the counts have been read that say how large they are; NULL: they are set. */
    gpur_status (*set_arrays)(void *context, struct gpur_state_table *table);
    void *context;

    /* Of the table itself. */
    int64_t episodes, evaluations, evaluated_steps, evaluated_at;
    double evaluated_return;
    gpur_run_returns returns;
    uint64_t env_options; /* a checksum */
    int64_t trained;      /* train steps of the learner's file beside it; of the caller when it is written */
} gpur_state_table;

/* Adds an entry; `value` points to a number of the type. */
void gpur_state_add_setting(gpur_state_table *table, const char *name, int32_t type, const void *value);
void gpur_state_add_count(gpur_state_table *table, const char *name, int32_t type, void *value);
void gpur_state_add_array(gpur_state_table *table, gpur_state_array array);

/* Writes the file. Reads it into what the table points to; the run itself has not changed then. */
gpur_status gpur_state_write(gpur_state_table *table, const char *folder);
gpur_status gpur_state_read(gpur_state_table *table, const char *folder);

/* Sets in the run what is in every file. Without the lock. */
void gpur_state_restore(const gpur_state_table *table);
