/* SPDX-License-Identifier: MIT */
#include "steps.h"
#include <string.h>

static void steps_dealloc(PyObject *object)
{
    fast_steps *self = (fast_steps *)(void *)object;
    Py_XDECREF(self->rows);
    for (int at = 0; at < 3; at++)
        Py_XDECREF(self->arrays[at]);
    PyObject_Free(object);
}

/* Memory of an array of the package's own, which is (num_envs, ...) of so many bytes each; NULL with an exception. */
static void *memory_of(PyObject *object, int64_t num_envs, int64_t each)
{
    const fast_array *array = fast_array_of(object);
    fast_number number = {0, 0};
    if (array && fast_number_of(array->descr, &number))
        return NULL;
    int64_t bytes = number.bytes;
    for (int axis = 0; array && axis < array->nd; axis++)
        bytes *= array->dimensions[axis];
    if (array && (array->flags & FAST_READABLE) == FAST_READABLE && bytes == num_envs * each)
        return array->data;
    PyErr_Format(PyExc_ValueError, "%R is no contiguous array of %lld times %lld bytes", object, (long long)num_envs,
                 (long long)each);
    return NULL;
}

/* The columns that a step must have; -1 with an exception. */
static int find_columns(fast_steps *self)
{
    const struct {
        const char *name;
        int *at;
    } wanted[] = {{"obs", &self->at.obs},           {"action", &self->at.action},
                  {"reward", &self->at.reward},     {"next_obs", &self->at.next_obs},
                  {"terminated", &self->at.terminated}, {"truncated", &self->at.truncated}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        *wanted[i].at = fast_find_column(self->rows, wanted[i].name);
        if (*wanted[i].at < 0) {
            PyErr_Format(PyExc_ValueError, "there is no field \"%s\"", wanted[i].name);
            return -1;
        }
    }
    return 0;
}

static int take_extras(fast_steps *self, PyObject *extras)
{
    self->extra_count = 0;
    for (Py_ssize_t field = 0; field < PyList_GET_SIZE(extras) && field < GPUR_MAX_FIELDS; field++) {
        const long at = PyLong_AsLong(PyList_GET_ITEM(extras, field));
        if (at < -1 || at >= self->rows->count || PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "extra %ld of %d fields", at, self->rows->count);
            return -1;
        }
        self->extras[self->extra_count++] = (int)at;
    }
    return 0;
}

static int take_arrays(fast_steps *self)
{
    const fast_column *const obs = &self->rows->columns[self->at.obs];
    self->num_envs = self->rows->wanted, self->obs_bytes = obs->size * obs->number.bytes;
    self->standing = (unsigned char *)memory_of(self->arrays[0], self->num_envs, 1);
    self->pending = self->standing ? (int64_t *)memory_of(self->arrays[1], self->num_envs, sizeof(int64_t)) : NULL;
    self->last = self->pending ? (unsigned char *)memory_of(self->arrays[2], self->num_envs, self->obs_bytes) : NULL;
    return self->last ? 0 : -1;
}

#define STEPS "Steps(rows, standing, pending, last, after, n_step, extras)"

static PyObject *steps_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *rows, *arrays[3], *extras;
    int after;
    long long n_step;
    if (keywords || !PyArg_ParseTuple(arguments, "O!OOOiLO!;" STEPS, &fast_rows_type, &rows, &arrays[0], &arrays[1],
                                      &arrays[2], &after, &n_step, &PyList_Type, &extras))
        return keywords ? PyErr_Format(PyExc_TypeError, "Steps takes no keywords") : NULL;
    fast_steps *self = PyObject_New(fast_steps, type);
    if (!self)
        return NULL;
    Py_INCREF(rows);
    self->rows = (fast_rows *)(void *)rows, self->after = after, self->n_step = n_step;
    for (int at = 0; at < 3; at++) {
        Py_INCREF(arrays[at]);
        self->arrays[at] = arrays[at];
    }
    if (find_columns(self) || take_extras(self, extras) || take_arrays(self))
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Without the interpreter's lock, since the library may have to wait. `values` keep the arrays alive meanwhile. */
static PyObject *give(fast_steps *self, PyObject *writer, const fast_block *found)
{
    fast_call call;
    void *address;
    int64_t completed = 0;
    gpur_status status = GPUR_OK;
    if (fast_call_begin(&call, writer, &address) != 1)
        return NULL;
    const int is_ordinary = fast_steps_are_ordinary(self, found);
    if (is_ordinary)
        status = fast_steps_give(self, address, found);
    if (is_ordinary && status == GPUR_OK)
        completed = fast_steps_move(self, found);
    if (fast_call_end(&call))
        return NULL;
    if (status != GPUR_OK)
        return fast_refuse(writer, status);
    return is_ordinary ? PyLong_FromLongLong(completed) : NULL;
}

/* Inside the turn. */
static PyObject *take(fast_steps *self, PyObject *writer, const fast_named *given)
{
    PyObject *values[GPUR_MAX_FIELDS];
    fast_block found;
    if (fast_sort(self->rows, given, values) <= 0 || !fast_rows_collect(self->rows, values, &found))
        return NULL;
    return give(self, writer, &found);
}

static PyObject *take_in_turn(fast_steps *self, PyObject *writer, const fast_named *given)
{
    if (fast_turn_enter(self->rows->turn))
        return NULL;
    PyObject *result = take(self, writer, given);
    fast_turn_leave(self->rows->turn);
    return result;
}

PyObject *fast_steps_take(fast_steps *self, const fast_named *given)
{
    PyObject *writer = fast_rows_writer(self->rows);
    PyObject *result = writer ? take_in_turn(self, writer, given) : NULL;
    Py_XDECREF(writer);
    return result;
}

/* append(writer, values), inside the turn: how many transitions it completed, or None. */
static PyObject *steps_append(PyObject *object, PyObject *const *arguments, Py_ssize_t arity)
{
    if (arity != 2)
        return PyErr_Format(PyExc_TypeError, "append(writer, values) was given %zd arguments", arity);
    if (!PyDict_CheckExact(arguments[1]))
        Py_RETURN_NONE;
    const fast_named given = {arguments[1], NULL};
    PyObject *result = take((fast_steps *)(void *)object, arguments[0], &given);
    if (result || PyErr_Occurred())
        return result;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"append", (PyCFunction)(void (*)(void))steps_append, METH_FASTCALL, "append(writer, values): count or None"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject fast_steps_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.Steps",
    .tp_basicsize = sizeof(fast_steps),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = steps_new,
    .tp_dealloc = steps_dealloc,
    .tp_methods = methods,
    .tp_doc = STEPS ": takes a step that is ordinary",
};
