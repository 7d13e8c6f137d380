/* SPDX-License-Identifier: MIT */
#ifndef GPUR_BASE_CLOCK_H
#define GPUR_BASE_CLOCK_H

/* Seconds since some fixed moment; never runs backwards. */
double gpur_clock_seconds(void);

#endif
