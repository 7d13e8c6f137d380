/* SPDX-License-Identifier: MIT */
/*
 * What a checkpoint is made of: sections, which are arrays that lie in host or device memory now and will be tensors in
 * a file; scalars, which are notes; and settings, notes that have to be the same in the file and in the object that it
 * is read into. Who has something to keep adds an entry to one of these lists; the same list serves saving and loading.
 */
#ifndef GPUR_FILE_CHECKPOINT_FILE_H
#define GPUR_FILE_CHECKPOINT_FILE_H

#include "file/safetensors.h"
#include "file/atomic_file.h"
#include "file/file_reader.h"
#include "device/device.h"
#include "gpureplay/checkpoint.h"

enum { GPUR_MAX_PIECES = 2, GPUR_MAX_SCALARS = 32 };

/* Contiguous memory; the pieces of a section follow one another in the file. */
typedef struct gpur_piece {
    void *memory;
    int64_t bytes; /* 0: none */
    int on_device;
} gpur_piece;

typedef struct gpur_section {
    gpur_tensor_entry entry; /* name, type, shape; the place is the file's */
    gpur_piece pieces[GPUR_MAX_PIECES];
} gpur_section;

typedef struct gpur_sections {
    gpur_section *list; /* (count) */
    int32_t count, room;
} gpur_sections;

/* All zeros is an empty list. */
void gpur_sections_free(gpur_sections *sections);

/* Adds an array of `rows` rows of `columns` (0: one axis) elements. */
gpur_status gpur_sections_add(gpur_sections *sections, const char *name, int32_t type, int64_t rows, int64_t columns,
                              gpur_piece piece);

/* The last one goes on elsewhere. */
void gpur_sections_continue(gpur_sections *sections, gpur_piece piece);

/* One more of this shape, without a place in memory, which the caller fills in. */
gpur_status gpur_sections_add_entry(gpur_sections *sections, const gpur_tensor_entry *entry, gpur_section **added);

/* A float is written as its bits, so that any value comes back as it was, in any locale. */
enum { GPUR_SCALAR_I64, GPUR_SCALAR_U64, GPUR_SCALAR_I32, GPUR_SCALAR_F32, GPUR_SCALAR_F64 };

typedef struct gpur_scalar {
    const char *name;
    int32_t type;
    void *value;
} gpur_scalar;

gpur_status gpur_scalars_write(gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count);

/* At most GPUR_MAX_SCALARS. GPUR_FILE_ERROR: one is not there, or is no number of its type. All or none are filled in.
 */
gpur_status gpur_scalars_read(const gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count);

/* Settings are notes, too. Refuses a file in which one of `wanted` differs, with both values; `what` is "this replay".
 */
gpur_status gpur_settings_note_real(gpur_tensors *settings, const char *key, double value);
gpur_status gpur_settings_compare(const gpur_tensors *file, const gpur_tensors *wanted, const char *what);

/*
 * Files of sections, whatever they mean. The data begin with the tensor "checksums", (chunks + 2) int64: XXH3 of each
 * chunk of a MiB of what follows it, then of the head (length and header), then of the checksums before this last one.
 * So every bit of the file is covered. Of the other tensors those of wide types come first, so that all are aligned.
 */

enum { GPUR_CHUNK = 1 << 20, GPUR_HEAD_LENGTH = 8 };

/* Begins every call with a file: refuses NULL for `object`, which is a "replay" or "learner", or path, and a build that
 * has no files; reads the caller's options, NULL included. */
gpur_status gpur_checkpoint_check_call(const void *object, const char *kind, const char *path,
                                       const gpur_checkpoint_options *given, gpur_checkpoint_options *options);

/* GPUR_INTERRUPTED when the caller's function says so. */
gpur_status gpur_checkpoint_tell(const gpur_checkpoint_options *options, int64_t done, int64_t all);

/* Two chunks of pinned memory, so that one is copied between host and device while the other is on its way from or to
 * the file. */
typedef struct gpur_chunks {
    gpur_device *device;
    gpur_stream *stream;
    unsigned char *pinned;  /* (2, GPUR_CHUNK) */
    gpur_event *copied[2];  /* the device is done with it */
} gpur_chunks;
gpur_status gpur_chunks_open(gpur_chunks *chunks, gpur_device *device, gpur_stream *stream);
void gpur_chunks_close(gpur_chunks *chunks); /* tolerates half-built; waits for what was enqueued */

/* Enqueues the copies between a half and bytes [begin, end) of the data, as far as the sections have them. */
gpur_status gpur_chunks_copy(gpur_chunks *chunks, int half, const gpur_sections *sections, int64_t begin, int64_t end,
                             int to_sections);

/* A kind ("replay") as its notes have it. */
gpur_status gpur_checkpoint_note_kind(gpur_tensors *tensors, const char *kind);

/*
 * Writes the sections, with the notes of `tensors`, which has no entries. What is on the device is read on `stream`,
 * behind what is enqueued there. Sorts the sections.
 */
gpur_status gpur_checkpoint_write(gpur_device *device, gpur_stream *stream, gpur_sections *sections,
                                  gpur_tensors *tensors, const char *path, const gpur_checkpoint_options *options);

typedef struct gpur_checkpoint {
    gpur_old_file file;
    gpur_tensors tensors;
    int64_t data_at;     /* bytes of the file before the data */
    int64_t data_bytes;
    int64_t covered_at;  /* bytes of the data before what the chunks cover */
    int64_t chunks;
    uint64_t *checksums; /* (chunks + 2) */
    uint64_t head;       /* checksum of the head, as it was read */
    gpur_tensor_entry reals; /* whose numbers must be finite and 0 or more; no bytes: none */
    int verified;        /* the first pass is over */
} gpur_checkpoint;

/* Opens a file and reads its header, which may be somebody else's. A failure leaves nothing open. */
gpur_status gpur_checkpoint_open(gpur_checkpoint *checkpoint, const char *path);
void gpur_checkpoint_close(gpur_checkpoint *checkpoint);

/* 1 when any of the notes that we write is there: one that is damaged does not make it somebody else's. */
int gpur_checkpoint_is_ours(const gpur_checkpoint *checkpoint);

/* Refuses a file of another kind. */
gpur_status gpur_checkpoint_check_kind(const gpur_checkpoint *checkpoint, const char *kind);

/* Puts the file's name before what was found to be wrong with it. */
gpur_status gpur_checkpoint_blame(const gpur_checkpoint *checkpoint, gpur_status status);

/* Refuses a file of another kind, one whose header or checksums are not what was written, other settings, and scalars
 * that are not there; fills in the scalars. Comes before all that follows here. */
gpur_status gpur_checkpoint_compare(gpur_checkpoint *checkpoint, const char *kind, const gpur_tensors *settings,
                                    const gpur_scalar *scalars, int32_t count);

/* From here on each chunk that is read is refused when a number of this tensor, if it is there and float32, is below 0,
 * NaN or infinite. */
gpur_status gpur_checkpoint_expect_reals(gpur_checkpoint *checkpoint, const char *name);

/* Reads a chunk, bytes [begin, end) of the data, compares its checksum, and looks at what must be real numbers. */
gpur_status gpur_checkpoint_read_chunk(const gpur_checkpoint *checkpoint, int64_t chunk, unsigned char *to,
                                       int64_t *begin, int64_t *end);

/* The first pass, for those who would lose something by a second that fails: every chunk, by a few threads where there
 * are processors for them. */
gpur_status gpur_checkpoint_verify(gpur_checkpoint *checkpoint, gpur_device *device,
                                   const gpur_checkpoint_options *options);

/* Gives the sections their places in the file; refuses a file that lacks one, has it otherwise, or has more than these
 * and `extra`. */
gpur_status gpur_checkpoint_match(const gpur_checkpoint *checkpoint, gpur_sections *sections, const char *what,
                                  int32_t extra);

/* Reads what has a place on the host, without looking at checksums: a look ahead, which the next call repeats. */
gpur_status gpur_checkpoint_peek(const gpur_checkpoint *checkpoint, const gpur_sections *sections);

/* The second pass, or the only one: fills the sections, on `stream` what lies on the device, and waits. Compares each
 * chunk's checksum before it copies any of it; the chunks before have been copied then: `touched` is 1 once something
 * was, also when this fails. The progress function may end an only pass. */
gpur_status gpur_checkpoint_fill(gpur_checkpoint *checkpoint, gpur_device *device, gpur_stream *stream,
                                 const gpur_sections *sections, const gpur_checkpoint_options *options, int *touched);

#endif
