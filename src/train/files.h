/* SPDX-License-Identifier: MIT */
/* Files and folders of a run. */
#pragma once

#include "base/status.h"
#include "train/text.h"

enum { GPUR_MAX_PATH = 4096 };

/* Writes a path as printf would. */
gpur_status gpur_path_make(char path[GPUR_MAX_PATH], const char *format, ...) __attribute__((format(printf, 2, 3)));

int gpur_path_exists(const char *path);

/* Makes a folder, and those above it, where they are not there. */
gpur_status gpur_folders_make(const char *path);

/* Waits until the names in a folder are on the disk. */
gpur_status gpur_folder_sync(const char *path);

/* Removes a folder and the files in it. One that is not there is no failure. */
gpur_status gpur_folder_remove(const char *path);

gpur_status gpur_path_rename(const char *from, const char *to);

/* Writes a whole file to the disk, under its name only when it is complete. */
gpur_status gpur_text_file_write(const char *folder, const char *name, const gpur_text *contents);

/* Appends all of a file to a text. */
gpur_status gpur_text_file_read(const char *path, gpur_text *contents);

/* Copies a file to the disk, under its name only when it is complete. */
gpur_status gpur_file_copy(const char *from, const char *to);

/* write(2) until all bytes are written. `path` is for the failure. */
gpur_status gpur_write_all(int file, const char *bytes, size_t count, const char *path);
