/* SPDX-License-Identifier: MIT */
/* The race check's own: what its two files and the test of its teeth share. */
#ifndef GPUR_DEVICE_CPU_LAUNCH_RACE_H
#define GPUR_DEVICE_CPU_LAUNCH_RACE_H

#include "device/device.h"
#include "kernels/entries.h"

enum { GPUR_RACE_THREADS = 32, GPUR_RACE_BLOCKS = 4 }; /* most in a block; most blocks at once */

/* The threads of one stream's launches. Each stream has its own: shared ones would order streams that are not ordered,
 * and ThreadSanitizer would miss a forgotten event. */
typedef struct gpur_race_pool gpur_race_pool;
gpur_status gpur_race_pool_create(gpur_device *device, gpur_race_pool **pool);
void gpur_race_pool_destroy(gpur_device *device, gpur_race_pool *pool);

/* Runs blocks `first` to `first + count - 1` of the grid, all at once, and waits for them. At most GPUR_RACE_BLOCKS,
 * and all of the grid where it is `together`. */
gpur_status gpur_race_pool_run(gpur_race_pool *pool, gpur_race_entry entry, const void *args, gpur_grid grid,
                               int64_t first, int count);

/* Runs any kernel entry, of the list or not, on the stream's threads: the test of the race check brings its own. At
 * most GPUR_RACE_BLOCKS blocks together. */
gpur_status gpur_race_run(gpur_stream *stream, gpur_race_entry entry, gpur_grid grid, const void *args);

#endif
