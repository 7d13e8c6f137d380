/* SPDX-License-Identifier: MIT */
/*
 * The header of a safetensors file: which tensors there are, where their bytes lie, and notes ("__metadata__"). The
 * file is 8 bytes with the header's length, the header as JSON, and the data.
 *
 * JSON by cJSON and checksums by xxHash; a build without them refuses, with the names of the packages.
 */
#ifndef GPUR_FILE_SAFETENSORS_H
#define GPUR_FILE_SAFETENSORS_H

#include "base/status.h"

enum {
    GPUR_TENSOR_NAME = 96,
    GPUR_TENSOR_DIMS = 8,
    GPUR_NOTE_KEY = 64,
    GPUR_NOTE_VALUE = 192,
    GPUR_MAX_NOTES = 4096,
    GPUR_MAX_HEADER = 16 << 20, /* bytes of JSON that are read at all */
};

/* Element types, in the order of gpur_tensor_types. Those that we write come first. */
enum { GPUR_U8 = 0, GPUR_I32, GPUR_I64, GPUR_F32 };

typedef struct gpur_tensor_type {
    const char *name;
    int32_t bytes;
} gpur_tensor_type;
extern const gpur_tensor_type gpur_tensor_types[];
int32_t gpur_tensor_type_find(const char *name); /* -1: there is no such type */

typedef struct gpur_tensor_entry {
    char name[GPUR_TENSOR_NAME];
    int32_t type, dims;
    int64_t shape[GPUR_TENSOR_DIMS]; /* (dims) */
    int64_t begin, end;              /* bytes from the start of the data */
} gpur_tensor_entry;

typedef struct gpur_note {
    char key[GPUR_NOTE_KEY], value[GPUR_NOTE_VALUE];
} gpur_note;

typedef struct gpur_tensors {
    gpur_tensor_entry *entries; /* (count) */
    gpur_note *notes;           /* (note_count) */
    int32_t count, room, note_count, note_room;
} gpur_tensors;

/* All zeros is an empty one. */
void gpur_tensors_free(gpur_tensors *tensors);
gpur_status gpur_tensors_add(gpur_tensors *tensors, const gpur_tensor_entry *entry);

/* GPUR_FILE_ERROR: there are GPUR_MAX_NOTES already. */
gpur_status gpur_tensors_note(gpur_tensors *tensors, const char *key, const char *format, ...) GPUR_PRINTF(3, 4);

/* NULL: there is none. */
const gpur_tensor_entry *gpur_tensors_find(const gpur_tensors *tensors, const char *name);
const char *gpur_tensors_find_note(const gpur_tensors *tensors, const char *key);

/* Bytes by type and shape; -1 when there are too many for an int64_t. */
int64_t gpur_tensor_bytes(const gpur_tensor_entry *entry);

/* Sorts the entries by their place, and refuses names that are there twice, sizes that are not those of type and shape,
 * holes, overlaps, and another end than `data_bytes`. */
gpur_status gpur_tensors_check(gpur_tensors *tensors, int64_t data_bytes);

/* GPUR_OK, or GPUR_UNAVAILABLE with the packages that this build lacks. */
gpur_status gpur_tensors_available(void);

/* Fills in `tensors`, which is empty, from `length` bytes of JSON; notes that are too long for us are left out.
 * gpur_tensors_free it in any case. GPUR_FILE_ERROR: it is no such header. */
gpur_status gpur_tensors_parse(gpur_tensors *tensors, const char *text, size_t length);

/* The head of a file: length and JSON, padded to a multiple of 64 bytes. free() it. */
gpur_status gpur_tensors_print(const gpur_tensors *tensors, unsigned char **head, int64_t *bytes);

/* XXH3, 64 bits. */
uint64_t gpur_checksum(const void *data, int64_t bytes);

#endif
