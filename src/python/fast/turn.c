/* SPDX-License-Identifier: MIT */
/* Turn(lock): a lock of Python's that tells whether somebody is inside. Who holds the interpreter's lock to the end of
 * what he does, and sees nobody inside, need not take it. */
#include "turn.h"

static PyObject *turn_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *lock;
    if (keywords || !PyArg_ParseTuple(arguments, "O;Turn(lock)", &lock))
        return keywords ? PyErr_Format(PyExc_TypeError, "Turn takes no keywords") : NULL;
    fast_turn *self = PyObject_New(fast_turn, type);
    if (!self)
        return NULL;
    self->inside = 0;
    self->acquire = PyObject_GetAttrString(lock, "acquire");
    self->release = self->acquire ? PyObject_GetAttrString(lock, "release") : NULL;
    if (!self->release)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void turn_dealloc(PyObject *object)
{
    fast_turn *self = (fast_turn *)(void *)object;
    Py_XDECREF(self->acquire);
    Py_XDECREF(self->release);
    PyObject_Free(object);
}

int fast_turn_enter(fast_turn *self)
{
    PyObject *result = PyObject_CallObject(self->acquire, NULL);
    self->inside += result != NULL;
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static PyObject *leave(fast_turn *self)
{
    self->inside--;
    return PyObject_CallObject(self->release, NULL); /* None, so that exceptions go on */
}

/* Who is inside may leave, so that this does not fail. */
void fast_turn_leave(fast_turn *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *result = leave(self);
    Py_XDECREF(result);
    PyErr_Restore(type, value, trace);
}

static PyObject *turn_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (fast_turn_enter((fast_turn *)(void *)object))
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *turn_exit(PyObject *object, PyObject *arguments)
{
    (void)arguments;
    return leave((fast_turn *)(void *)object);
}

static PyMethodDef methods[] = {
    {"__enter__", turn_enter, METH_NOARGS, NULL},
    {"__exit__", turn_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject fast_turn_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.Turn",
    .tp_basicsize = sizeof(fast_turn),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = turn_new,
    .tp_dealloc = turn_dealloc,
    .tp_methods = methods,
    .tp_doc = "Turn(lock): a lock that tells whether somebody is inside",
};
