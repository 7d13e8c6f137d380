/* SPDX-License-Identifier: MIT */
/* The settings that a replay's file has, from which a replay can be made that loads it. */
#pragma once

#include "gpureplay/replay.h"

typedef struct gpur_replay_description {
    gpur_replay_config config; /* its fields are `fields`; what the file does not have is a default */
    gpur_field fields[GPUR_MAX_FIELDS];
    char names[GPUR_MAX_FIELDS][GPUR_MAX_NAME]; /* of the fields, which point to them */
    int64_t rows;                               /* transitions in the file */
} gpur_replay_description;

/* Reads the head of a file. GPUR_FILE_ERROR: it cannot be read, or is none of a replay. GPUR_INVALID_ARGUMENT: it is of
 * a replay of lanes, or of one whose ring of frames its settings do not tell. */
gpur_status gpur_replay_describe_file(const char *path, gpur_replay_description *description);

/* The same of a replay, with the rows that a train step would see. Of one of lanes the layout says so. */
gpur_status gpur_replay_describe(gpur_replay *replay, gpur_replay_description *description);
