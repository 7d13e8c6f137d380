/* SPDX-License-Identifier: MIT */
/* Python's own numbers as elements of a field, by the rules of the package's _inputs.py: a float goes into floats, an
 * integer into integers that hold it, a bool into bool. */
#include "column.h"
#include <math.h>

static int take_float(const fast_column *column, PyObject *value, fast_scalar *out)
{
    const double given = PyFloat_AS_DOUBLE(value);
    out->f32 = (float)given;
    return column->kind == 'f' && column->bytes == 4 && (isfinite(out->f32) || !isfinite(given));
}

static int take_integer(const fast_column *column, PyObject *value, fast_scalar *out)
{
    int overflow;
    const long long given = PyLong_AsLongLongAndOverflow(value, &overflow);
    const int is_wide = column->bytes == 8;
    out->i64 = given;
    if (column->kind == 'u')
        return out->u8 = (uint8_t)given, !overflow && given >= 0 && given <= UINT8_MAX;
    if (!is_wide)
        out->i32 = (int32_t)given;
    return column->kind == 'i' && !overflow && (is_wide || (given >= INT32_MIN && given <= INT32_MAX));
}

int fast_scalar_take(const fast_column *column, PyObject *value, fast_scalar *out)
{
    if (column->dims)
        return 0;
    if (PyBool_Check(value)) {
        out->u8 = value == Py_True;
        return column->kind == 'b';
    }
    if (PyFloat_CheckExact(value))
        return take_float(column, value, out);
    return PyLong_CheckExact(value) && take_integer(column, value, out);
}
