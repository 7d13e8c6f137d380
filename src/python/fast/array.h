/* SPDX-License-Identifier: MIT */
/* What NumPy keeps of an array, in the order in which its manual lists it [NumPy C-API, "Python types and
 * C-structures"]. Read where it lies, since asking for a buffer of each array costs an allocation. The package compares
 * what is read here with what arrays say of themselves before it uses it. */
#ifndef GPUREPLAY_PYTHON_ARRAY_H
#define GPUREPLAY_PYTHON_ARRAY_H

#include "fast.h"

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
