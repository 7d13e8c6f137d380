/* SPDX-License-Identifier: MIT */
/* Whether a batch is idle, as the package's _reuse.py describes it, and the draw into one that is. */
#include "array.h"
#include <string.h>

enum { BATCH, LIST };                                   /* where they stand among the parts */
enum { MOST_PARTS = 3 + GPUR_MAX_FIELDS + 3 };          /* the memory, too, and discount, weight, id */

/* An array as it was made. */
typedef struct shape {
    const char *data;
    const PyObject *descr;
    int flags, nd;
    Py_ssize_t dimensions[FAST_MOST_DIMS], strides[FAST_MOST_DIMS];
} shape;

typedef struct watch {
    PyObject_HEAD
    PyObject *parts;  /* (batch, its list, its memory, its arrays ...): the only references besides their own */
    Py_ssize_t count; /* of the parts */
    Py_ssize_t idle[MOST_PARTS]; /* the references to each when nobody else has one */
    shape shapes[MOST_PARTS];    /* of those that are arrays */
} watch;

static void shape_of(const fast_array *array, shape *out)
{
    const size_t bytes = (size_t)array->nd * sizeof(Py_ssize_t);
    out->data = array->data, out->descr = array->descr, out->flags = array->flags, out->nd = array->nd;
    memcpy(out->dimensions, array->dimensions, bytes);
    memcpy(out->strides, array->strides, bytes);
}

/* Callers can give an array another shape, type or flags in place. */
static int is_as_made(const fast_array *array, const shape *made)
{
    const size_t bytes = (size_t)made->nd * sizeof(Py_ssize_t);
    return array->data == made->data && array->descr == made->descr && array->flags == made->flags &&
           array->nd == made->nd && !memcmp(array->dimensions, made->dimensions, bytes) &&
           !memcmp(array->strides, made->strides, bytes);
}

/* What somebody has a weak reference to is never made something else. */
static int has_weak(PyObject *object)
{
    const Py_ssize_t at = Py_TYPE(object)->tp_weaklistoffset;
    return at != 0 && *(PyObject **)(void *)((char *)object + at) != NULL;
}

static int is_idle(const watch *self)
{
    for (Py_ssize_t at = 0; at < self->count; at++) {
        PyObject *part = PyTuple_GET_ITEM(self->parts, at);
        const fast_array *array = fast_array_of(part);
        if (Py_REFCNT(part) != self->idle[at] || has_weak(part) || (array && !is_as_made(array, &self->shapes[at])))
            return 0;
    }
    return 1;
}

/* The maker still holds batch and list; of these the counts are known: the tuple's, and the batch's own. */
static void record(watch *self)
{
    for (Py_ssize_t at = 0; at < self->count; at++) {
        PyObject *part = PyTuple_GET_ITEM(self->parts, at);
        const fast_array *array = fast_array_of(part);
        self->idle[at] = at == BATCH ? 1 : at == LIST ? 2 : Py_REFCNT(part);
        if (array)
            shape_of(array, &self->shapes[at]);
    }
}

static int fits(PyObject *parts)
{
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(parts); at++) {
        const fast_array *array = fast_array_of(PyTuple_GET_ITEM(parts, at));
        if (array && array->nd > FAST_MOST_DIMS)
            return 0;
    }
    return PyTuple_GET_SIZE(parts) >= 2 && PyTuple_GET_SIZE(parts) <= MOST_PARTS;
}

static PyObject *watch_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *parts;
    if (keywords || !PyArg_ParseTuple(arguments, "O!;Watch(parts)", &PyTuple_Type, &parts))
        return keywords ? PyErr_Format(PyExc_TypeError, "Watch takes no keywords") : NULL;
    if (!fits(parts))
        return PyErr_Format(PyExc_ValueError, "%zd parts; they must be 2 to %d, of at most %d axes",
                            PyTuple_GET_SIZE(parts), (int)MOST_PARTS, (int)FAST_MOST_DIMS);
    watch *self = PyObject_GC_New(watch, type);
    if (!self)
        return NULL;
    Py_INCREF(parts);
    self->parts = parts, self->count = PyTuple_GET_SIZE(parts);
    record(self);
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int watch_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((watch *)(void *)object)->parts);
    return 0;
}

static int watch_clear(PyObject *object)
{
    watch *self = (watch *)(void *)object;
    self->count = 0;
    Py_CLEAR(self->parts);
    return 0;
}

static void watch_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    watch_clear(object);
    PyObject_GC_Del(object);
}

/* The first batch that nobody looks at, with a reference of the caller's: from then on it is held. NULL: none. */
static PyObject *take_idle(PyObject *watches)
{
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(watches); at++) {
        const watch *one = (const watch *)(const void *)PyTuple_GET_ITEM(watches, at);
        if (Py_TYPE(one) == &fast_watch_type && one->count && is_idle(one)) {
            PyObject *batch = PyTuple_GET_ITEM(one->parts, BATCH);
            Py_INCREF(batch);
            return batch;
        }
    }
    return NULL;
}

/* The batch drawn into, or None when the package is to draw a new one or to say what is wrong. */
static PyObject *draw_into(PyObject *buffer, void *stream, PyObject *batch)
{
    fast_call call;
    void *replay, *own = fast_address(batch);
    if (!own && PyErr_Occurred())
        return NULL;
    const int begun = own ? fast_call_begin(&call, buffer, &replay) : 0;
    if (begun < 0)
        return NULL;
    if (!begun)
        Py_RETURN_NONE;
    const gpur_status status = fast_used.resample(replay, stream, own);
    if (fast_call_end(&call))
        return NULL;
    if (status == GPUR_WOULD_BLOCK)
        Py_RETURN_NONE;
    if (status != GPUR_OK)
        return fast_refuse(buffer, status);
    Py_INCREF(batch);
    return batch;
}

PyObject *fast_idle(PyObject *module, PyObject *watches)
{
    (void)module;
    if (!PyTuple_CheckExact(watches))
        return PyErr_Format(PyExc_TypeError, "idle(watches) was given no tuple");
    PyObject *batch = take_idle(watches);
    if (!batch)
        Py_RETURN_NONE;
    return batch;
}

PyObject *fast_redraw(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 3 || !PyTuple_CheckExact(arguments[2]))
        return PyErr_Format(PyExc_TypeError, "redraw(buffer, stream, watches) was given other arguments");
    void *stream = arguments[1] == Py_None ? NULL : PyLong_AsVoidPtr(arguments[1]);
    if (PyErr_Occurred())
        return NULL;
    PyObject *batch = take_idle(arguments[2]);
    if (!batch)
        Py_RETURN_NONE;
    PyObject *result = draw_into(arguments[0], stream, batch);
    Py_DECREF(batch);
    return result;
}

PyTypeObject fast_watch_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gpureplay._fast.Watch",
    .tp_basicsize = sizeof(watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = watch_new,
    .tp_dealloc = watch_dealloc,
    .tp_traverse = watch_traverse,
    .tp_clear = watch_clear,
    .tp_doc = "Watch(parts): a batch, its list of arrays, its memory and its arrays, which nothing else holds by now",
};
