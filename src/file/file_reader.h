/* SPDX-License-Identifier: MIT */
/* Opens and reads a file. The descriptor keeps referring to this file if another one replaces it at its path. */
#ifndef GPUR_FILE_FILE_READER_H
#define GPUR_FILE_FILE_READER_H

#include "base/status.h"

typedef struct gpur_old_file {
    const char *path; /* owned by the caller */
    int descriptor;   /* -1 if closed */
    int64_t bytes;
} gpur_old_file;

/* GPUR_FILE_ERROR: the file does not exist, may not be read, or is a symbolic link, a folder or another special
 * file. */
gpur_status gpur_old_file_open(gpur_old_file *file, const char *path);

/* GPUR_FILE_ERROR: reading failed, or the file has become shorter. The message does not contain the file's path. */
gpur_status gpur_old_file_read(const gpur_old_file *file, void *data, int64_t bytes, int64_t offset);

void gpur_old_file_close(gpur_old_file *file); /* may be called again */

#endif
