/* SPDX-License-Identifier: MIT */
/* Opens and reads a file. The descriptor keeps referring to this file if another one replaces it at its path. */
#pragma once

#include "base/status.h"

typedef struct gpur_file_reader {
    const char *path; /* owned by the caller */
    int descriptor;   /* -1 if closed */
    int64_t bytes;
} gpur_file_reader;

/* GPUR_FILE_ERROR: the file does not exist, may not be read, or is a symbolic link, a folder or another special
 * file. */
gpur_status gpur_file_reader_open(gpur_file_reader *file, const char *path);

/* GPUR_FILE_ERROR: reading failed, or the file has become shorter. The message does not contain the file's path. */
gpur_status gpur_file_reader_read(const gpur_file_reader *file, void *data, int64_t bytes, int64_t offset);

void gpur_file_reader_close(gpur_file_reader *file); /* may be called again */
