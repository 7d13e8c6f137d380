/* SPDX-License-Identifier: MIT */
/* Files that say what no replay does, and whose checksums are right all the same. */
#ifndef GPUR_SUPPORT_FILE_FORGE_H
#define GPUR_SUPPORT_FILE_FORGE_H

#include "file/checkpoint_file.h"

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
