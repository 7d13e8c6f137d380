/* SPDX-License-Identifier: MIT */
#include "rows.h"
#include <string.h>

enum { MOST_AT_ONCE = 1 << 17 }; /* bytes that are copied sooner than another thread would get the interpreter's lock */

static void rows_dealloc(PyObject *object)
{
    fast_rows *self = (fast_rows *)(void *)object;
    for (int at = 0; at < self->count; at++)
        fast_column_clear(&self->columns[at]);
    Py_XDECREF(self->turn);
    Py_XDECREF(self->writer);
    Py_XDECREF(self->resets);
    PyMem_Free(self->scratch.memory);
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
        self->row_bytes += self->columns[at].size * self->columns[at].number.bytes;
    return 0;
}

/* Where an episode's end is told. */
static int take_flags(fast_rows *self, PyObject *flags)
{
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(flags) && at < FAST_MOST_FLAGS; at++) {
        const long flag = PyLong_AsLong(PyList_GET_ITEM(flags, at));
        if (flag < 0 || flag >= self->count) {
            PyErr_Format(PyExc_ValueError, "flag %ld of %d fields", flag, self->count);
            return -1;
        }
        self->flags[self->flag_count++] = (int)flag;
    }
    return 0;
}

static fast_rows *rows_empty(PyTypeObject *type, int check_nan, long long wanted)
{
    fast_rows *self = PyObject_New(fast_rows, type);
    if (self)
        memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
    if (self)
        self->check_nan = check_nan, self->wanted = wanted;
    return self;
}

#define ROWS "Rows(writer, fields, check_nan, turn, count, resets, flags)"

static PyObject *rows_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *writer, *fields, *turn, *resets, *flags;
    int check_nan;
    long long wanted;
    if (keywords || !PyArg_ParseTuple(arguments, "OO!pO!LOO!;" ROWS, &writer, &PyList_Type, &fields, &check_nan,
                                      &fast_turn_type, &turn, &wanted, &resets, &PyList_Type, &flags))
        return keywords ? PyErr_Format(PyExc_TypeError, "Rows takes no keywords") : NULL;
    fast_rows *self = rows_empty(type, check_nan, wanted);
    if (!self)
        return NULL;
    Py_INCREF(turn);
    Py_INCREF(resets);
    self->turn = (fast_turn *)(void *)turn, self->resets = resets;
    self->writer = PyWeakref_NewRef(writer, NULL);
    if (!self->writer || take_fields(self, fields) || take_flags(self, flags))
        Py_CLEAR(self);
    if (self)
        self->optional = fast_optional_of(self);
    return (PyObject *)self;
}

/* What was left out, as zeros beside the others. */
static int fill_left_out(fast_rows *self, PyObject *const *values, fast_block *found)
{
    const int at = self->optional;
    return at < 0 || values[at] || fast_column_zeros(&self->columns[at], found->count, &self->scratch,
                                                     &found->places[at]);
}

/* 1: they are rows that can be read where they lie, or converted, as many of each as are wanted; else 0. */
static int gather(fast_rows *self, PyObject *const *values, fast_block *found)
{
    int (*const take)(const fast_column *, PyObject *, fast_scratch *, fast_place *) =
        self->wanted == 1 ? fast_column_take_one : fast_column_take;
    found->count = 0, self->scratch.used = 0;
    for (int at = 0, taken = 0; at < self->count; at++) {
        fast_place *const place = &found->places[at];
        if (!values[at])
            continue;
        if (!take(&self->columns[at], values[at], &self->scratch, place) || (taken++ && place->count != found->count))
            return 0;
        found->count = place->count;
    }
    return found->count > 0 && (self->wanted < 0 || found->count == self->wanted) && fill_left_out(self, values, found);
}

int fast_rows_collect(fast_rows *self, PyObject *const *values, fast_block *found)
{
    if (!gather(self, values, found))
        return 0;
    for (int at = 0; at < self->count; at++)
        found->memories[at] = found->places[at].memory;
    return 1;
}

int fast_rows_have_nan(const fast_rows *self, const fast_block *given, int but)
{
    for (int at = 0; self->check_nan && at < self->count; at++)
        if (at != but && fast_column_has_nan(&self->columns[at], &given->places[at]))
            return 1;
    return 0;
}

static PyObject *none(void)
{
    Py_RETURN_NONE;
}

/* `values` keeps the arrays alive meanwhile. NaN is left to the package, which says where it is. */
static PyObject *append(const fast_rows *self, PyObject *writer, const fast_block *given)
{
    fast_call call;
    void *address;
    const int begun = fast_call_begin(&call, writer, &address);
    if (begun != 1)
        return begun ? NULL : none();
    gpur_status status = GPUR_OK;
    const int refused = fast_rows_have_nan(self, given, -1);
    if (!refused)
        status = fast_used.append(address, given->count, given->memories, NULL, NULL);
    if (fast_call_end(&call))
        return NULL;
    if (status != GPUR_OK)
        return fast_refuse(writer, status);
    return refused ? none() : PyLong_FromLongLong(given->count);
}

PyObject *fast_rows_writer(const fast_rows *self)
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

/* What cannot go at once, for now or for being too many, is left to the append that may wait; so is what that one
 * refuses. */
static int64_t append_to(PyObject *writer, const fast_block *given)
{
    void *address = writer ? fast_address(writer) : NULL;
    if (!address)
        return PyErr_Occurred() ? -1 : 0;
    const gpur_status status = fast_used.try_append(address, given->count, given->memories);
    if (status == GPUR_WOULD_BLOCK || status == GPUR_INVALID_ARGUMENT)
        return 0;
    return status == GPUR_OK ? given->count : (fast_refuse(writer, status), -1);
}

static int64_t append_now(const fast_rows *self, const fast_block *found)
{
    if (found->count * self->row_bytes > MOST_AT_ONCE || fast_rows_have_nan(self, found, -1))
        return 0;
    PyObject *writer = fast_rows_writer(self);
    const int64_t count = append_to(writer, found);
    Py_XDECREF(writer);
    return count;
}

/* Whoever is inside the turn, in another thread or below a signal's handler, is in the midst of something. */
int64_t fast_rows_append_now(fast_rows *self, const fast_named *given)
{
    PyObject *values[GPUR_MAX_FIELDS];
    fast_block found;
    const int sorted = self->turn->inside > 0 ? 0 : fast_sort(self, given, values);
    if (sorted <= 0 || !fast_rows_collect(self, values, &found))
        return sorted < 0 ? -1 : 0;
    const int begun = fast_ends_begin(self, &found);
    const int64_t count = begun > 0 ? append_now(self, &found) : begun;
    fast_ends_finish(&found, count > 0);
    return count;
}

/* append(writer, values): the count appended, or None. */
static PyObject *rows_append(PyObject *object, PyObject *const *arguments, Py_ssize_t arity)
{
    fast_rows *self = (fast_rows *)(void *)object;
    PyObject *values[GPUR_MAX_FIELDS];
    fast_block found;
    if (arity != 2)
        return PyErr_Format(PyExc_TypeError, "append(writer, values) was given %zd arguments", arity);
    const fast_named given = {arguments[1], NULL};
    const int sorted = PyDict_CheckExact(arguments[1]) ? fast_sort(self, &given, values) : 0;
    if (sorted <= 0 || !fast_rows_collect(self, values, &found))
        return sorted < 0 ? NULL : none();
    const int begun = fast_ends_begin(self, &found);
    PyObject *result = begun > 0 ? append(self, arguments[0], &found) : begun < 0 ? NULL : none();
    fast_ends_finish(&found, result && result != Py_None);
    return result;
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
    .tp_doc = ROWS ": appends what is ordinary",
};
