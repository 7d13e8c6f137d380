/* SPDX-License-Identifier: MIT */
/* The race check's threads: shared by launch_race.c and the race check's self-test. */
#pragma once

#include "device/device.h"
#include "kernels/entries.h"

enum { GPUR_RACE_THREADS = 32, GPUR_RACE_BLOCKS = 4 }; /* most threads in a block; most blocks at a time */

/* Runs any kernel entry on the stream's threads, in the kernel list or not, because the self-test has kernels of its
 * own. A cooperative launch has at most GPUR_RACE_BLOCKS blocks. */
gpur_status gpur_race_run(gpur_stream *stream, gpur_race_entry entry, gpur_grid grid, const void *args);
