/* SPDX-License-Identifier: MIT */
/* The folder of a saved run: the replay's file, the learner's, the run's own, and that of demonstrations if there are
 * any. */
#pragma once

#include "base/status.h"
#include "gpureplay/learner.h"
#include "gpureplay/replay.h"

enum { GPUR_FOLDER_PATH = 4096 };

/* The name of a file in a folder. */
gpur_status gpur_folder_path(const char *folder, const char *name, char path[GPUR_FOLDER_PATH]);

/* Makes the folder if it is not there. */
gpur_status gpur_folder_make(const char *folder);

/* How far the files of a learner and of its replay have come. */
typedef struct gpur_folder_position {
    int64_t trained; /* train steps done */
    int64_t rows;    /* transitions appended */
} gpur_folder_position;

/* Writes the files of a learner and of its replays, which the run's own file follows. */
gpur_status gpur_folder_save(const char *folder, gpur_learner *learner, gpur_folder_position *position);

/* Refuses files of another position than that which the run's own file has: they are of different saves. `refill` 1:
 * the replay's file is not asked. */
gpur_status gpur_folder_check(const char *folder, const gpur_folder_position *saved, int32_t refill);

/* Loads them; with `refill` 1 without the replay. */
gpur_status gpur_folder_load(const char *folder, gpur_learner *learner, int32_t refill);
