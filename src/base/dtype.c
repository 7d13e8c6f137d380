/* SPDX-License-Identifier: MIT */
#include "base/dtype.h"

#include "gpureplay/replay.h"

int64_t gpur_dtype_bytes(int32_t dtype)
{
    switch (dtype) {
    case GPUR_FLOAT32:
    case GPUR_INT32:
        return 4;
    case GPUR_FLOAT16:
        return 2;
    case GPUR_UINT8:
    case GPUR_BOOL:
        return 1;
    case GPUR_INT64:
        return 8;
    default:
        return 0;
    }
}

const char *gpur_dtype_name(int32_t dtype)
{
    static const char *const names[] = {"no type", "float32", "float16", "uint8", "int32", "int64", "bool"};
    return dtype >= GPUR_FLOAT32 && dtype <= GPUR_BOOL ? names[dtype] : names[0];
}
