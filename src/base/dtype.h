/* SPDX-License-Identifier: MIT */
/* The types of numbers, GPUR_FLOAT32 ... GPUR_BOOL: their sizes and names. */
#pragma once

#include <stdint.h>

int64_t gpur_dtype_bytes(int32_t dtype); /* size of one element; 0 if there is no such type */
const char *gpur_dtype_name(int32_t dtype);
