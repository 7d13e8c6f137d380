/* SPDX-License-Identifier: MIT */
/* Files and folders of a run. Functions that can fail return 0 or FAILED. */
#pragma once

#include "text.h"

enum { MAX_PATH = 4096 };

/* Writes a path as printf would. */
int path_make(char path[MAX_PATH], const char *format, ...) __attribute__((format(printf, 2, 3)));

int path_exists(const char *path);

/* Makes a folder, and those above it, where they are not there. */
int folder_make(const char *path);

/* Waits until the names in a folder are on the disk. */
int folder_sync(const char *path);

/* Removes a folder and the files in it. One that is not there is no failure. */
int folder_remove(const char *path);

int path_rename(const char *from, const char *to);

/* Writes a whole file to the disk, under its name only when it is complete. */
int file_write(const char *folder, const char *name, const text *contents);

/* Appends all of a file to a text. */
int file_read(const char *path, text *contents);

/* write(2) until all bytes are written. `path` is for the failure. */
int write_all(int file, const char *bytes, size_t count, const char *path);
