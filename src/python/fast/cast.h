/* SPDX-License-Identifier: MIT */
/* Numbers of one type as those of a field, by the rules of the package's _inputs.py: floats become narrower floats,
 * integers must fit, and so on. float16 is left to the package. */
#ifndef GPUREPLAY_PYTHON_CAST_H
#define GPUREPLAY_PYTHON_CAST_H

#include "fast.h"

/* Of an element: its kind, as NumPy has it (f, i, u, b), and its bytes. */
typedef struct fast_number {
    char kind;
    int bytes;
} fast_number;

/* -1 with an exception set. */
int fast_number_of(PyObject *dtype, fast_number *number);

/* 1 when a field of `to` takes numbers of `from`, if they fit; else 0. */
int fast_is_taken(fast_number to, fast_number from);

/* What such a field holds of integers without loss. */
void fast_limits(fast_number to, int64_t *least, int64_t *most);

/* 1: `out` has the `count` numbers at `in`, both on their natural boundaries; 0: they are not to be taken, or one does
 * not fit. */
int fast_cast(fast_number to, void *out, fast_number from, const void *in, int64_t count);

#endif
