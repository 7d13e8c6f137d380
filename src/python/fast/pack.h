/* SPDX-License-Identifier: MIT */
#ifndef GPUREPLAY_PYTHON_PACK_H
#define GPUREPLAY_PYTHON_PACK_H

#include "array.h"

/* The array's elements, of so many bytes each, in C order one behind the other, wherever in memory they lie. */
void fast_pack(const fast_array *array, int bytes, void *out);

#endif
