/* SPDX-License-Identifier: MIT */
/* What the numbers of rows that come from the caller's memory must be, whichever way they come. */
#pragma once

#include "replay/schema.h"

/* Where the values of the first row are, and the bytes to those of the next one; NULL: rows have no such field, or it
 * needs no check. */
typedef struct gpur_row_values {
    const unsigned char *priority, *terminated, *discount;
    int64_t priority_pitch, terminated_pitch, discount_pitch;
} gpur_row_values;

/* The values of packed rows, `pitch` bytes apart, whose fields lie as `fields` says: `stored` has the index of each
 * field of the schema in it, or is NULL if they are the schema's. */
gpur_row_values gpur_row_values_of_rows(const gpur_schema *schema, int is_prioritized, const void *rows, int64_t pitch,
                                        const gpur_field_info *fields, const int32_t *stored);

/* The values of rows that are given as an array for each field of the schema. */
gpur_row_values gpur_row_values_of_fields(const gpur_schema *schema, int is_prioritized, const void *const *fields);

/* Refuses a priority that is negative or infinite (NaN: the row is given none), and a terminal row with a discount
 * other than 0, with which learners would bootstrap. `allows_minus_one`: so is a row with priority -1 given none. */
gpur_status gpur_row_values_check(const gpur_row_values *values, int64_t count, int allows_minus_one);
