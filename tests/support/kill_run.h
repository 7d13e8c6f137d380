/* SPDX-License-Identifier: MIT */
/* Runs for a test that kills them: any process that goes on from a run's file comes to the same states, bit for bit. */
#ifndef GPUR_SUPPORT_KILL_RUN_H
#define GPUR_SUPPORT_KILL_RUN_H

#include "gpureplay.h"

/* What is saved. All but the learner's have environments amid episodes, a ring that has come round, and a draw a step.
 */
enum {
    KILL_PACKED, /* more than a MiB: its file has several chunks */
    KILL_PRIORITIZED,
    KILL_N_STEP,
    KILL_LINKED,
    KILL_ALL, /* linked, prioritized and of three steps */
    KILL_LEARNER,
    KILL_KINDS
};

extern const char *const kill_names[KILL_KINDS];

typedef struct kill_run {
    gpur_device *device; /* the caller's */
    gpur_replay *replay;
    gpur_writer *writer;
    gpur_learner *learner; /* KILL_LEARNER */
    int kind;
    int64_t steps; /* since the beginning */
} kill_run;

/* A run that has not begun. The first failure; close it in any case. */
gpur_status kill_run_open(kill_run *run, gpur_device *device, int kind);
void kill_run_close(kill_run *run);

/* Begins it: thousands of transitions are in, and `steps` is 0. */
gpur_status kill_run_begin(kill_run *run);

gpur_status kill_run_step(kill_run *run);
gpur_status kill_run_save(const kill_run *run, const char *path, const gpur_checkpoint_options *options);

/* From the file of a run that was so many steps on. */
gpur_status kill_run_load(kill_run *run, const char *path, int64_t steps);

#endif
