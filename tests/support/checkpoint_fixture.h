/* SPDX-License-Identifier: MIT */
/* A small training run that leaves a trace of all that it sampled, chose and learned, for tests of checkpoints. */
#pragma once

#include "support/file_utils.h"
#include "gpureplay.h"

enum {
    CHECKPOINT_ENVS = 3,
    CHECKPOINT_FEATURES = 5,
    CHECKPOINT_STACK = 2,
    CHECKPOINT_TRACE = 8192,
    CHECKPOINT_VARIANTS = 12
};

typedef struct checkpoint_fixture {
    gpur_device *device; /* the caller's */
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_writer *writer;
    float trace[CHECKPOINT_TRACE]; /* (traced) */
    int traced;
    int variant, stack; /* frames of an observation */
    int64_t capacity;
} checkpoint_fixture;

/* Variants differ in flush, upload, optimizer, what acts, and the index source; 4, 5 and all from 8 on are prioritized,
 * 6 and all from 8 on have 3-step returns, 7 to 9 the layout frames, and 10 and 11 evict by priority. Returns the first
 * failure; close it in any case. */
gpur_status checkpoint_fixture_open(checkpoint_fixture *s, gpur_device *device, int variant);
void checkpoint_fixture_close(checkpoint_fixture *s);

/* Of this capacity instead of 100, and without a learner unless it `learns`. */
gpur_status checkpoint_fixture_open_with(checkpoint_fixture *s, gpur_device *device, int variant, int64_t capacity,
                                         int learns);

/* Opens it with all that follows, and runs so many steps. */
gpur_status checkpoint_fixture_start(checkpoint_fixture *s, gpur_device *device, int variant, int steps);

/* The writer, all of whose episodes begin unless `resumed`. */
gpur_status checkpoint_fixture_begin(checkpoint_fixture *s, int resumed);

/* Steps [first, last), which depend on nothing but the fixture. */
gpur_status checkpoint_fixture_run(checkpoint_fixture *s, int first, int last);

/* All weights, the next sample, and the statistics, into the trace. */
gpur_status checkpoint_fixture_finish(checkpoint_fixture *s);
