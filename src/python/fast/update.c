/* SPDX-License-Identifier: MIT */
/* New priorities for a batch's transitions, from arrays of NumPy's. */
#include "array.h"

enum { MOST_CAST = 1024 }; /* of more, NumPy's conversion is as quick */

/* What one argument holds: read where it lies, or converted. */
typedef struct numbers {
    const void *memory;
    int64_t count, space[MOST_CAST];
} numbers;

static const fast_number an_index = {'i', sizeof(int64_t)}, a_priority = {'f', sizeof(float)};

/* 1: `object` is an array (count) of such numbers, or of some that they take; else 0. */
static int take(numbers *out, PyObject *object, fast_number wanted)
{
    const fast_array *array = fast_array_of(object);
    const fast_dtype *dtype = array ? fast_dtype_of(array->descr) : NULL;
    if (!dtype || array->nd != 1 || (array->flags & FAST_READABLE) != FAST_READABLE)
        return 0;
    out->memory = array->data, out->count = array->dimensions[0];
    if (dtype->number.kind == wanted.kind && dtype->number.bytes == wanted.bytes)
        return 1;
    out->memory = out->space;
    return out->count <= MOST_CAST && fast_cast(wanted, out->space, dtype->number, array->data, out->count);
}

/* The caller's arguments keep the arrays alive while the interpreter's lock is not held. */
static PyObject *give(PyObject *buffer, const numbers *indices, const numbers *priorities)
{
    fast_call call;
    void *replay;
    const int begun = fast_call_begin(&call, buffer, &replay);
    if (begun < 0)
        return NULL;
    if (!begun)
        Py_RETURN_FALSE;
    const gpur_status status = fast_used.update(replay, indices->count, (const int64_t *)indices->memory,
                                                (const float *)priorities->memory, NULL);
    if (fast_call_end(&call))
        return NULL;
    if (status != GPUR_OK)
        return fast_refuse(buffer, status);
    Py_RETURN_TRUE;
}

PyObject *fast_update(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    numbers indices, priorities;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "update(buffer, indices, priorities) was given %zd arguments", count);
    if (!take(&indices, arguments[1], an_index) || !take(&priorities, arguments[2], a_priority) ||
        indices.count != priorities.count)
        Py_RETURN_FALSE;
    return give(arguments[0], &indices, &priorities);
}
