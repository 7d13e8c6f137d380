/* SPDX-License-Identifier: MIT */
#ifndef GPUR_WINDOW_SET_H
#define GPUR_WINDOW_SET_H

#include "args_replay.h"
#include "place.h"

GPUR_KERNEL(window_set)
{
    if (at.block == 0 && at.thread == 0)
        *a->window = a->value;
}

#endif
