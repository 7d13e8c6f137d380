/* SPDX-License-Identifier: MIT */
#include "column.h"
#include "pack.h"
#include <string.h>

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
    return fast_number_of(dtype, &column->number) ? -1 : read_shape(column, shape);
}

void fast_column_clear(fast_column *column)
{
    Py_CLEAR(column->name);
    Py_CLEAR(column->dtype);
}

/* The array, when its axes behind the first `more` are the field's. */
static const fast_array *shaped(const fast_column *column, PyObject *value, int more)
{
    const fast_array *array = fast_array_of(value);
    if (!array || array->nd != column->dims + more)
        return NULL;
    for (int axis = 0; axis < column->dims; axis++)
        if (array->dimensions[axis + more] != column->shape[axis])
            return NULL;
    return array;
}

static int64_t bytes_of(const fast_column *column, int64_t count)
{
    return count * column->size * column->number.bytes;
}

/* `elements` elements of the array, one behind the other: where they lie, or in the scratch. NULL: no room. */
static const void *packed(const fast_array *array, int bytes, int64_t elements, fast_scratch *scratch)
{
    if ((array->flags & FAST_READABLE) == FAST_READABLE)
        return array->data;
    void *const out = fast_scratch_take(scratch, elements, bytes);
    if (out)
        fast_pack(array, bytes, out);
    return out;
}

/* As numbers of the field, in the scratch; NULL: they are none, or there is no room. */
static const void *converted(const fast_column *column, const fast_array *array, int64_t elements,
                             fast_scratch *scratch)
{
    const fast_dtype *const from = fast_dtype_of(array->descr);
    const void *const in = from ? packed(array, from->number.bytes, elements, scratch) : NULL;
    void *const out = in ? fast_scratch_take(scratch, elements, column->number.bytes) : NULL;
    return out && fast_cast(column->number, out, from->number, in, elements) ? out : NULL;
}

/* A bool array that is a view of other memory may hold any byte; the package makes those 0 and 1. */
static int has_odd_bools(const fast_column *column, const fast_place *place)
{
    const uint8_t *const bytes = (const uint8_t *)place->memory;
    const int64_t count = place->count * column->size;
    uint8_t all = 0;
    if (column->number.kind != 'b')
        return 0;
    for (int64_t at = 0; at < count; at++)
        all |= bytes[at];
    return all > 1;
}

static int take(const fast_column *column, const fast_array *array, int64_t count, fast_scratch *scratch,
                fast_place *place)
{
    const int64_t elements = count * column->size;
    place->count = count;
    place->memory = array->descr == column->dtype ? packed(array, column->number.bytes, elements, scratch)
                                                  : converted(column, array, elements, scratch);
    return place->memory && !has_odd_bools(column, place);
}

int fast_column_take(const fast_column *column, PyObject *value, fast_scratch *scratch, fast_place *place)
{
    const fast_array *array = shaped(column, value, 1);
    return array && take(column, array, array->dimensions[0], scratch, place);
}

int fast_column_take_one(const fast_column *column, PyObject *value, fast_scratch *scratch, fast_place *place)
{
    const fast_array *array = shaped(column, value, 0);
    if (array)
        return take(column, array, 1, scratch, place);
    if (!fast_scalar_take(column, value, &place->scalar))
        return fast_column_take(column, value, scratch, place);
    place->memory = &place->scalar, place->count = 1;
    return 1;
}

int fast_column_zeros(const fast_column *column, int64_t count, fast_scratch *scratch, fast_place *place)
{
    void *const zeros = fast_scratch_take(scratch, count, bytes_of(column, 1));
    place->memory = zeros, place->count = count;
    if (zeros)
        memset(zeros, 0, (size_t)bytes_of(column, count));
    return zeros != NULL;
}

int fast_column_has_nan(const fast_column *column, const fast_place *place)
{
    const int64_t count = place->count * column->size;
    if (column->number.kind != 'f')
        return 0;
    return column->number.bytes == 4 ? fast_nan_in_floats(place->memory, count)
                                     : fast_nan_in_halves(place->memory, count);
}

/* Of a float's bits all but the sign count: -0 is 0. */
int fast_column_is_set(const fast_column *column, const fast_place *place, int64_t at)
{
    const unsigned char *const row = (const unsigned char *)place->memory + bytes_of(column, at);
    const int64_t bytes = bytes_of(column, 1);
    for (int64_t byte = 0; byte < bytes; byte++) {
        const int has_sign = column->number.kind == 'f' && (byte + 1) % column->number.bytes == 0;
        if (row[byte] & (has_sign ? 0x7f : 0xff))
            return 1;
    }
    return 0;
}
