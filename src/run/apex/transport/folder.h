/* SPDX-License-Identifier: MIT */
/* Remote actors whose blocks come as files of a folder, where the weights are files, too. The actor's side is
 * gpur_apex_work. */
#pragma once

#include "run/apex/transport/transport.h"
#include "run/folder.h"

extern const gpur_transport gpur_folder_transport;

/* The names in the folder. */
typedef struct gpur_apex_paths {
    char blocks[GPUR_FOLDER_PATH]; /* the folder of blocks */
    char model[GPUR_FOLDER_PATH];  /* the file of weights */
    char critic[GPUR_FOLDER_PATH]; /* that of a DPG's critic, which is written before */
} gpur_apex_paths;

/* Makes the folder and that of blocks, as far as they are not there, and finds the names. */
gpur_status gpur_apex_paths_open(const char *folder, gpur_apex_paths *paths);

/* 1 if a name ends so. */
int gpur_apex_name_ends(const char *name, const char *end);
