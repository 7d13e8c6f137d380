/* SPDX-License-Identifier: MIT */
/* Files of tests: where they lie, their bytes, and how they go bad. */
#ifndef GPUR_SUPPORT_FILE_KIT_H
#define GPUR_SUPPORT_FILE_KIT_H

#include <stdint.h>

/* The bytes of a file, malloc'ed; NULL when it cannot be read. */
unsigned char *read_file(const char *path, int64_t *bytes);
int write_file(const char *path, const void *data, int64_t bytes); /* 0: done */

/* The same over a file that is there: making one a hundred thousand times takes longer than reading it. */
int overwrite_file(const char *path, const void *data, int64_t bytes);

/* Does one of the things by which files go bad, in the first `head` bytes as often as in all. Returns the new length,
 * at most `bytes` + 64, for which there must be room. */
int64_t damage_file(unsigned char *data, int64_t bytes, int64_t head, uint64_t *random);

/* A name in a new folder of this test's own, made when first asked for; scene_remove_folder removes both. */
const char *scene_path(const char *name);
void scene_remove_folder(void);

#endif
