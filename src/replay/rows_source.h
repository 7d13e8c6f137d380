/* SPDX-License-Identifier: MIT */
/* The two forms in which callers hand over finished rows, and the two ways from there: into a staging block, or, where
 * work is done before the call returns, straight into the ring. */
#ifndef GPUR_REPLAY_ROWS_SOURCE_H
#define GPUR_REPLAY_ROWS_SOURCE_H

#include "replay/feed.h"

typedef struct gpur_rows_source {
    /* Rows first ... first + count - 1 into `to`, (count, pitch). */
    void (*fill)(const void *data, const gpur_schema *schema, int64_t first, int64_t count, unsigned char *to);
    /* The same rows to the feed; at most a block of them. */
    gpur_status (*feed)(gpur_feed *feed, const void *data, int64_t first, int64_t count);
    int clips; /* `feed` clips rewards */
} gpur_rows_source;

extern const gpur_rows_source gpur_source_packed; /* data: (count, row_bytes) */
extern const gpur_rows_source gpur_source_fields; /* data: (field_count) pointers to (count, ...) */

#endif
