/* SPDX-License-Identifier: MIT */
/* A small training run that leaves a trace of all that it drew, chose and learned, for tests of checkpoints. */
#ifndef GPUR_SUPPORT_CHECKPOINT_FIXTURE_H
#define GPUR_SUPPORT_CHECKPOINT_FIXTURE_H

#include "support/file_utils.h"
#include "gpureplay.h"

enum {
    CHECKPOINT_ENVS = 3,
    CHECKPOINT_FEATURES = 5,
    CHECKPOINT_STACK = 2,
    CHECKPOINT_TRACE = 8192,
    CHECKPOINT_VARIANTS = 10
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

/* Variants differ in flush, feed, optimizer, what acts, and whether a draw is distinct; the later ones are prioritized,
 * of n steps, linked, or all of that. The first failure; close it in any case. */
gpur_status checkpoint_fixture_open(checkpoint_fixture *s, gpur_device *device, int variant);
void checkpoint_fixture_close(checkpoint_fixture *s);

/* Of this capacity instead of 100, and without a learner unless it `learns`. */
gpur_status scene_open_with(checkpoint_fixture *s, gpur_device *device, int variant, int64_t capacity, int learns);

/* Opens it, begins, and runs so many steps. */
gpur_status scene_play(checkpoint_fixture *s, gpur_device *device, int variant, int steps);

/* The writer, all of whose episodes begin unless `resumed`. */
gpur_status checkpoint_fixture_begin(checkpoint_fixture *s, int resumed);

/* Steps [first, last), which depend on nothing but the scene. */
gpur_status checkpoint_fixture_run(checkpoint_fixture *s, int first, int last);

/* All weights, what is drawn next, and the statistics, into the trace. */
gpur_status checkpoint_fixture_finish(checkpoint_fixture *s);

#endif
