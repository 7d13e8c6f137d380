/* SPDX-License-Identifier: MIT */
/* The public function that evaluates a schedule. */
#include "gpureplay/schedule.h"
#include "kernels/lib/schedule.h" /* the formula, shared with the kernels */

float gpur_schedule_at(const gpur_schedule *schedule, int64_t step)
{
    if (!schedule)
        return 0.0f;
    return gpur_schedule_value(schedule->first, schedule->last, schedule->begin, schedule->steps, step);
}
