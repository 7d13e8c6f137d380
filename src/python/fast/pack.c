/* SPDX-License-Identifier: MIT */
/* Arrays that are transposed, cut or oddly placed, as vectors of environments hand out their states. */
#include "pack.h"
#include <string.h>

#define PACK(size)                                                                                                     \
    for (Py_ssize_t at = 0; at < count; at++)                                                                          \
    memcpy(to + at * (size), from + at * stride, (size_t)(size))

/* Sizes that are known make a move of each. */
static void pack_line(unsigned char *to, const char *from, Py_ssize_t count, Py_ssize_t stride, int bytes)
{
    if (bytes == 4)
        PACK(4);
    else if (bytes == 8)
        PACK(8);
    else if (bytes == 1)
        PACK(1);
    else
        PACK(bytes);
}

/* Returns the end of what was written. */
static unsigned char *pack_axis(const fast_array *array, int axis, const char *from, int bytes, unsigned char *to)
{
    const Py_ssize_t count = array->dimensions[axis], stride = array->strides[axis];
    if (axis + 1 == array->nd) {
        pack_line(to, from, count, stride, bytes);
        return to + count * bytes;
    }
    for (Py_ssize_t at = 0; at < count; at++)
        to = pack_axis(array, axis + 1, from + at * stride, bytes, to);
    return to;
}

void fast_pack(const fast_array *array, int bytes, void *out)
{
    if (array->nd == 0)
        memcpy(out, array->data, (size_t)bytes);
    else
        pack_axis(array, 0, array->data, bytes, (unsigned char *)out);
}
