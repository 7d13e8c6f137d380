/* SPDX-License-Identifier: MIT */
/* What a replay's file has of priorities beside the number of each row: counters, the largest one ever given, the
 * scales of the trees, and alpha and beta. A replay without priorities writes zeros, and the schedule of beta. */
#pragma once

#include "file/checkpoint_file.h"
#include "replay/replay.h"

enum { GPUR_PRIORITY_SCALARS = 9 };

typedef struct gpur_priority_copy {
    int64_t updates, stale, invalid;
    float alpha, most; /* most: the largest priority ever given */
    gpur_schedule beta;
    int64_t octave, evict_octave; /* the scales of the two trees */
} gpur_priority_copy;

/* Reads it of a replay whose state gpur_priorities_read_state has read. */
void gpur_priority_copy_read(const gpur_replay *replay, gpur_priority_copy *copy);

/* Lists the scalars of a file, GPUR_PRIORITY_SCALARS of them, to be written or read. */
void gpur_priority_copy_list(gpur_priority_copy *copy, gpur_scalar *scalars);

/* Scalars that files of earlier versions lack. Then each octave follows from the largest priority in the file. */
gpur_status gpur_priority_copy_write_octaves(const gpur_priority_copy *copy, gpur_tensors *tensors);
void gpur_priority_copy_read_octaves(gpur_priority_copy *copy, const gpur_tensors *tensors);

/* Valid checksums do not make a file trustworthy: refuses numbers that no replay can have. */
gpur_status gpur_priority_copy_check(const gpur_priority_copy *copy);

/* Refuses, with GPUR_FILE_ERROR, a count of a file that is not 0 to 2^61. */
gpur_status gpur_file_count_check(int64_t count);

/* Refuses a priority that no row can have: number `at` of the file. */
gpur_status gpur_file_priority_check(float priority, int64_t at);

/* Makes the replay continue from it: sets its beta, and the state that gpur_priorities_restore sends to the device. */
void gpur_priority_copy_set(gpur_replay *replay, const gpur_priority_copy *copy);
