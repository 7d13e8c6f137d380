/* SPDX-License-Identifier: MIT */
/* Method(function, name): a method of the package's that is tried in C first. Its object's attribute of that name is
 * the Rows or the Steps of a writer; None there, or whatever is out of the ordinary, goes to the function. To whoever
 * asks it is the function, and bound to an object it is the function's method. */
#include "rows.h"
#include "steps.h"
#include <stddef.h>

typedef struct method {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *function, *name;
} method;

/* One that was looked up on an object. It takes a dict of keywords as it is, which a method of Python's cannot. */
typedef struct bound {
    PyObject_HEAD
    method *method;
    PyObject *self, *weak; /* weak: the list of weak references, or NULL */
} bound;

extern PyTypeObject fast_bound_type;

/* The count, or NULL: with an exception, or for the function to do. */
static PyObject *attempt_by(PyObject *by, const fast_named *given)
{
    if (Py_TYPE(by) == &fast_steps_type)
        return fast_steps_take((fast_steps *)(void *)by, given);
    const int64_t count = Py_TYPE(by) == &fast_rows_type ? fast_rows_append_now((fast_rows *)(void *)by, given) : 0;
    return count > 0 ? PyLong_FromLongLong(count) : NULL;
}

/* An object that is half made has neither Rows nor Steps. */
static PyObject *attempt(const method *self, PyObject *object, const fast_named *given)
{
    PyObject *by = PyObject_GetAttr(object, self->name), *result = by ? attempt_by(by, given) : NULL;
    if (!by)
        PyErr_Clear();
    Py_XDECREF(by);
    return result;
}

static PyObject *method_call(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *names)
{
    const method *self = (const method *)(const void *)callable;
    if (names && PyVectorcall_NARGS(flags) == 1) {
        const fast_named given = {names, arguments + 1};
        PyObject *result = attempt(self, arguments[0], &given);
        if (result || PyErr_Occurred())
            return result;
    }
    return PyObject_Vectorcall(self->function, arguments, flags, names);
}

static PyObject *method_of(const bound *self)
{
    return PyMethod_New(self->method->function, self->self);
}

static PyObject *bound_call(PyObject *callable, PyObject *arguments, PyObject *keywords)
{
    const bound *self = (const bound *)(const void *)callable;
    if (keywords && PyTuple_GET_SIZE(arguments) == 0) {
        const fast_named given = {keywords, NULL};
        PyObject *result = attempt(self->method, self->self, &given);
        if (result || PyErr_Occurred())
            return result;
    }
    PyObject *plain = method_of(self), *result = plain ? PyObject_Call(plain, arguments, keywords) : NULL;
    Py_XDECREF(plain);
    return result;
}

static PyObject *bound_get(PyObject *object, PyObject *name)
{
    PyObject *plain = method_of((const bound *)(const void *)object);
    PyObject *result = plain ? PyObject_GetAttr(plain, name) : NULL;
    Py_XDECREF(plain);
    return result;
}

static PyObject *bound_repr(PyObject *object)
{
    PyObject *plain = method_of((const bound *)(const void *)object), *result = plain ? PyObject_Repr(plain) : NULL;
    Py_XDECREF(plain);
    return result;
}

/* Also with the function's method, which may have been got otherwise. */
static PyObject *bound_compare(PyObject *left, PyObject *right, int how)
{
    const bound *one = (const bound *)(const void *)left, *other = (const bound *)(const void *)right;
    const int is_plain = PyMethod_Check(right);
    if ((Py_TYPE(right) != &fast_bound_type && !is_plain) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    const int is_same = is_plain ? one->method->function == PyMethod_GET_FUNCTION(right) &&
                                       one->self == PyMethod_GET_SELF(right)
                                 : one->method == other->method && one->self == other->self;
    return PyBool_FromLong(is_same == (how == Py_EQ));
}

/* pydoc asks for it without tp_getattro, and would find what the type says of itself. */
static PyObject *bound_doc(PyObject *object, void *closure)
{
    (void)closure;
    return PyObject_GetAttrString(((bound *)(void *)object)->method->function, "__doc__");
}

static PyGetSetDef bound_members[] = {{"__doc__", bound_doc, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static Py_hash_t bound_hash(PyObject *object)
{
    PyObject *plain = method_of((const bound *)(const void *)object);
    const Py_hash_t hash = plain ? PyObject_Hash(plain) : -1;
    Py_XDECREF(plain);
    return hash;
}

static int bound_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((bound *)(void *)object)->method);
    Py_VISIT(((bound *)(void *)object)->self);
    return 0;
}

static int bound_clear(PyObject *object)
{
    (void)object; /* like Python's own methods, it never changes; its object breaks the circle */
    return 0;
}

static bound *spare; /* one that nobody has any more, or NULL: calls make one after the other */

static void bound_dealloc(PyObject *object)
{
    bound *self = (bound *)(void *)object;
    method *const of = self->method;
    PyObject *const bound_to = self->self;
    PyObject_GC_UnTrack(object);
    if (self->weak)
        PyObject_ClearWeakRefs(object);
    if (spare)
        PyObject_GC_Del(object);
    else
        spare = self;
    Py_DECREF(of); /* may run anything, so last */
    Py_DECREF(bound_to);
}

/* With neither method nor object yet. */
static bound *bound_new(void)
{
    bound *made = spare;
    if (!made)
        return PyObject_GC_New(bound, &fast_bound_type);
    spare = NULL;
    PyObject_Init((PyObject *)made, &fast_bound_type);
    return made;
}

/* type(method)(function, object), as weakref.WeakMethod makes them again: Python's own do. */
static PyObject *bound_make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *function, *self;
    (void)type;
    if (keywords || !PyArg_ParseTuple(arguments, "OO;bound(function, object)", &function, &self))
        return keywords ? PyErr_Format(PyExc_TypeError, "bound takes no keywords") : NULL;
    return PyMethod_New(function, self);
}

PyTypeObject fast_bound_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.bound",
    .tp_basicsize = sizeof(bound),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_call = bound_call,
    .tp_getattro = bound_get,
    .tp_getset = bound_members,
    .tp_new = bound_make,
    .tp_weaklistoffset = offsetof(bound, weak),
    .tp_repr = bound_repr,
    .tp_richcompare = bound_compare,
    .tp_hash = bound_hash,
    .tp_dealloc = bound_dealloc,
    .tp_traverse = bound_traverse,
    .tp_clear = bound_clear,
};

static PyObject *method_bind(PyObject *object, PyObject *self, PyObject *type)
{
    (void)type;
    Py_INCREF(object);
    if (!self || self == Py_None)
        return object;
    bound *made = bound_new();
    if (!made) {
        Py_DECREF(object);
        return NULL;
    }
    Py_INCREF(self);
    made->method = (method *)(void *)object, made->self = self, made->weak = NULL;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static PyObject *method_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *function, *name;
    if (keywords || !PyArg_ParseTuple(arguments, "O!U;Method(function, name)", &PyFunction_Type, &function, &name))
        return keywords ? PyErr_Format(PyExc_TypeError, "Method takes no keywords") : NULL;
    method *self = PyObject_GC_New(method, type);
    if (!self)
        return NULL;
    Py_INCREF(function);
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    self->call = method_call, self->function = function, self->name = name;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *method_get(PyObject *object, PyObject *name)
{
    return PyObject_GetAttr(((method *)(void *)object)->function, name);
}

static PyObject *method_doc(PyObject *object, void *closure)
{
    (void)closure;
    return PyObject_GetAttrString(((method *)(void *)object)->function, "__doc__");
}

static PyGetSetDef method_members[] = {{"__doc__", method_doc, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyObject *method_repr(PyObject *object)
{
    return PyObject_Repr(((method *)(void *)object)->function);
}

static int method_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((method *)(void *)object)->function);
    return 0;
}

static void method_dealloc(PyObject *object)
{
    method *self = (method *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_DECREF(self->function);
    Py_DECREF(self->name);
    PyObject_GC_Del(object);
}

PyTypeObject fast_method_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.Method",
    .tp_basicsize = sizeof(method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(method, call),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = method_bind,
    .tp_getattro = method_get,
    .tp_getset = method_members,
    .tp_repr = method_repr,
    .tp_new = method_new,
    .tp_dealloc = method_dealloc,
    .tp_traverse = method_traverse,
    .tp_doc = "Method(function, name): the function, tried in C first",
};
