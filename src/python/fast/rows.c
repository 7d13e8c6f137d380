/* SPDX-License-Identifier: MIT */
#include "rows.h"
#include <string.h>

enum { MOST_AT_ONCE = 1 << 17 }; /* bytes that are copied sooner than another thread would get the interpreter's lock */

/* What one call appends. */
typedef struct block {
    fast_place places[GPUR_MAX_FIELDS];
    const void *memories[GPUR_MAX_FIELDS];
    int64_t count;
} block;

static void rows_dealloc(PyObject *object)
{
    fast_rows *self = (fast_rows *)(void *)object;
    for (int at = 0; at < self->count; at++)
        fast_column_clear(&self->columns[at]);
    Py_XDECREF(self->turn);
    Py_XDECREF(self->writer);
    PyObject_Free(object);
}

static int take_fields(fast_rows *self, PyObject *fields)
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
    for (int at = 0; at < self->count; at++)
        self->row_bytes += self->columns[at].size * self->columns[at].bytes;
    return 0;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *writer, *fields, *turn;
    int check_nan;
    long long wanted;
    if (keywords || !PyArg_ParseTuple(arguments, "OO!pO!L;Rows(writer, fields, check_nan, turn, count)", &writer,
                                      &PyList_Type, &fields, &check_nan, &fast_turn_type, &turn, &wanted))
        return keywords ? PyErr_Format(PyExc_TypeError, "Rows takes no keywords") : NULL;
    fast_rows *self = PyObject_New(fast_rows, type);
    if (!self)
        return NULL;
    Py_INCREF(turn);
    self->turn = (fast_turn *)(void *)turn, self->wanted = wanted, self->row_bytes = 0;
    self->count = 0, self->check_nan = check_nan;
    memset(self->columns, 0, sizeof self->columns);
    self->writer = PyWeakref_NewRef(writer, NULL);
    if (!self->writer || take_fields(self, fields))
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Column `at`, or NULL, perhaps with an exception set. Mostly they come in the schema's order. */
static PyObject *find_among(const fast_named *given, const PyObject *name, int at, int count)
{
    for (int i = 0; i < count; i++, at = at + 1 < count ? at + 1 : 0)
        if (PyTuple_GET_ITEM(given->names, at) == name)
            return given->values[at];
    return NULL;
}

/* 1: `values` are all that was given, in the schema's order; 0: not so; -1: an exception. */
static int sort_tuple(const fast_rows *self, const fast_named *given, PyObject **values)
{
    if (PyTuple_GET_SIZE(given->names) != self->count)
        return 0;
    for (int at = 0; at < self->count; at++) {
        values[at] = find_among(given, self->columns[at].name, at, self->count);
        if (!values[at])
            return 0;
    }
    return 1;
}

static int sort_dict(const fast_rows *self, PyObject *dict, PyObject **values)
{
    Py_ssize_t place = 0;
    PyObject *name = NULL;
    if (PyDict_GET_SIZE(dict) != self->count)
        return 0;
    for (int at = 0; at < self->count; at++)
        if (!PyDict_Next(dict, &place, &name, &values[at]) || name != self->columns[at].name) {
            values[at] = PyDict_GetItemWithError(dict, self->columns[at].name);
            if (!values[at])
                return PyErr_Occurred() ? -1 : 0;
        }
    return 1;
}

/* 1: they are rows that can be read where they lie, as many of each as are wanted; else 0. */
static int gather(const fast_rows *self, PyObject *const *values, block *found)
{
    int (*const take)(const fast_column *, PyObject *, fast_place *) =
        self->wanted == 1 ? fast_column_take_one : fast_column_take;
    for (int at = 0; at < self->count; at++) {
        if (!take(&self->columns[at], values[at], &found->places[at]) ||
            found->places[at].count != found->places[0].count)
            return 0;
        found->memories[at] = found->places[at].memory;
    }
    found->count = self->count ? found->places[0].count : 0;
    return found->count > 0 && (self->wanted < 0 || found->count == self->wanted);
}

static int has_nan(const fast_rows *self, const block *given)
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
static PyObject *append(const fast_rows *self, PyObject *writer, const block *given)
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

/* The writer, with a reference, or NULL. */
static PyObject *writer_of(const fast_rows *self)
{
    PyObject *writer = NULL;
#if PY_VERSION_HEX >= 0x030d0000
    PyWeakref_GetRef(self->writer, &writer);
#else
    writer = PyWeakref_GetObject(self->writer);
    writer = writer == Py_None ? NULL : writer;
    Py_XINCREF(writer);
#endif
    return writer;
}

static int64_t append_to(PyObject *writer, const block *given)
{
    void *address = writer ? fast_address(writer) : NULL;
    if (!address)
        return PyErr_Occurred() ? -1 : 0;
    const gpur_status status = fast_used.try_append(address, given->count, given->memories);
    if (status != GPUR_OK && status != GPUR_WOULD_BLOCK)
        fast_refuse(writer, status);
    return status == GPUR_OK ? given->count : status == GPUR_WOULD_BLOCK ? 0 : -1;
}

/* Whoever is inside the turn, in another thread or below a signal's handler, is in the midst of something. */
int64_t fast_rows_append_now(const fast_rows *self, const fast_named *given)
{
    PyObject *values[GPUR_MAX_FIELDS];
    block found;
    const int sorted = self->turn->inside > 0 ? 0
                       : given->values        ? sort_tuple(self, given, values)
                                              : sort_dict(self, given->names, values);
    if (sorted <= 0 || !gather(self, values, &found) || found.count * self->row_bytes > MOST_AT_ONCE ||
        has_nan(self, &found))
        return sorted < 0 ? -1 : 0;
    PyObject *writer = writer_of(self);
    const int64_t count = append_to(writer, &found);
    Py_XDECREF(writer);
    return count;
}

/* append(writer, values): the count appended, or None. */
static PyObject *rows_append(PyObject *object, PyObject *const *arguments, Py_ssize_t arity)
{
    const fast_rows *self = (const fast_rows *)(const void *)object;
    PyObject *values[GPUR_MAX_FIELDS];
    block given;
    if (arity != 2)
        return PyErr_Format(PyExc_TypeError, "append(writer, values) was given %zd arguments", arity);
    const int sorted = PyDict_CheckExact(arguments[1]) ? sort_dict(self, arguments[1], values) : 0;
    if (sorted < 0)
        return NULL;
    return sorted && gather(self, values, &given) ? append(self, arguments[0], &given) : none();
}

static PyMethodDef methods[] = {
    {"append", (PyCFunction)(void (*)(void))rows_append, METH_FASTCALL, "append(writer, values): count or None"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject fast_rows_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.Rows",
    .tp_basicsize = sizeof(fast_rows),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = rows_new,
    .tp_dealloc = rows_dealloc,
    .tp_methods = methods,
    .tp_doc = "Rows(writer, fields, check_nan, turn, count): appends what is ordinary",
};
