/* SPDX-License-Identifier: MIT */
/* A small training run that leaves a trace of all that it drew, chose and learned, for tests of checkpoints. */
#ifndef GPUR_SUPPORT_FILE_SCENE_H
#define GPUR_SUPPORT_FILE_SCENE_H

#include "support/file_kit.h"
#include "gpureplay.h"

enum { SCENE_ENVS = 3, SCENE_FEATURES = 5, SCENE_STACK = 2, SCENE_TRACE = 8192, SCENE_VARIANTS = 10 };

typedef struct file_scene {
    gpur_device *device; /* the caller's */
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_writer *writer;
    float trace[SCENE_TRACE]; /* (traced) */
    int traced;
    int variant, stack; /* frames of an observation */
    int64_t capacity;
} file_scene;

/* Variants differ in flush, feed, optimiser, what acts, and whether a draw is distinct; the later ones are prioritized,
 * of n steps, linked, or all of that. The first failure; close it in any case. */
gpur_status scene_open(file_scene *s, gpur_device *device, int variant);
void scene_close(file_scene *s);

/* Of this capacity instead of 100, and without a learner unless it `learns`. */
gpur_status scene_open_with(file_scene *s, gpur_device *device, int variant, int64_t capacity, int learns);

/* Opens it, begins, and runs so many steps. */
gpur_status scene_play(file_scene *s, gpur_device *device, int variant, int steps);

/* The writer, all of whose episodes begin unless `resumed`. */
gpur_status scene_begin(file_scene *s, int resumed);

/* Steps [first, last), which depend on nothing but the scene. */
gpur_status scene_run(file_scene *s, int first, int last);

/* All weights, what is drawn next, and the statistics, into the trace. */
gpur_status scene_finish(file_scene *s);

#endif
