/* SPDX-License-Identifier: MIT */
/* A monotonic clock. */
#ifndef GPUR_BASE_CLOCK_H
#define GPUR_BASE_CLOCK_H

/* Returns the seconds since a fixed moment. Never decreases. */
double gpur_clock_seconds(void);

#endif
