/* SPDX-License-Identifier: MIT */
/* Four neighboring floats, which a GPU loads and stores at once. Their address is aligned to 16 bytes. */
#pragma once

#include "kernels/target/thread.h"

GPUR_FN void gpur_load_quad(float *to, const float *from)
{
    memcpy(to, __builtin_assume_aligned((const unsigned char *)from, 16), 16);
}

GPUR_FN void gpur_store_quad(float *to, const float *from)
{
    memcpy(__builtin_assume_aligned((unsigned char *)to, 16), from, 16);
}
