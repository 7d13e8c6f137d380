/* SPDX-License-Identifier: MIT */
#pragma once

#include <time.h>

/* Returns the seconds since a fixed moment. Never decreases. */
static inline double gpur_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
