/* SPDX-License-Identifier: MIT */
/* What a replay takes in bytes, worked out before anything is allocated. */
#ifndef GPUR_REPLAY_PLAN_H
#define GPUR_REPLAY_PLAN_H

#include "device/device.h"
#include "gpureplay/plan.h"
#include "replay/storage/layout.h"

enum {
    GPUR_WINDOW_BYTES = 256, /* the visible window has an allocation's granule to itself */
    GPUR_MAX_ARRAYS = GPUR_MAX_FIELDS + 3,
};

/* `checked` and `schema` as gpur_replay_config_check leaves them. */
gpur_replay_plan gpur_plan(const gpur_replay_config *checked, const gpur_schema *schema, const gpur_storage *storage);

/* Refuses a plan that is larger than the device has free, with the capacity that would fit, or with what leaves room
 * for none. */
gpur_status gpur_plan_check_fits(const gpur_replay_plan *plan, const gpur_replay_config *checked,
                                 const gpur_schema *schema, gpur_device *device);

/* A batch's arrays: every field of the schema, then what a batch adds to them. */
typedef struct gpur_batch_layout {
    gpur_field_info arrays[GPUR_MAX_ARRAYS]; /* (count) with `offset` from the start of the batch's memory */
    int32_t count;
    int32_t discount, weight, id; /* indices */
    int64_t links;                /* (rows, links of a row) where those of the drawn rows lie; none: the end */
    int64_t bytes;                /* of the whole batch */
} gpur_batch_layout;

/* For `rows` rows of so many links. Every array is aligned to 256 bytes. */
gpur_batch_layout gpur_batch_lay_out(const gpur_schema *schema, int32_t links, int64_t rows);

#endif
