/* SPDX-License-Identifier: MIT */
/* With GPUR_EVICT_BY_PRIORITY: which rows the slots have, and which slots the next rows get, for files. All of this is
 * in device memory otherwise. */
#pragma once

#include "file/checkpoint_file.h"
#include "replay/replay.h"

typedef struct gpur_slots_copy {
    int64_t *turn;  /* (capacity) host memory; NULL: the oldest rows are evicted, and nothing here is used */
    int64_t *slots; /* (capacity) host memory */
} gpur_slots_copy;

gpur_status gpur_slots_copy_alloc(const gpur_replay *replay, gpur_slots_copy *copy);
void gpur_slots_copy_free(const gpur_replay *replay, gpur_slots_copy *copy);

/* Slots that have had a row, if `next_row` rows have been published so far. They are the first ones. */
int64_t gpur_slots_used(const gpur_replay *replay, int64_t next_row);

/* Copies them from the device. Waits for `stream`. */
gpur_status gpur_slots_copy_read(const gpur_replay *replay, gpur_stream *stream, gpur_slots_copy *copy);

/* Copies them to the device. Waits for `stream`. */
gpur_status gpur_slots_copy_write(const gpur_replay *replay, gpur_stream *stream, const gpur_slots_copy *copy);

/* Takes the rows from all slots, as if they were evicted. */
void gpur_slots_copy_clear(const gpur_replay *replay, gpur_slots_copy *copy);

gpur_status gpur_slots_copy_add_sections(const gpur_replay *replay, const gpur_slots_copy *copy,
                                         gpur_sections *sections);

/* 1 if a replay can have them: if `rows` slots have a row, and all others wait for one, each once. Kernels use the
 * numbers as indices, so checksums are not enough. */
int gpur_slots_copy_is_valid(const gpur_replay *replay, const gpur_slots_copy *copy, int64_t first_id, int64_t rows);
