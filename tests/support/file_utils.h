/* SPDX-License-Identifier: MIT */
/* Files of tests: where they lie, their bytes, how they go bad, and how they are forged. */
#ifndef GPUR_SUPPORT_FILE_UTILS_H
#define GPUR_SUPPORT_FILE_UTILS_H

#include "file/checkpoint_file.h"
#include "gpureplay.h"

/* The bytes of a file, malloc'ed; NULL when it cannot be read. */
unsigned char *read_file(const char *path, int64_t *bytes);
int write_file(const char *path, const void *data, int64_t bytes); /* 0: done */

/* The same over a file that is there: making one a hundred thousand times takes longer than reading it. */
int overwrite_file(const char *path, const void *data, int64_t bytes);

int file_is(const char *path, const unsigned char *data, int64_t bytes); /* 1: it has these bytes */
int files_are_same(const char *path, const char *other);                 /* 1: both have the same bytes */
int replay_is_as(gpur_replay *replay, const char *path);                 /* 1: saving it writes what is at `path` */

/* Does one of the things by which files go bad, in the first `head` bytes as often as in all. Returns the new length,
 * at most `bytes` + 64, for which there must be room. */
int64_t damage_file(unsigned char *data, int64_t bytes, int64_t head, uint64_t *random);

/* A name in a new folder of this test's own, made when first asked for; test_remove_folder removes both. */
const char *test_file_path(const char *name);
void test_remove_folder(void);

/* Files that say what no replay does, and whose checksums are right all the same. */
typedef struct forgery {
    gpur_checkpoint file; /* its tensors and notes are there to be changed */
    unsigned char *data;  /* (file.data_bytes) likewise */
} forgery;

/* 1 when the file can be read. */
int forgery_open(forgery *f, const char *path);
void forgery_close(forgery *f);

/* Changes a note. 1: it is there. */
int forgery_note(forgery *f, const char *key, const char *value);

/* The bytes of a tensor, or NULL. */
unsigned char *forgery_tensor(forgery *f, const char *name);

/* Writes it, with its checksums put right. 0: done. */
int forgery_write(const forgery *f, const char *path);

/* Puts the checksums of a file's bytes right, whose data begin at `data_at`; does nothing where `tensors` has no room
 * for them. */
void forge_checksums(const gpur_tensors *tensors, unsigned char *file, int64_t bytes, int64_t data_at);

#endif
