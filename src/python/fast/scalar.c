/* SPDX-License-Identifier: MIT */
/* Single numbers, Python's own and NumPy's, as elements of a field, by the rules of cast.h. */
#include "column.h"
#include <math.h>

static int take_float(const fast_column *column, double given, fast_scalar *out)
{
    out->f32 = (float)given;
    return column->number.kind == 'f' && column->number.bytes == 4 && (isfinite(out->f32) || !isfinite(given));
}

static int take_integer(const fast_column *column, char kind, long long given, fast_scalar *out)
{
    int64_t least, most;
    const fast_number to = column->number, from = {kind, (int)sizeof given};
    fast_limits(to, &least, &most);
    if (!fast_is_taken(to, from) || given < least || given > most)
        return 0;
    if (to.kind == 'f')
        out->f32 = (float)given;
    else if (to.bytes == 8)
        out->i64 = given;
    else if (to.bytes == 4)
        out->i32 = (int32_t)given;
    else
        out->u8 = (uint8_t)given;
    return 1;
}

static int take_long(const fast_column *column, PyObject *value, fast_scalar *out)
{
    int overflow;
    const long long given = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && take_integer(column, 'i', given, out);
}

static int take_index(const fast_column *column, PyObject *value, fast_scalar *out)
{
    PyObject *whole = PyNumber_Index(value);
    const int taken = whole && take_long(column, whole, out);
    Py_XDECREF(whole);
    return taken;
}

/* One of NumPy's, whose types are known, so that asking them for their value runs nothing of anybody else's. */
static int take_numpy(const fast_column *column, PyObject *value, fast_scalar *out)
{
    const fast_dtype *const type = fast_dtype_of_scalar(Py_TYPE(value));
    if (!type)
        return 0;
    if (type->number.kind == 'f')
        return take_float(column, PyFloat_AsDouble(value), out);
    return type->number.kind == 'b' ? take_integer(column, 'b', PyObject_IsTrue(value), out)
                                    : take_index(column, value, out);
}

int fast_scalar_take(const fast_column *column, PyObject *value, fast_scalar *out)
{
    if (column->dims)
        return 0;
    if (PyBool_Check(value))
        return take_integer(column, 'b', value == Py_True, out);
    if (PyFloat_CheckExact(value))
        return take_float(column, PyFloat_AS_DOUBLE(value), out);
    return PyLong_CheckExact(value) ? take_long(column, value, out) : take_numpy(column, value, out);
}
