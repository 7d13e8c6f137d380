/* SPDX-License-Identifier: MIT */
/* The schema: the fields of a transition, and their offsets in a packed row. */
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "gpureplay/replay.h"

enum {
    GPUR_ROW_GRANULE = 64,        /* bytes; rows start at multiples of it: whole 16-byte loads, 64-byte DRAM bursts */
    GPUR_MAX_ROW_BYTES = 1 << 26, /* the gather kernel counts the bytes of a row tile in 32 bits */
};

typedef struct gpur_schema {
    gpur_field_info fields[GPUR_MAX_FIELDS]; /* (count) offsets as in a C struct with these members */
    int32_t count;
    unsigned char is_flag[GPUR_MAX_FIELDS]; /* (count) 1: every byte must be 0 or 1; not set for rows with links */
    int32_t flags;                          /* number of such fields */
    unsigned char is_real[GPUR_MAX_FIELDS]; /* (count) 1: floats, which must be finite (finite.h) */
    int32_t reals;                          /* number of such fields */
    int32_t priority, terminated, discount; /* indices of the fields with these names, or -1; "priority" counts if it is
                                               one float32 */
    int64_t row_bytes;                      /* size of a row as callers pack it */
    int64_t pitch;                          /* bytes from row to row in the ring and in staging blocks */
} gpur_schema;

/* 1 if the field has floats, which must be finite. */
int gpur_field_is_real(const gpur_field_info *field);

/* Checks the names, types and shapes of the fields and computes their offsets. */
gpur_status gpur_schema_build(gpur_schema *schema, const gpur_field *fields, int32_t count);

/* Index of the field with this name, or -1. */
int32_t gpur_schema_find(const gpur_schema *schema, const char *name);

/* 1 if it has the field `previous`, one int64. */
int gpur_schema_has_previous(const gpur_schema *schema);

/* 1 if sequences can be found in rows of this schema: it has that field, and no field has the name of an array that
 * only batches of sequences have. */
int gpur_schema_has_sequences(const gpur_schema *schema);

/* Number of elements in one transition's value. */
int64_t gpur_field_elements(const gpur_field_info *field);
