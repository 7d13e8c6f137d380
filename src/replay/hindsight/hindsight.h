/* SPDX-License-Identifier: MIT */
/* Hindsight: the settings of a replay's goals as they are checked, the list of ended episodes in device memory, and the
 * launches of its kernels (kernels/args_hindsight.h). */
#pragma once

#include "device/device.h"
#include "gpureplay/hindsight.h"
#include "replay/schema.h"

/* Where goals lie in a row. */
typedef struct gpur_goal_fields {
    int32_t desired, next_desired;                 /* indices in the schema */
    int32_t reward, terminated, discount;          /* likewise; -1: there is none */
    int64_t desired_bytes;                         /* from the start of the two fields */
    int32_t achieved_offset, next_achieved_offset; /* bytes from the start of a row */
    int32_t size;                                  /* numbers of a goal */
} gpur_goal_fields;

typedef struct gpur_hindsight {
    gpur_device *device;          /* NULL: the replay has no hindsight */
    gpur_hindsight_config config; /* without the names */
    gpur_goal_fields fields;
    gpur_hindsight_index index;
    unsigned char *memory;
    gpur_hindsight_find_args list;       /* but for the new rows */
    gpur_hindsight_relabel_args relabel; /* but for the batch */
} gpur_hindsight;

/* Checks the settings of a checked config of a replay of this schema, which has some. */
gpur_status gpur_hindsight_check(const gpur_replay_config *checked, const gpur_schema *schema);

/* Device memory that hindsight takes; 0 without it. */
int64_t gpur_hindsight_bytes(const gpur_replay_config *checked);

/* Without hindsight it does nothing. `ring` has the rows of the schema; `stream` is the consumers'. */
gpur_status gpur_hindsight_build(gpur_hindsight *hindsight, gpur_device *device, const gpur_replay_config *checked,
                                 const gpur_schema *schema, const unsigned char *ring, const gpur_window *window,
                                 gpur_stream *stream);
void gpur_hindsight_destroy(gpur_hindsight *hindsight); /* after the streams; also after a failed build */

/* Enqueues the listing of the episodes that end with rows first_id to first_id + rows - 1, or before them. The window
 * on the device has them. Without hindsight it does nothing. */
gpur_status gpur_hindsight_list_rows(const gpur_hindsight *hindsight, gpur_stream *stream, int64_t first_id,
                                     int64_t rows);

/* Forgets all episodes, and lists those of a window anew. */
gpur_status gpur_hindsight_restore(const gpur_hindsight *hindsight, gpur_stream *stream, const gpur_window *window);
