/* SPDX-License-Identifier: MIT */
/*
 * Checkpoint files. An object describes its state as three lists: sections, which are arrays in host or device memory
 * that become tensors of the file; scalars, which become metadata entries; and settings, metadata entries that must be
 * equal in the file and in the object that loads it. To save more state, add an entry to one of these lists; the same
 * list serves saving and loading.
 */
#pragma once

#include "file/safetensors.h"
#include "file/atomic_file.h"
#include "file/file_reader.h"
#include "device/device.h"
#include "gpureplay/checkpoint.h"

enum { GPUR_MAX_PIECES = 2, GPUR_MAX_SCALARS = 32 };

/* Contiguous memory. The pieces of a section follow one another in the file. */
typedef struct gpur_piece {
    void *memory;
    int64_t bytes; /* 0: unused */
    int on_device;
} gpur_piece;

typedef struct gpur_section {
    gpur_tensor_entry entry; /* name, type and shape; begin and end are its place in the file */
    gpur_piece pieces[GPUR_MAX_PIECES];
} gpur_section;

typedef struct gpur_sections {
    gpur_section *list; /* (count) */
    int32_t count, room;
} gpur_sections;

/* A zeroed gpur_sections is an empty list. Frees the list and leaves it empty. */
void gpur_sections_free(gpur_sections *sections);

/* Adds an array of `rows` x `columns` elements (columns 0: a one-dimensional array of `rows`). */
gpur_status gpur_sections_add(gpur_sections *sections, const char *name, int32_t type, int64_t rows, int64_t columns,
                              gpur_piece piece);

/* Sets the second piece of the section added last. */
void gpur_sections_continue(gpur_sections *sections, gpur_piece piece);

/* Adds a section of this type and shape. Its pieces are empty; the caller fills them in. */
gpur_status gpur_sections_add_entry(gpur_sections *sections, const gpur_tensor_entry *entry, gpur_section **added);

/* A float is written as its bits, so that every value is restored exactly, in any locale. */
enum { GPUR_SCALAR_I64, GPUR_SCALAR_U64, GPUR_SCALAR_I32, GPUR_SCALAR_F32, GPUR_SCALAR_F64 };

typedef struct gpur_scalar {
    const char *name;
    int32_t type;
    void *value;
} gpur_scalar;

gpur_status gpur_scalars_write(gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count);

/* Sets all values, or refuses with GPUR_FILE_ERROR a number that is missing or is none. */
gpur_status gpur_scalars_read(const gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count);

/* The integer that a metadata entry has; `otherwise` if there is no such entry, or it is no integer. */
int64_t gpur_metadata_number(const gpur_tensors *tensors, const char *key, int64_t otherwise);

/* The metadata entry of a weights file with the version of the weights. */
#define GPUR_WEIGHTS_VERSION "weights_version"

/* The entry that learners' files have, and no others: the number of train steps enqueued. */
#define GPUR_STEPS_ENQUEUED "steps_enqueued"

/* Settings are metadata entries, too. */
gpur_status gpur_settings_add_real(gpur_tensors *settings, const char *key, double value);

/*
 * The file format, independent of what the sections mean. The data begin with the tensor "checksums", (chunks + 2)
 * int64: the XXH3 of each 1 MiB chunk of the data after this tensor, then that of the head (length and header), then
 * that of all checksums before this last one. So every bit of the file is covered. The other tensors are ordered by
 * element size, widest first, so that all are aligned.
 */

enum { GPUR_CHUNK = 1 << 20, GPUR_HEAD_LENGTH = 8 };

/* Common prologue of save and load. Refuses NULL for `object` (`kind` is "replay" or "learner") or `path`, and returns
 * GPUR_UNAVAILABLE in a build without file support. Reads the caller's options, which may be NULL. */
gpur_status gpur_checkpoint_check_call(const void *object, const char *kind, const char *path,
                                       const gpur_checkpoint_options *given, gpur_checkpoint_options *options);

/* Calls the caller's progress function. GPUR_INTERRUPTED: it asked to stop. */
gpur_status gpur_checkpoint_report_progress(const gpur_checkpoint_options *options, int64_t done, int64_t all);

/* Adds the metadata entries that identify a file of this kind ("replay", "learner"). */
gpur_status gpur_checkpoint_add_kind(gpur_tensors *tensors, const char *kind);

/*
 * Writes the sections and the metadata of `tensors`, which must have no entries yet. Device memory is read on `stream`,
 * after the work that is already enqueued there. Sorts the sections.
 */
gpur_status gpur_checkpoint_write(gpur_device *device, gpur_stream *stream, gpur_sections *sections,
                                  gpur_tensors *tensors, const char *path, const gpur_checkpoint_options *options);

/* Refuses, with GPUR_FILE_ERROR, bytes [begin, end) of a tensor, of which both ends are multiples of 4. They come in
 * any order, from any thread. `context` is the caller's. */
typedef gpur_status (*gpur_bytes_check)(const void *context, const unsigned char *bytes, int64_t begin, int64_t end);

/* What a tensor must hold. */
typedef struct gpur_expectation {
    gpur_tensor_entry entry;
    gpur_bytes_check check;
    const void *context;
} gpur_expectation;
enum { GPUR_MAX_EXPECTATIONS = 3 };

typedef struct gpur_checkpoint {
    gpur_file_reader file;
    gpur_tensors tensors;
    int64_t data_at; /* offset of the data in the file */
    int64_t data_bytes;
    int64_t covered_at; /* offset within the data of the first chunk */
    int64_t chunks;
    uint64_t *checksums;                              /* (chunks + 2) */
    uint64_t head;                                    /* checksum of the head as read */
    gpur_expectation expected[GPUR_MAX_EXPECTATIONS]; /* (expected_count) */
    int32_t expected_count;
    int verified; /* gpur_checkpoint_verify has succeeded */
} gpur_checkpoint;

/* Opens a file and reads its header. The file may come from another program. A failure leaves nothing open. */
gpur_status gpur_checkpoint_open(gpur_checkpoint *checkpoint, const char *path);
void gpur_checkpoint_close(gpur_checkpoint *checkpoint);

/* Returns 1 if any metadata key begins with "gpureplay". One damaged key thus does not make it a file of another
 * program. */
int gpur_checkpoint_is_ours(const gpur_checkpoint *checkpoint);

/* Refuses a file of another kind. */
gpur_status gpur_checkpoint_check_kind(const gpur_checkpoint *checkpoint, const char *kind);

/* Prefixes the current error message with the file's path. */
gpur_status gpur_checkpoint_add_path_to_error(const gpur_checkpoint *checkpoint, gpur_status status);

/* Refuses a file of another kind, a damaged header or damaged checksums, different settings, and missing scalars; fills
 * in the scalars. `what` names the object that loads it, as in "this replay". Call it before the functions below. */
gpur_status gpur_checkpoint_compare(gpur_checkpoint *checkpoint, const char *kind, const char *what,
                                    const gpur_tensors *settings, const gpur_scalar *scalars, int32_t count);

/* From now on every chunk that is read is checked for what it holds of this tensor. Has no effect if the file has no
 * such tensor. */
gpur_status gpur_checkpoint_expect(gpur_checkpoint *checkpoint, const char *name, gpur_bytes_check bytes_check,
                                   const void *context);

/* The first of two passes, for objects that would lose their content if loading failed midway: verifies every chunk,
 * with a few threads if there are processors for them. */
gpur_status gpur_checkpoint_verify(gpur_checkpoint *checkpoint, gpur_device *device,
                                   const gpur_checkpoint_options *options);

/* Copies the tensors' offsets in the file into the sections. Refuses a file that lacks a section, has it with another
 * type or shape, or does not have exactly `extra` tensors more than these. */
gpur_status gpur_checkpoint_match(const gpur_checkpoint *checkpoint, gpur_sections *sections, const char *what,
                                  int32_t extra);

/* Reads the pieces in host memory without verifying checksums, so that the caller can inspect them early.
 * gpur_checkpoint_fill reads them again. */
gpur_status gpur_checkpoint_peek(const gpur_checkpoint *checkpoint, const gpur_sections *sections);

/* The second pass, or the only one: fills the sections, those in device memory on `stream`, and waits. Verifies each
 * chunk's checksum before it copies any of the chunk. *touched becomes 1 once anything was copied, also if a later
 * chunk fails. The progress function can cancel this only if gpur_checkpoint_verify did not come before it. */
gpur_status gpur_checkpoint_fill(gpur_checkpoint *checkpoint, gpur_device *device, gpur_stream *stream,
                                 const gpur_sections *sections, const gpur_checkpoint_options *options, int *touched);
