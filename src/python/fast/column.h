/* SPDX-License-Identifier: MIT */
/* One field of the schema, and whether an array is rows of it. */
#ifndef GPUREPLAY_PYTHON_COLUMN_H
#define GPUREPLAY_PYTHON_COLUMN_H

#include "array.h"
#include "cast.h"
#include "scratch.h"

typedef struct fast_column {
    PyObject *name, *dtype; /* NumPy has one dtype object for each of its own types, so identity is equality */
    int dims;               /* of one row; shape (dims) */
    Py_ssize_t shape[GPUR_MAX_DIMS];
    int64_t size; /* elements in a row */
    fast_number number;
} fast_column;

/* One element, of whichever dtype. */
typedef union fast_scalar {
    float f32;
    int64_t i64;
    int32_t i32;
    uint8_t u8;
} fast_scalar;

/* Where the rows of a column lie, and how many. */
typedef struct fast_place {
    const void *memory;
    int64_t count;
    fast_scalar scalar; /* where it was a single number */
} fast_place;

/* `field`: (name, shape, dtype) as the package's Field; -1 with an exception set. */
int fast_column_init(fast_column *column, PyObject *field);
void fast_column_clear(fast_column *column);

/* 1 when `value` is an array of rows (count, shape): read where it lies; or, where it is not contiguous, or of another
 * dtype whose numbers the field takes, brought into the scratch. Else 0. */
int fast_column_take(const fast_column *column, PyObject *value, fast_scratch *scratch, fast_place *place);

/* The same for one row, which may also come without the axis of rows, or as a single number. */
int fast_column_take_one(const fast_column *column, PyObject *value, fast_scratch *scratch, fast_place *place);

/* `count` rows of zeros. */
int fast_column_zeros(const fast_column *column, int64_t count, fast_scratch *scratch, fast_place *place);

/* 1 when `value` is a number of Python's or NumPy's that the field, which is one number, can hold; else 0. */
int fast_scalar_take(const fast_column *column, PyObject *value, fast_scalar *out);

/* The rest needs no interpreter. */

/* 1 when one of these rows has a NaN. */
int fast_column_has_nan(const fast_column *column, const fast_place *place);

/* 1 when row `at` has an element other than 0. */
int fast_column_is_set(const fast_column *column, const fast_place *place, int64_t at);

#endif
