/* SPDX-License-Identifier: MIT */
#ifndef GPUR_KERNELS_LIB_CLIP_H
#define GPUR_KERNELS_LIB_CLIP_H

#include "kernels/target/thread.h"

/* Clips x to [-limit, limit]. NaN stays NaN. */
GPUR_FN float gpur_clip(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

#endif
