/* SPDX-License-Identifier: MIT */
/* Computes the memory that a replay needs, in bytes, before anything is allocated. */
#ifndef GPUR_REPLAY_PLAN_H
#define GPUR_REPLAY_PLAN_H

#include "device/device.h"
#include "gpureplay/plan.h"
#include "replay/storage/layout.h"

enum {
    GPUR_WINDOW_BYTES = 256, /* of the window's own allocation, one granule */
    GPUR_MAX_ARRAYS = GPUR_MAX_FIELDS + 3,
};

/* `checked` and `schema` come from gpur_replay_config_check. */
gpur_replay_plan gpur_plan(const gpur_replay_config *checked, const gpur_schema *schema,
                           const gpur_ring_layout *layout);

/* Refuses a plan that needs more memory than the device has free. The message has the largest capacity that fits or, if
 * none fits, what takes how many bytes. */
gpur_status gpur_plan_check_fits(const gpur_replay_plan *plan, const gpur_replay_config *checked,
                                 const gpur_schema *schema, gpur_device *device);

/* The arrays of a batch: every field of the schema, then discount (unless it is a field), weight and id. */
typedef struct gpur_batch_layout {
    gpur_field_info arrays[GPUR_MAX_ARRAYS]; /* (count) `offset` is from the start of the batch's memory */
    int32_t count;
    int32_t discount, weight, id; /* indices in `arrays` */
    int64_t links;                /* offset of the rows' frame links, (rows, links per row) uint32; 0 links: the end */
    int64_t bytes;                /* size of the whole batch */
} gpur_batch_layout;

/* Lays out a batch of `rows` rows with `links` frame links each. Every array is aligned to 256 bytes. */
gpur_batch_layout gpur_batch_layout_of(const gpur_schema *schema, int32_t links, int64_t rows);

#endif
