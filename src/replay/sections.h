/* SPDX-License-Identifier: MIT */
/*
 * What a checkpoint is made of: sections, which are arrays that lie in host or device memory now and will be tensors in
 * a file; scalars, which are notes; and settings, notes that have to be the same in the file and in the object that it
 * is read into. Who has something to keep adds an entry to one of these lists; the same list serves saving and loading.
 */
#ifndef GPUR_REPLAY_SECTIONS_H
#define GPUR_REPLAY_SECTIONS_H

#include "base/tensors.h"

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

#endif
