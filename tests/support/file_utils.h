/* SPDX-License-Identifier: MIT */
/* Files of tests: their folder, reading, writing and comparing them, and correcting their checksums. */
#pragma once

#include "file/checkpoint_file.h"
#include "gpureplay.h"

/* The bytes of a file, malloc'ed; NULL when it cannot be read. */
unsigned char *read_file(const char *path, int64_t *bytes);

/* 0: done. An existing file is overwritten in place: making one a hundred thousand times takes longer than reading it,
 * and some file systems flush one at once that was emptied. */
int write_file(const char *path, const void *data, int64_t bytes);

int file_is(const char *path, const unsigned char *data, int64_t bytes); /* 1: it has these bytes */
int files_are_same(const char *path, const char *other);                 /* 1: both have the same bytes */
int replay_is_as(gpur_replay *replay, const char *path); /* 1: saving it writes the bytes of that file */

/* The path of this name in a new folder of the program's own, for up to 32 names; each is valid until
 * test_remove_folder, which removes the folder with all files in it. */
const char *test_file_path(const char *name);
void test_remove_folder(void);

/* Corrects the checksums of a file's bytes, whose data begin at `data_at`; does nothing if `tensors` has no room for
 * them. */
void forge_checksums(const gpur_tensors *tensors, unsigned char *file, int64_t bytes, int64_t data_at);

/* Writes an opened file, whose tensors and notes were changed, with the bytes `data` of the whole file, likewise, and
 * with its checksums corrected. Returns 0, or -1. */
int write_forged(const gpur_checkpoint *file, const unsigned char *data, const char *path);
