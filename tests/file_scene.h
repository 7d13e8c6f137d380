/* SPDX-License-Identifier: MIT */
/* A small training run that leaves a trace of all that it drew, chose and learned, for tests of checkpoints. */
#ifndef FILE_SCENE_H
#define FILE_SCENE_H

#include "gpureplay.h"

enum { SCENE_ENVS = 3, SCENE_FEATURES = 5, SCENE_TRACE = 4096, SCENE_VARIANTS = 4 };

typedef struct file_scene {
    gpur_device *device; /* the caller's */
    gpur_replay *replay;
    gpur_learner *learner;
    gpur_writer *writer;
    float trace[SCENE_TRACE]; /* (traced) */
    int traced;
} file_scene;

/* Variants differ in flush, feed, optimiser, what acts, and whether a draw is distinct. The first failure; close it in
 * any case. */
gpur_status scene_open(file_scene *s, gpur_device *device, int variant);
void scene_close(file_scene *s);

/* The writer, all of whose episodes begin unless `resumed`. */
gpur_status scene_begin(file_scene *s, int resumed);

/* Steps [first, last), which depend on nothing but the scene. */
gpur_status scene_run(file_scene *s, int first, int last);

/* All weights, what is drawn next, and the statistics, into the trace. */
gpur_status scene_finish(file_scene *s);

/* The bytes of a file, malloc'ed; NULL when it cannot be read. */
unsigned char *read_file(const char *path, int64_t *bytes);
int write_file(const char *path, const void *data, int64_t bytes); /* 0: done */

/* Does one of the things by which files go bad, in the first `head` bytes as often as in all. Returns the new length,
 * at most `bytes` + 64, for which there must be room. */
int64_t damage_file(unsigned char *data, int64_t bytes, int64_t head, uint64_t *random);

/* A name in a new folder of this test's own, made when first asked for; scene_remove_folder removes both. */
const char *scene_path(const char *name);
void scene_remove_folder(void);

#endif
