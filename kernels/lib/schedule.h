/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/target/thread.h"

/* Linear from `first` to `last` over the steps begin ... begin + steps, constant outside. With steps = 0 it is
 * `first` throughout. */
GPUR_FN float gpur_schedule_value(float first, float last, int64_t begin, int64_t steps, int64_t step)
{
    if (steps <= 0 || step <= begin)
        return first;
    if (step - begin >= steps)
        return last;
    return (float)((double)first + ((double)last - (double)first) * ((double)(step - begin) / (double)steps));
}
