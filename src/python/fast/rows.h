/* SPDX-License-Identifier: MIT */
/* Rows: a schema that knows how to append. */
#ifndef GPUREPLAY_PYTHON_ROWS_H
#define GPUREPLAY_PYTHON_ROWS_H

#include "column.h"
#include "turn.h"

typedef struct fast_rows {
    PyObject_HEAD
    fast_turn *turn;
    PyObject *writer;  /* a weak reference: the writer holds this */
    int64_t wanted;    /* rows of a call; one may come without the axis of rows. -1: any */
    int64_t row_bytes; /* of the fields */
    int count, check_nan;
    fast_column columns[GPUR_MAX_FIELDS];
} fast_rows;

/* What a call was given by name: `values` (count), and their names in a tuple or, with their values, in a dict. */
typedef struct fast_named {
    PyObject *names; /* a tuple or a dict */
    PyObject *const *values;
} fast_named;

/* The count of rows that were appended at once, without letting go of the interpreter's lock; 0: nothing was, and it is
 * left to the package; -1 with an exception set. */
int64_t fast_rows_append_now(const fast_rows *rows, const fast_named *given);

#endif
