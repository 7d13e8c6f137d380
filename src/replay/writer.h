/* SPDX-License-Identifier: MIT */
#ifndef GPUR_REPLAY_WRITER_H
#define GPUR_REPLAY_WRITER_H

#include "gpureplay/writer.h"
#include "replay/kept.h"
#include "replay/replay.h"

struct gpur_writer {
    gpur_replay *replay; /* must outlive the writer */
    gpur_writer *next;   /* of the replay's writers */
    gpur_writer_config config;
    gpur_step_fields fields;
    gpur_kept kept;
};

/* With the lock held: every episode from `first` to before `last` that is open ends as if truncated where it is. Its
 * pending steps become transitions; waits for blocks in use if `waits`. */
gpur_status gpur_writer_cut(gpur_writer *writer, int64_t first, int64_t last, int waits);

/* The rows that this would make. */
int64_t gpur_writer_pending(const gpur_writer *writer, int64_t first, int64_t last);

#endif
