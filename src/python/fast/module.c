/* SPDX-License-Identifier: MIT */
/* The module gpureplay._fast. */
#include "array.h"

fast_library fast_used;
fast_dtype fast_dtypes[FAST_MOST_DTYPES];

/* Data pointers and functions are of one size wherever dlsym is. */
static void set_function(void *function, PyObject *address)
{
    *(void **)function = PyLong_AsVoidPtr(address);
}

/* kind and itemsize, as NumPy has them. */
int fast_number_of(PyObject *dtype, fast_number *number)
{
    PyObject *kind = PyObject_GetAttrString(dtype, "kind"), *bytes = PyObject_GetAttrString(dtype, "itemsize");
    if (kind && bytes) {
        number->kind = (char)PyUnicode_ReadChar(kind, 0);
        number->bytes = (int)PyLong_AsLong(bytes);
    }
    Py_XDECREF(kind);
    Py_XDECREF(bytes);
    return PyErr_Occurred() ? -1 : 0;
}

static int learn_dtype(fast_dtype *known, PyObject *dtype)
{
    fast_dtype one = {dtype, NULL, {0, 0}};
    PyObject *scalar = PyObject_GetAttrString(dtype, "type");
    if (!scalar || fast_number_of(dtype, &one.number)) {
        Py_XDECREF(scalar);
        return -1;
    }
    Py_INCREF(dtype);
    one.scalar = (PyTypeObject *)(void *)scalar;
    *known = one;
    return 0;
}

static int learn_dtypes(PyObject *dtypes)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(dtypes);
    for (Py_ssize_t at = 0; at < count && at < FAST_MOST_DTYPES; at++)
        if (learn_dtype(&fast_dtypes[at], PyTuple_GET_ITEM(dtypes, at)))
            return -1;
    return 0;
}

static PyObject *use(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *array, *dtypes, *append, *try_append, *resample, *update, *step, *reset;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!O!O!O!", &PyType_Type, &array, &PyTuple_Type, &dtypes, &PyLong_Type,
                          &append, &PyLong_Type, &try_append, &PyLong_Type, &resample, &PyLong_Type, &update,
                          &PyLong_Type, &step, &PyLong_Type, &reset) ||
        learn_dtypes(dtypes))
        return NULL;
    set_function(&fast_used.append, append);
    set_function(&fast_used.try_append, try_append);
    set_function(&fast_used.resample, resample);
    set_function(&fast_used.update, update);
    set_function(&fast_used.step, step);
    set_function(&fast_used.reset, reset);
    Py_INCREF(array);
    Py_XSETREF(fast_used.array, (PyTypeObject *)(void *)array);
    Py_RETURN_NONE;
}

static PyObject *tuple_of(const Py_ssize_t *numbers, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int at = 0; tuple && at < count; at++)
        PyTuple_SET_ITEM(tuple, at, PyLong_FromSsize_t(numbers[at]));
    return tuple;
}

/* (shape, strides, flags, dtype), or None where an array's fields do not lie as array.h says: no pointer is followed
 * unless the array's own address and number of axes were found. */
static PyObject *describe(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object, *address;
    int nd;
    if (!PyArg_ParseTuple(arguments, "OO!i", &object, &PyLong_Type, &address, &nd))
        return NULL;
    const fast_array *array = fast_array_of(object);
    if (!array || Py_TYPE(object)->tp_basicsize < (Py_ssize_t)sizeof *array ||
        array->data != PyLong_AsVoidPtr(address) || array->nd != nd)
        Py_RETURN_NONE;
    return Py_BuildValue("NNiO", tuple_of(array->dimensions, nd), tuple_of(array->strides, nd), array->flags,
                         array->descr);
}

static PyMethodDef functions[] = {
    {"use", use, METH_VARARGS,
     "use(ndarray, dtypes, append, try_append, resample, update, step, reset): NumPy's types, functions' addresses"},
    {"describe", describe, METH_VARARGS, "describe(array, address, ndim): (shape, strides, flags, dtype) or None"},
    {"idle", fast_idle, METH_O, "idle(watches): the first batch that nobody looks at, or None"},
    {"redraw", (PyCFunction)(void (*)(void))fast_redraw, METH_FASTCALL,
     "redraw(buffer, stream, watches): a batch drawn into, or None"},
    {"update", (PyCFunction)(void (*)(void))fast_update, METH_FASTCALL,
     "update(buffer, indices, priorities): whether the priorities were given"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gpureplay._fast", "What costs most of a call, in C", -1, functions, NULL, NULL, NULL, NULL,
};

static const struct {
    const char *name;
    PyTypeObject *type;
} types[] = {{"Method", &fast_method_type}, {"Rows", &fast_rows_type}, {"Steps", &fast_steps_type},
             {"Turn", &fast_turn_type},     {"Watch", &fast_watch_type}, {"bound", &fast_bound_type}};

static int add_type(PyObject *module, const char *name, PyTypeObject *type)
{
    if (PyType_Ready(type))
        return -1;
    Py_INCREF(type);
    return PyModule_AddObject(module, name, (PyObject *)type);
}

static int add_types(PyObject *module)
{
    for (size_t at = 0; at < sizeof types / sizeof *types; at++)
        if (add_type(module, types[at].name, types[at].type))
            return -1;
    return 0;
}

PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *module = PyModule_Create(&definition);
    fast_used.handle = PyUnicode_InternFromString("_handle");
    fast_used.calls = PyUnicode_InternFromString("_calls");
    fast_used.ended = PyUnicode_InternFromString("_ended");
    fast_used.info = PyUnicode_InternFromString("info");
    fast_used.final_obs = PyUnicode_InternFromString("final_obs");
    if (module && (!fast_used.final_obs || add_types(module)))
        Py_CLEAR(module);
    return module;
}
