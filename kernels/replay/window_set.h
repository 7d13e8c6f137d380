/* SPDX-License-Identifier: MIT */
/* Sets the window of rows that can be sampled. Arguments: gpur_window_set_args. */
#ifndef GPUR_KERNELS_REPLAY_WINDOW_SET_H
#define GPUR_KERNELS_REPLAY_WINDOW_SET_H

#include "kernels/args_replay.h"
#include "kernels/target/thread.h"

GPUR_KERNEL(window_set)
{
    if (at.block == 0 && at.thread == 0)
        *a->window = a->value;
}

#endif
