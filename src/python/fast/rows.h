/* SPDX-License-Identifier: MIT */
/* Rows: a schema that knows how to append. */
#ifndef GPUREPLAY_PYTHON_ROWS_H
#define GPUREPLAY_PYTHON_ROWS_H

#include "column.h"
#include "turn.h"

enum { FAST_MOST_FLAGS = 2 }; /* terminated, truncated */

typedef struct fast_rows {
    PyObject_HEAD
    fast_turn *turn;
    PyObject *writer;       /* a weak reference: the writer holds this */
    PyObject *resets;       /* whose `_ended` says which environments' next step only resets; None: there are none */
    int64_t wanted;         /* rows of a call; one may come without the axis of rows. -1: any */
    int64_t row_bytes;      /* of the fields */
    fast_scratch scratch;   /* of the call that has the turn, or holds the interpreter's lock to its end */
    int count, check_nan;
    int optional;               /* the column that may be left out, or -1 */
    int flags[FAST_MOST_FLAGS]; /* (flag_count) columns that tell an episode's end, where that matters */
    int flag_count;
    fast_column columns[GPUR_MAX_FIELDS];
} fast_rows;

/* What one call appends. */
typedef struct fast_block {
    fast_place places[GPUR_MAX_FIELDS];
    const void *memories[GPUR_MAX_FIELDS];
    int64_t count;
    PyObject *before; /* the array `_ended` of its resets, or NULL */
    char *ended;      /* what it is to be after this step, or NULL */
} fast_block;

/* What a call was given by name: `values` (count), and their names in a tuple; or, with their values, in a dict, and
 * `values` NULL. */
typedef struct fast_named {
    PyObject *names; /* a tuple or a dict */
    PyObject *const *values;
} fast_named;

/* The count of rows that were appended at once, without letting go of the interpreter's lock; 0: nothing was, and it is
 * left to the package; -1 with an exception set. */
int64_t fast_rows_append_now(fast_rows *rows, const fast_named *given);

/* 1: `values`, in the schema's order, are as many rows as are wanted, read where they lie or converted; else 0. */
int fast_rows_collect(fast_rows *rows, PyObject *const *values, fast_block *found);

/* 1 when one of them has a NaN, and that matters; column `but` is not looked at. Needs no interpreter. */
int fast_rows_have_nan(const fast_rows *rows, const fast_block *given, int but);

/* The writer, with a reference, or NULL. */
PyObject *fast_rows_writer(const fast_rows *rows);

/* The column of this name, or -1. */
int fast_find_column(const fast_rows *rows, const char *name);

/* The column that may be left out: `truncated`, if zeros like `terminated` will do, or -1. */
int fast_optional_of(const fast_rows *rows);

/* 1: `values` are all that was given, in the schema's order, NULL for what was left out; 0: not so; -1: an exception.
 * Of a step, what tells only of episodes' ends is not looked at. */
int fast_sort(const fast_rows *rows, const fast_named *given, PyObject **values);

/* 1: the block's rows, of which those that only reset have left, are transitions; 0: the package has to look; -1: an
 * exception. fast_ends_finish comes after, in any case, and keeps which episodes ended if the rows are in. */
int fast_ends_begin(fast_rows *rows, fast_block *block);
void fast_ends_finish(fast_block *block, int is_in);

#endif
