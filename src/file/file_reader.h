/* SPDX-License-Identifier: MIT */
/* A file to be read. It stays the same file when another is put in its place meanwhile. */
#ifndef GPUR_FILE_FILE_READER_H
#define GPUR_FILE_FILE_READER_H

#include "base/status.h"

typedef struct gpur_old_file {
    const char *path; /* the caller's */
    int descriptor;   /* -1: none is open */
    int64_t bytes;
} gpur_old_file;

/* GPUR_FILE_ERROR: it is not there, may not be read, or is a symbolic link, a folder or no ordinary file. */
gpur_status gpur_old_file_open(gpur_old_file *file, const char *path);

/* GPUR_FILE_ERROR: the device failed, or the file has become shorter; the message does not name it. */
gpur_status gpur_old_file_read(const gpur_old_file *file, void *data, int64_t bytes, int64_t offset);

void gpur_old_file_close(gpur_old_file *file); /* takes one that was closed */

#endif
