/* SPDX-License-Identifier: MIT */
/* What a transition is made of, and where each field lies in a packed row. */
#ifndef GPUR_REPLAY_SCHEMA_H
#define GPUR_REPLAY_SCHEMA_H

#include "base/status.h"
#include "gpureplay/replay.h"

enum {
    GPUR_ROW_GRANULE = 64,        /* device rows start on multiples of this: whole 16-byte loads, 64-byte DRAM bursts */
    GPUR_MAX_ROW_BYTES = 1 << 26, /* the gather counts the bytes of a tile of rows in 32 bits */
};

typedef struct gpur_schema {
    gpur_field_info fields[GPUR_MAX_FIELDS]; /* (count) with offsets as in a C struct of these members */
    int32_t count;
    unsigned char is_flag[GPUR_MAX_FIELDS]; /* (count) 1: bytes that are to be 0 or 1; where rows are packed */
    int32_t flags;                          /* fields of which that is so */
    int64_t row_bytes; /* of a row as callers write it */
    int64_t pitch;     /* of the same row on the device and in staging */
} gpur_schema;

/* Checks names, types and shapes, and lays the row out. */
gpur_status gpur_schema_build(gpur_schema *schema, const gpur_field *fields, int32_t count);

/* The index of a field, or -1. */
int32_t gpur_schema_find(const gpur_schema *schema, const char *name);

int64_t gpur_dtype_bytes(int32_t dtype); /* of one element; 0: no such type */
const char *gpur_dtype_name(int32_t dtype);

/* Elements of one transition's value. */
int64_t gpur_field_elements(const gpur_field_info *field);

#endif
