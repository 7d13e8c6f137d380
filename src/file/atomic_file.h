/* SPDX-License-Identifier: MIT */
/*
 * A file that comes into being whole or not at all: written beside its place under another name, synced, renamed, and
 * its folder synced. A failure leaves the file that was there, or none where there was none. It has the permissions of
 * the file that it replaces, and its owner and group where the process may set them.
 *
 * The two names are exchanged, so that the old file can be put back when the folder cannot be synced. Some file systems
 * (NFS) cannot exchange names; there such a failure leaves the new file in its place, and its message says so.
 *
 * The other name is the path with ".part" behind it. It is locked while somebody writes, and one that a killed program
 * left is written over; so such files do not pile up.
 */
#ifndef GPUR_FILE_ATOMIC_FILE_H
#define GPUR_FILE_ATOMIC_FILE_H

#include "base/status.h"

typedef struct gpur_new_file {
    const char *path; /* the caller's */
    char *part;       /* path + ".part" */
    int descriptor;   /* -1: none is open */
    int folder;       /* descriptor of the folder; -1 */
    int replaces;     /* 1: there was a file at `path` */
    int64_t bytes;    /* that it will have */
    int64_t begun;    /* up to where the disk was told to write already */
} gpur_new_file;

/*
 * Makes room for all of `bytes` before the first is written, where the file system can.
 *
 *   GPUR_FILE_ERROR        no such folder, no right to write, no room, a folder or a symbolic link at `path`, or
 *                          somebody else who writes to it; a failure leaves nothing behind
 */
gpur_status gpur_new_file_open(gpur_new_file *file, const char *path, int64_t bytes);
gpur_status gpur_new_file_write(gpur_new_file *file, const void *data, int64_t bytes, int64_t offset);

/* The end of a file that went well; its failure, and gpur_new_file_abandon, remove what was written. Abandoning takes a
 * file that was ended. */
gpur_status gpur_new_file_commit(gpur_new_file *file);
void gpur_new_file_abandon(gpur_new_file *file);

#endif
