/* SPDX-License-Identifier: MIT */
/* Sets the window of rows that can be sampled. Arguments: gpur_window_set_args. */
#pragma once

#include "kernels/args_replay.h"
#include "kernels/target/thread.h"

GPUR_KERNEL(window_set)
{
    if (at.block == 0 && at.thread == 0)
        *a->window = a->value;
}
