/* SPDX-License-Identifier: MIT */
/*
 * The weights of the best evaluation so far, "best.safetensors" in the folder of a run: a weights file whose metadata
 * have the evaluation's `env_steps`, `episodes` and `mean_return`. A checkpoint has a copy, so that a run that goes on
 * from it forgets the evaluations that came after, whose rows are cut off, too.
 */
#pragma once

#include "base/status.h"
#include "gpureplay/run.h"

extern const char gpur_best_name[];

/* The evaluation of the weights that are kept. */
typedef struct gpur_best {
    int32_t is_there; /* 0: there are none */
    int64_t step;
    double mean_return;
} gpur_best;

/* Reads of which evaluation a folder's weights are. Ones that are not there, or do not say so, are no failure. */
gpur_status gpur_best_read(const char *folder, gpur_best *best);

/* Keeps the weights of an evaluation if its mean return is the highest. */
gpur_status gpur_best_note(const char *folder, const gpur_run_event *event, gpur_best *best);

/* The file of one folder becomes that of the other; none where that has none. */
gpur_status gpur_best_copy(const char *from, const char *to);
