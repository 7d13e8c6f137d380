/* SPDX-License-Identifier: MIT */
/* What a call was given by name, in the schema's order. */
#include "rows.h"

int fast_find_column(const fast_rows *self, const char *name)
{
    for (int at = 0; at < self->count; at++)
        if (PyUnicode_CompareWithASCIIString(self->columns[at].name, name) == 0)
            return at;
    return -1;
}

int fast_optional_of(const fast_rows *self)
{
    const int at = fast_find_column(self, "truncated"), beside = fast_find_column(self, "terminated");
    if (at < 0 || beside < 0)
        return -1;
    const fast_column *const column = &self->columns[at], *const other = &self->columns[beside];
    int alike = column->dims == other->dims && column->number.kind != 'i'; /* a bool goes into all others */
    for (int axis = 0; alike && axis < column->dims; axis++)
        alike = column->shape[axis] == other->shape[axis];
    return alike ? at : -1;
}

/* From `from` on, round and round; NULL: it is not there. Moves `from` behind it: mostly they come in order. */
static PyObject *find_among(const fast_named *given, const PyObject *name, Py_ssize_t *from)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(given->names);
    for (Py_ssize_t i = 0, at = *from; i < count; i++, at++) {
        at = at < count ? at : 0;
        if (PyTuple_GET_ITEM(given->names, at) == name)
            return *from = at + 1, given->values[at];
    }
    return NULL;
}

/* How many of the names tell only of episodes' ends. */
static Py_ssize_t count_aside(const fast_rows *self, PyObject *names)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; self->wanted > 0 && at < PyTuple_GET_SIZE(names); at++) {
        const PyObject *const name = PyTuple_GET_ITEM(names, at);
        count += name == fast_used.info || name == fast_used.final_obs;
    }
    return count;
}

static int sort_tuple(const fast_rows *self, const fast_named *given, PyObject **values)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(given->names);
    Py_ssize_t found = 0, from = 0;
    for (int at = 0; at < self->count; at++) {
        values[at] = find_among(given, self->columns[at].name, &from);
        if (!values[at] && at != self->optional)
            return 0;
        found += values[at] != NULL;
    }
    return found == count || found + count_aside(self, given->names) == count;
}

static Py_ssize_t count_aside_in(const fast_rows *self, PyObject *dict)
{
    return self->wanted <= 0 ? 0
                             : (PyDict_GetItemWithError(dict, fast_used.info) != NULL) +
                                   (PyDict_GetItemWithError(dict, fast_used.final_obs) != NULL);
}

static int sort_dict(const fast_rows *self, PyObject *dict, PyObject **values)
{
    Py_ssize_t found = 0, place = 0;
    PyObject *name = NULL;
    for (int at = 0; at < self->count; at++) {
        if (!PyDict_Next(dict, &place, &name, &values[at]) || name != self->columns[at].name)
            values[at] = PyDict_GetItemWithError(dict, self->columns[at].name);
        if (!values[at] && (PyErr_Occurred() || at != self->optional))
            return PyErr_Occurred() ? -1 : 0;
        found += values[at] != NULL;
    }
    return found == PyDict_GET_SIZE(dict) || found + count_aside_in(self, dict) == PyDict_GET_SIZE(dict);
}

int fast_sort(const fast_rows *self, const fast_named *given, PyObject **values)
{
    return given->values ? sort_tuple(self, given, values) : sort_dict(self, given->names, values);
}
