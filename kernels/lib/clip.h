/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/target/thread.h"

/* Clips x to [-limit, limit]. NaN stays NaN. */
GPUR_FN float gpur_clip(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}
