/* SPDX-License-Identifier: MIT */
/*
 * The header of a safetensors file: the tensors, the positions of their bytes, and metadata entries ("__metadata__").
 * The file consists of 8 bytes with the header's length, the header as JSON, and the data.
 *
 * JSON is handled by cJSON and checksums by xxHash. A build without them returns GPUR_UNAVAILABLE with the names of the
 * packages.
 */
#pragma once

#include "base/status.h"

enum {
    GPUR_TENSOR_NAME = 96,
    GPUR_TENSOR_DIMS = 8,
    GPUR_METADATA_KEY = 64,
    GPUR_METADATA_VALUE = 192,
    GPUR_MAX_METADATA = 8192,   /* a replay's file has one for each writer, and a run of 4,096 environments as many */
    GPUR_MAX_HEADER = 16 << 20, /* bytes of JSON; larger headers are refused */
};

/* Element types, in the order of gpur_tensor_types. Those that this library writes come first. */
enum { GPUR_U8 = 0, GPUR_I32, GPUR_I64, GPUR_F32 };

typedef struct gpur_tensor_type {
    const char *name;
    int32_t bytes;
} gpur_tensor_type;
extern const gpur_tensor_type gpur_tensor_types[];
int32_t gpur_tensor_type_find(const char *name); /* -1: no such type */

typedef struct gpur_tensor_entry {
    char name[GPUR_TENSOR_NAME];
    int32_t type, dims;
    int64_t shape[GPUR_TENSOR_DIMS]; /* (dims) */
    int64_t begin, end;              /* byte offsets from the start of the data */
} gpur_tensor_entry;

typedef struct gpur_metadata_entry {
    char key[GPUR_METADATA_KEY], value[GPUR_METADATA_VALUE];
} gpur_metadata_entry;

typedef struct gpur_tensors {
    gpur_tensor_entry *entries;    /* (count) */
    gpur_metadata_entry *metadata; /* (metadata_count) */
    int32_t count, room, metadata_count, metadata_room;
} gpur_tensors;

/* A zeroed gpur_tensors is empty. Frees everything and leaves it empty. */
void gpur_tensors_free(gpur_tensors *tensors);

/* Makes room in a list of `count` elements for one more of `size` bytes. */
gpur_status gpur_list_grow(void **list, int32_t count, int32_t *room, size_t size);

gpur_status gpur_tensors_add(gpur_tensors *tensors, const gpur_tensor_entry *entry);

/* Adds a metadata entry. GPUR_FILE_ERROR: there are GPUR_MAX_METADATA already. */
gpur_status gpur_tensors_add_metadata(gpur_tensors *tensors, const char *key, const char *format, ...)
    GPUR_PRINTF(3, 4);

/* Return NULL if there is no such tensor or metadata key. */
const gpur_tensor_entry *gpur_tensors_find(const gpur_tensors *tensors, const char *name);
const char *gpur_tensors_find_metadata(const gpur_tensors *tensors, const char *key);

/* Returns the bytes that type and shape imply; -1 if their number overflows int64_t. */
int64_t gpur_tensor_bytes(const gpur_tensor_entry *entry);

/* Sorts the entries by their offset. Refuses duplicate names, sizes that contradict type and shape, gaps, overlaps, and
 * an end other than `data_bytes`. */
gpur_status gpur_tensors_check(gpur_tensors *tensors, int64_t data_bytes);

/* Returns GPUR_OK, or GPUR_UNAVAILABLE with the packages that this build lacks. */
gpur_status gpur_tensors_available(void);

/* Fills in `tensors`, which must be empty, from `length` bytes of JSON; skips metadata entries with a key or value that
 * is too long. The caller calls gpur_tensors_free whatever this returns. GPUR_FILE_ERROR: this is not a valid
 * header. */
gpur_status gpur_tensors_parse(gpur_tensors *tensors, const char *text, size_t length);

/* Makes the head of a file: the length and the JSON, padded to a multiple of 64 bytes. The caller frees it with
 * free(). */
gpur_status gpur_tensors_print(const gpur_tensors *tensors, unsigned char **head, int64_t *bytes);

/* 64-bit XXH3; of two pieces as if they lay one behind the other. */
uint64_t gpur_checksum(const void *data, int64_t bytes);
uint64_t gpur_checksum_of_two(const void *first, int64_t first_bytes, const void *second, int64_t second_bytes);

/* GPUR_OK, or GPUR_UNAVAILABLE with the packages that this build lacks. */
gpur_status gpur_checksum_available(void);
