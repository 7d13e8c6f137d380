/* SPDX-License-Identifier: MIT */
#include "column.h"

static int read_shape(fast_column *column, PyObject *shape)
{
    column->dims = (int)PyTuple_GET_SIZE(shape);
    column->size = 1;
    for (int axis = 0; axis < column->dims; axis++) {
        column->shape[axis] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis));
        column->size *= column->shape[axis];
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int read_dtype(fast_column *column, PyObject *dtype)
{
    PyObject *kind = PyObject_GetAttrString(dtype, "kind"), *bytes = PyObject_GetAttrString(dtype, "itemsize");
    if (kind && bytes) {
        column->kind = (char)PyUnicode_ReadChar(kind, 0);
        column->bytes = (int)PyLong_AsLong(bytes);
    }
    Py_XDECREF(kind);
    Py_XDECREF(bytes);
    return PyErr_Occurred() ? -1 : 0;
}

int fast_column_init(fast_column *column, PyObject *field)
{
    PyObject *name, *shape, *dtype;
    if (!PyTuple_Check(field)) {
        PyErr_SetString(PyExc_TypeError, "a field is (name, shape, dtype)");
        return -1;
    }
    if (!PyArg_ParseTuple(field, "UO!O;a field is (name, shape, dtype)", &name, &PyTuple_Type, &shape, &dtype))
        return -1;
    if (PyTuple_GET_SIZE(shape) > GPUR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "a field has %zd axes; it must be at most %d", PyTuple_GET_SIZE(shape),
                     (int)GPUR_MAX_DIMS);
        return -1;
    }
    Py_INCREF(name);
    Py_INCREF(dtype);
    PyUnicode_InternInPlace(&name); /* as the names of keywords are */
    column->name = name, column->dtype = dtype;
    return read_dtype(column, dtype) ? -1 : read_shape(column, shape);
}

void fast_column_clear(fast_column *column)
{
    Py_CLEAR(column->name);
    Py_CLEAR(column->dtype);
}

/* The array, when it is of the field's dtype, contiguous, and its axes behind the first `more` are the field's. */
static const fast_array *readable(const fast_column *column, PyObject *value, int more)
{
    const fast_array *array = fast_array_of(value);
    if (!array || array->descr != column->dtype || array->nd != column->dims + more ||
        (array->flags & FAST_READABLE) != FAST_READABLE)
        return NULL;
    for (int axis = 0; axis < column->dims; axis++)
        if (array->dimensions[axis + more] != column->shape[axis])
            return NULL;
    return array;
}

int fast_column_take(const fast_column *column, PyObject *value, fast_place *place)
{
    const fast_array *array = readable(column, value, 1);
    if (!array)
        return 0;
    place->memory = array->data, place->count = array->dimensions[0];
    return 1;
}

int fast_column_take_one(const fast_column *column, PyObject *value, fast_place *place)
{
    const fast_array *array = readable(column, value, 0);
    if (!array && !fast_scalar_take(column, value, &place->scalar))
        return fast_column_take(column, value, place);
    place->memory = array ? (const void *)array->data : &place->scalar, place->count = 1;
    return 1;
}

int fast_column_has_nan(const fast_column *column, const fast_place *place)
{
    const int64_t count = place->count * column->size;
    if (column->kind != 'f')
        return 0;
    return column->bytes == 4 ? fast_nan_in_floats(place->memory, count) : fast_nan_in_halves(place->memory, count);
}
