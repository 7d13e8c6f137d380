/* SPDX-License-Identifier: MIT */
#ifndef GPUR_CLIP_H
#define GPUR_CLIP_H

#include "place.h"

/* NaN stays NaN. */
GPUR_FN float gpur_clip(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

#endif
