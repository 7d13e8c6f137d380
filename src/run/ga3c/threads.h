/* SPDX-License-Identifier: MIT */
/* Starts and ends the threads of a run. */
#pragma once

#include "run/ga3c/handle.h"

/* Sets the numbers of threads, and waits for those that end. Under set_lock. */
gpur_status gpur_ga3c_set(gpur_ga3c *run, gpur_ga3c_numbers numbers);

/* Starts the threads, once. */
gpur_status gpur_ga3c_begin(gpur_ga3c *run);
void gpur_ga3c_end_threads(gpur_ga3c *run);

/* Makes slots for so many agents, if there are fewer. Under set_lock, or before there are threads. */
gpur_status gpur_ga3c_make_slots(gpur_ga3c *run, int32_t count);
