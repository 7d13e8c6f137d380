/* SPDX-License-Identifier: MIT */
/* The folder of a saved run, and how far the files in it have come. */
#include "run/folder.h"

#include "file/checkpoint_file.h"
#include "gpureplay/checkpoint.h"

#include <errno.h>
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

gpur_status gpur_folder_read_trained(const char *folder, int64_t *trained)
{
    gpur_checkpoint_info info;
    GPUR_TRY(read_info(folder, "learner.safetensors", &info));
    *trained = info.steps;
    return GPUR_OK;
}

gpur_status gpur_folder_read_rows(const char *folder, int64_t *rows)
{
    gpur_checkpoint_info info;
    GPUR_TRY(read_info(folder, "replay.safetensors", &info));
    *rows = info.first_id + info.rows;
    return GPUR_OK;
}

uint64_t gpur_options_checksum(const char *options)
{
    return gpur_checksum(options ? options : "", options ? (int64_t)strlen(options) : 0);
}
