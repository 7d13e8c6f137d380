/* SPDX-License-Identifier: MIT */
/* Files and folders of a run, by the name of the run's folder and their own in it. */
#pragma once

#include "base/status.h"
#include "train/text.h"

enum { GPUR_MAX_PATH = 4096 };

/* Writes a path as printf would. */
gpur_status gpur_path_make(char path[GPUR_MAX_PATH], const char *format, ...) GPUR_PRINTF(2, 3);

/* Whether there is a file or a folder. */
int gpur_file_exists(const char *folder, const char *name);

gpur_status gpur_file_rename(const char *folder, const char *from, const char *to);

/* Removes a file. One that is not there is no failure. */
gpur_status gpur_file_remove(const char *folder, const char *name);

/* The same of a folder and the files in it. */
gpur_status gpur_folder_remove(const char *folder, const char *name);

/* Makes a folder, and those above it, where they are not there. */
gpur_status gpur_folders_make(const char *path);

/* Waits until the names in a folder are on the disk. */
gpur_status gpur_folder_sync(const char *folder);

/* Writes a whole file to the disk, under its name only when it is complete. */
gpur_status gpur_text_file_write(const char *folder, const char *name, const gpur_text *contents);

/* Appends all of a file to a text. */
gpur_status gpur_text_file_read(const char *folder, const char *name, gpur_text *contents);
