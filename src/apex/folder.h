/* SPDX-License-Identifier: MIT */
/* A folder for blocks and weights between the learner and remote actors: see gpur_apex_work. */
#pragma once

#include "apex/apex.h"
#include "run/folder.h"

/* The names in it. */
typedef struct gpur_apex_paths {
    char blocks[GPUR_FOLDER_PATH]; /* the folder of blocks */
    char model[GPUR_FOLDER_PATH];  /* the file of weights */
    char critic[GPUR_FOLDER_PATH]; /* that of a DPG's critic, which is written before */
} gpur_apex_paths;

/* Makes the folder and that of blocks, as far as they are not there, and finds the names. */
gpur_status gpur_apex_paths_open(const char *folder, gpur_apex_paths *paths);

/* 1 if a name ends so. */
int gpur_apex_name_ends(const char *name, const char *end);

/* A learner's side of it. */
struct gpur_apex_folder {
    gpur_apex_paths paths;
    gpur_slot *remote_actors;  /* (GPUR_APEX_MAX_ACTORS) those that were not seen yet are zeroed */
    unsigned char *block;      /* (max_message) the file that is being taken */
    int64_t taken, next_model; /* files so far; so many when the model is written again */
    int32_t set_aside;         /* files */
    int lock;                  /* descriptor of the folder, which is locked; -1: none */
    double next;               /* seconds: when it looks again */
};
