/* SPDX-License-Identifier: MIT */
/* What NumPy keeps of an array, in the order in which its manual lists it [NumPy C-API, "Python types and
 * C-structures"]. Read where it lies, since asking for a buffer of each array costs an allocation. The package compares
 * what is read here with what arrays say of themselves before it uses it. */
#ifndef GPUREPLAY_PYTHON_ARRAY_H
#define GPUREPLAY_PYTHON_ARRAY_H

#include "cast.h"

/* A dtype of NumPy's own numbers, and the type of a single one. Both live as long as NumPy. */
typedef struct fast_dtype {
    PyObject *dtype;
    PyTypeObject *scalar;
    fast_number number;
} fast_dtype;

enum { FAST_MOST_DTYPES = 16 };
extern fast_dtype fast_dtypes[FAST_MOST_DTYPES]; /* those that are known; NULLs behind them */

static inline const fast_dtype *fast_dtype_of(const PyObject *dtype)
{
    for (const fast_dtype *one = fast_dtypes; one < fast_dtypes + FAST_MOST_DTYPES && one->dtype; one++)
        if (one->dtype == dtype)
            return one;
    return NULL;
}

static inline const fast_dtype *fast_dtype_of_scalar(const PyTypeObject *scalar)
{
    for (const fast_dtype *one = fast_dtypes; one < fast_dtypes + FAST_MOST_DTYPES && one->dtype; one++)
        if (one->scalar == scalar)
            return one;
    return NULL;
}

typedef struct fast_array {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions, *strides; /* (nd) */
    PyObject *base, *descr;
    int flags;
} fast_array;

enum { FAST_MOST_DIMS = GPUR_MAX_DIMS + 1 };          /* of an array of rows */
enum { FAST_CONTIGUOUS = 0x1, FAST_ALIGNED = 0x100 }; /* C order; elements on their natural boundaries */
enum { FAST_READABLE = FAST_CONTIGUOUS | FAST_ALIGNED };

/* The object as an array of NumPy's own type, or NULL. */
static inline const fast_array *fast_array_of(PyObject *object)
{
    return Py_TYPE(object) == fast_used.array ? (const fast_array *)(const void *)object : NULL;
}

#endif
