/* SPDX-License-Identifier: MIT */
/* Rows: a schema that knows how to append. */
#include "column.h"
#include <string.h>

typedef struct rows {
    PyObject_HEAD
    int count, check_nan;
    fast_column columns[GPUR_MAX_FIELDS];
} rows;

/* What one call appends. */
typedef struct block {
    fast_place places[GPUR_MAX_FIELDS];
    const void *memories[GPUR_MAX_FIELDS];
    int64_t count;
} block;

static void rows_dealloc(PyObject *object)
{
    rows *self = (rows *)(void *)object;
    for (int at = 0; at < self->count; at++)
        fast_column_clear(&self->columns[at]);
    PyObject_Free(object);
}

static int take_fields(rows *self, PyObject *fields)
{
    const Py_ssize_t count = PyList_GET_SIZE(fields);
    if (count > GPUR_MAX_FIELDS) {
        PyErr_Format(PyExc_ValueError, "%zd fields; at most %d", count, (int)GPUR_MAX_FIELDS);
        return -1;
    }
    for (; self->count < count; self->count++)
        if (fast_column_init(&self->columns[self->count], PyList_GET_ITEM(fields, self->count))) {
            self->count++; /* half of it may be there */
            return -1;
        }
    return 0;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *fields;
    int check_nan;
    if (keywords || !PyArg_ParseTuple(arguments, "O!p;Rows(fields, check_nan)", &PyList_Type, &fields, &check_nan))
        return keywords ? PyErr_Format(PyExc_TypeError, "Rows takes no keywords") : NULL;
    rows *self = PyObject_New(rows, type);
    if (!self)
        return NULL;
    self->count = 0, self->check_nan = check_nan;
    memset(self->columns, 0, sizeof self->columns);
    if (take_fields(self, fields)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

typedef int (*taker)(const fast_column *column, PyObject *value, fast_place *place);

/* 1: every field is there, as rows that can be read where they lie, as many of each, and nothing else; 0: not so; -1:
 * an exception. */
static int gather(const rows *self, PyObject *values, taker take, block *found)
{
    if (!PyDict_CheckExact(values) || PyDict_GET_SIZE(values) != self->count)
        return 0;
    for (int at = 0; at < self->count; at++) {
        PyObject *value = PyDict_GetItemWithError(values, self->columns[at].name);
        if (!value)
            return PyErr_Occurred() ? -1 : 0;
        if (!take(&self->columns[at], value, &found->places[at]))
            return 0;
        found->memories[at] = found->places[at].memory;
        if (found->places[at].count != found->places[0].count)
            return 0;
    }
    found->count = self->count ? found->places[0].count : 0;
    return found->count > 0;
}

static int has_nan(const rows *self, const block *given)
{
    for (int at = 0; self->check_nan && at < self->count; at++)
        if (fast_column_has_nan(&self->columns[at], &given->places[at]))
            return 1;
    return 0;
}

static PyObject *none(void)
{
    Py_RETURN_NONE;
}

/* `values` keeps the arrays alive meanwhile. NaN is left to the package, which says where it is. */
static PyObject *append(const rows *self, PyObject *writer, const block *given)
{
    fast_call call;
    void *address;
    const int begun = fast_call_begin(&call, writer, &address);
    if (begun != 1)
        return begun ? NULL : none();
    gpur_status status = GPUR_OK;
    const int refused = has_nan(self, given);
    if (!refused)
        status = fast_used.append(address, given->count, given->memories, NULL, NULL);
    if (fast_call_end(&call))
        return NULL;
    if (status != GPUR_OK)
        return fast_refuse(writer, status);
    return refused ? none() : PyLong_FromLongLong(given->count);
}

/* append(writer, values, count): the count appended, or None. `count`: how many rows it must be; -1: any. One row may
 * come as a step of one environment does. */
static PyObject *rows_append(PyObject *object, PyObject *const *arguments, Py_ssize_t arity)
{
    const rows *self = (const rows *)(const void *)object;
    if (arity != 3)
        return PyErr_Format(PyExc_TypeError, "append(writer, values, count) was given %zd arguments", arity);
    const long long wanted = PyLong_AsLongLong(arguments[2]);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    block given;
    const int ordinary = gather(self, arguments[1], wanted == 1 ? fast_column_take_one : fast_column_take, &given);
    if (ordinary < 0)
        return NULL;
    return ordinary && (wanted < 0 || wanted == given.count) ? append(self, arguments[0], &given) : none();
}

static PyMethodDef methods[] = {
    {"append", (PyCFunction)(void (*)(void))rows_append, METH_FASTCALL, "append(writer, values, count): count or None"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject fast_rows_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.Rows",
    .tp_basicsize = sizeof(rows),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = rows_new,
    .tp_dealloc = rows_dealloc,
    .tp_methods = methods,
    .tp_doc = "Rows(fields, check_nan): appends what is ordinary",
};
