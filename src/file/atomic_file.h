/* SPDX-License-Identifier: MIT */
/*
 * Writes a file atomically: the new content is written to another file in the same folder, synced and renamed to
 * `path`, and the folder is synced. After a failure the old file is still there, or no file if there was none. The new
 * file gets the permissions of the file that it replaces, and its owner and group if the process may set them.
 *
 * The two names are exchanged, so that the old file can be put back if the folder cannot be synced. Some file systems
 * (NFS) cannot exchange names; there such a failure leaves the new file at `path`, and the error message says so.
 *
 * The temporary file is called `path` + ".part". It is locked while a process writes it. One that a killed program left
 * behind is removed, so such files do not accumulate. Names are looked up in the folder that was opened first, so that
 * a program may change its current folder meanwhile.
 */
#pragma once

#include "base/status.h"

typedef struct gpur_atomic_file {
    const char *path, *name; /* owned by the caller; name: without the folder */
    char *part, *part_name;  /* the same with ".part" at the end */
    int descriptor;          /* -1 if closed */
    int folder;              /* descriptor of the folder; -1 if closed */
    int replaces;            /* 1: there was a file at `path` */
    int64_t bytes;           /* size of the finished file */
    int64_t writeback_bytes; /* end of the range whose write-back has been started */
} gpur_atomic_file;

/*
 * Creates and locks the temporary file, and reserves disk space for all `bytes` if the file system can.
 *
 *   GPUR_FILE_ERROR        the folder does not exist, no permission, not enough space, a folder or a symbolic link at
 *                          `path`, or another process that is writing it; a failure leaves nothing behind
 */
gpur_status gpur_atomic_file_begin(gpur_atomic_file *file, const char *path, int64_t bytes);
gpur_status gpur_atomic_file_write(gpur_atomic_file *file, const void *data, int64_t bytes, int64_t offset);

/* gpur_atomic_file_commit ends a file successfully. If it fails it removes the temporary file, as
 * gpur_atomic_file_discard does. gpur_atomic_file_discard may be called after a commit and then does nothing. */
gpur_status gpur_atomic_file_commit(gpur_atomic_file *file);
void gpur_atomic_file_discard(gpur_atomic_file *file);
