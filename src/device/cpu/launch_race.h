/* SPDX-License-Identifier: MIT */
/* The race check's threads: shared by launch_race.c and the race check's self-test. */
#ifndef GPUR_DEVICE_CPU_LAUNCH_RACE_H
#define GPUR_DEVICE_CPU_LAUNCH_RACE_H

#include "device/device.h"
#include "kernels/entries.h"

enum { GPUR_RACE_THREADS = 32, GPUR_RACE_BLOCKS = 4 }; /* most threads in a block; most blocks at a time */

/* The threads that run the launches of one stream. Each stream has its own: shared threads would order streams that are
 * not ordered, and ThreadSanitizer would miss a forgotten event. */
typedef struct gpur_race_pool gpur_race_pool;
gpur_status gpur_race_pool_create(gpur_device *device, gpur_race_pool **pool);
void gpur_race_pool_destroy(gpur_device *device, gpur_race_pool *pool);

/* Runs blocks `first` to `first + count - 1` of the grid, all at the same time, and waits for them. `count` is at most
 * GPUR_RACE_BLOCKS; for a cooperative launch (`together`) it is the whole grid. */
gpur_status gpur_race_pool_run(gpur_race_pool *pool, gpur_race_entry entry, const void *args, gpur_grid grid,
                               int64_t first, int count);

/* Runs any kernel entry on the stream's threads, in the kernel list or not, because the self-test has kernels of its
 * own. A cooperative launch has at most GPUR_RACE_BLOCKS blocks. */
gpur_status gpur_race_run(gpur_stream *stream, gpur_race_entry entry, gpur_grid grid, const void *args);

#endif
