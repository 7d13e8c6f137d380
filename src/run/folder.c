/* SPDX-License-Identifier: MIT */
/* The folder of a saved run, and how far the files in it have come. */
#include "run/folder.h"

#include "file/checkpoint_file.h"
#include "gpureplay/checkpoint.h"
#include "learn/learner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

gpur_status gpur_folder_path(const char *folder, const char *name, char path[GPUR_FOLDER_PATH])
{
    const int length = snprintf(path, GPUR_FOLDER_PATH, "%s/%s", folder, name);
    GPUR_REQUIRE(length < GPUR_FOLDER_PATH, "the folder's name is %d bytes long; it must be at most %d",
                 (int)strlen(folder), GPUR_FOLDER_PATH - 32);
    return GPUR_OK;
}

gpur_status gpur_folder_make(const char *folder)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return gpur_fail(GPUR_FILE_ERROR, "cannot make the folder %s: %s", folder, strerror(errno));
    return GPUR_OK;
}

static gpur_status read_info(const char *folder, const char *name, gpur_checkpoint_info *info)
{
    char path[GPUR_FOLDER_PATH];
    *info = (gpur_checkpoint_info){.size = sizeof *info};
    GPUR_TRY(gpur_folder_path(folder, name, path));
    return gpur_checkpoint_get_info(path, info);
}

/* Reads it from the heads of the files. */
static gpur_status read_position(const char *folder, int has_replay, gpur_folder_position *position)
{
    gpur_checkpoint_info info;
    GPUR_TRY(read_info(folder, "learner.safetensors", &info));
    position->trained = info.steps;
    if (!has_replay)
        return GPUR_OK;
    GPUR_TRY(read_info(folder, "replay.safetensors", &info));
    position->rows = info.first_id + info.rows;
    return GPUR_OK;
}

/* Their priorities change with training, and they may still grow. */
static const char demonstrations_name[] = "demonstrations.safetensors";

gpur_status gpur_folder_save(const char *folder, gpur_learner *learner, gpur_folder_position *position)
{
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, demonstrations_name, path));
    if (learner->demonstrations)
        GPUR_TRY(gpur_replay_save(learner->demonstrations, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    GPUR_TRY(gpur_replay_save(learner->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    GPUR_TRY(gpur_learner_save(learner, path, NULL));
    return read_position(folder, 1, position);
}

/* The files are replaced one after another, so a save that was interrupted leaves some of an older one. */
gpur_status gpur_folder_check(const char *folder, const gpur_folder_position *saved, int32_t refill)
{
    gpur_folder_position found = *saved;
    GPUR_TRY(read_position(folder, !refill, &found));
    if (found.trained != saved->trained || found.rows != saved->rows)
        return gpur_fail(GPUR_FILE_ERROR,
                         "%s: run.safetensors was saved after %" PRId64 " train steps and %" PRId64
                         " transitions, and the files beside it after %" PRId64 " and %" PRId64
                         ": they are of different saves, of which one was not finished",
                         folder, saved->trained, saved->rows, found.trained, found.rows);
    return GPUR_OK;
}

gpur_status gpur_folder_load(const char *folder, gpur_learner *learner, int32_t refill)
{
    char path[GPUR_FOLDER_PATH];
    GPUR_TRY(gpur_folder_path(folder, "replay.safetensors", path));
    if (!refill)
        GPUR_TRY(gpur_replay_load(learner->replay, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, demonstrations_name, path));
    if (learner->demonstrations)
        GPUR_TRY(gpur_replay_load(learner->demonstrations, path, NULL));
    GPUR_TRY(gpur_folder_path(folder, "learner.safetensors", path));
    return gpur_learner_load(learner, path, NULL);
}
