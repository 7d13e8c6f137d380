/* SPDX-License-Identifier: MIT */
/* The folder of a saved run: the replay's file, the learner's, and the run's own. */
#pragma once

#include "base/status.h"

enum { GPUR_FOLDER_PATH = 4096 };

/* The name of a file in a folder. */
gpur_status gpur_folder_path(const char *folder, const char *name, char path[GPUR_FOLDER_PATH]);

/* Makes the folder if it is not there. */
gpur_status gpur_folder_make(const char *folder);

/* Reads from the heads of the learner's file and of the replay's how far they have come: train steps done, and
 * transitions appended. */
gpur_status gpur_folder_read_trained(const char *folder, int64_t *trained);
gpur_status gpur_folder_read_rows(const char *folder, int64_t *rows);

/* A checksum of the environments' options, NULL or a text that may be longer than an entry of a file's metadata. */
uint64_t gpur_options_checksum(const char *options);
