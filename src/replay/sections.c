/* SPDX-License-Identifier: MIT */
#include "replay/sections.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpur_sections_free(gpur_sections *sections)
{
    free(sections->list);
    *sections = (gpur_sections){0};
}

gpur_status gpur_sections_add_entry(gpur_sections *sections, const gpur_tensor_entry *entry, gpur_section **added)
{
    if (sections->count == sections->room) {
        const int32_t room = sections->room ? 2 * sections->room : 16;
        gpur_section *const grown = realloc(sections->list, (size_t)room * sizeof *grown);
        if (!grown)
            return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a list of %d parts of a file", (int)room);
        sections->list = grown;
        sections->room = room;
    }
    *added = &sections->list[sections->count++];
    **added = (gpur_section){.entry = *entry};
    return GPUR_OK;
}

gpur_status gpur_sections_add(gpur_sections *sections, const char *name, int32_t type, int64_t rows, int64_t columns,
                              gpur_piece piece)
{
    gpur_section *added = NULL;
    gpur_tensor_entry entry = {.type = type, .dims = columns ? 2 : 1, .shape = {rows, columns}};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    GPUR_TRY(gpur_sections_add_entry(sections, &entry, &added));
    added->pieces[0] = piece;
    return GPUR_OK;
}

void gpur_sections_continue(gpur_sections *sections, gpur_piece piece)
{
    sections->list[sections->count - 1].pieces[1] = piece;
}

static const size_t sizes[] = {sizeof(int64_t), sizeof(uint64_t), sizeof(int32_t), sizeof(float), sizeof(double)};

static uint64_t bits_of(const gpur_scalar *scalar)
{
    uint64_t bits = 0;
    memcpy(&bits, scalar->value, sizes[scalar->type]); /* little-endian, as the files are */
    return bits;
}

static gpur_status write_one(gpur_tensors *tensors, const gpur_scalar *scalar)
{
    const uint64_t bits = bits_of(scalar);
    if (scalar->type == GPUR_SCALAR_I64)
        return gpur_tensors_note(tensors, scalar->name, "%" PRId64, (int64_t)bits);
    if (scalar->type == GPUR_SCALAR_I32)
        return gpur_tensors_note(tensors, scalar->name, "%" PRId32, (int32_t)bits);
    return gpur_tensors_note(tensors, scalar->name, scalar->type == GPUR_SCALAR_U64 ? "%" PRIu64 : "0x%" PRIx64, bits);
}

gpur_status gpur_scalars_write(gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count)
{
    gpur_status status = GPUR_OK;
    for (int32_t i = 0; i < count && status == GPUR_OK; i++)
        status = write_one(tensors, &scalars[i]);
    return status;
}

/* Signed numbers, unsigned ones, and the bits of a float are whole numbers all. */
static gpur_status parse(const gpur_scalar *scalar, const char *text, uint64_t *bits)
{
    const int is_signed = scalar->type == GPUR_SCALAR_I64 || scalar->type == GPUR_SCALAR_I32;
    const int is_float = scalar->type == GPUR_SCALAR_F32 || scalar->type == GPUR_SCALAR_F64;
    const char *const digits = text ? text : "";
    char *end = NULL;
    errno = 0;
    *bits = is_signed ? (uint64_t)strtoll(digits, &end, 10) : strtoull(digits, &end, is_float ? 16 : 10);
    const int64_t value = (int64_t)*bits;
    const int fits = scalar->type == GPUR_SCALAR_I32   ? value >= INT32_MIN && value <= INT32_MAX
                     : scalar->type == GPUR_SCALAR_F32 ? *bits <= UINT32_MAX
                                                       : 1;
    if (errno || !fits || !*digits || *end || (!is_signed && *digits == '-'))
        return gpur_fail(GPUR_FILE_ERROR, "its note \"%s\" is \"%s\"; it must be a number", scalar->name, digits);
    return GPUR_OK;
}

gpur_status gpur_scalars_read(const gpur_tensors *tensors, const gpur_scalar *scalars, int32_t count)
{
    uint64_t bits[GPUR_MAX_SCALARS];
    assert(count <= GPUR_MAX_SCALARS);
    for (int32_t i = 0; i < count; i++)
        GPUR_TRY(parse(&scalars[i], gpur_tensors_find_note(tensors, scalars[i].name), &bits[i]));
    for (int32_t i = 0; i < count; i++)
        memcpy(scalars[i].value, &bits[i], sizes[scalars[i].type]);
    return GPUR_OK;
}

gpur_status gpur_settings_note_real(gpur_tensors *settings, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    for (char *c = text; *c; c++)
        if (!strchr("+-0123456789aefin", *c))
            *c = '.';
    return gpur_tensors_note(settings, key, "%s", text);
}

gpur_status gpur_settings_compare(const gpur_tensors *file, const gpur_tensors *wanted, const char *what)
{
    for (int32_t i = 0; i < wanted->note_count; i++) {
        const gpur_note *const note = &wanted->notes[i];
        const char *const theirs = gpur_tensors_find_note(file, note->key);
        GPUR_REQUIRE(theirs && strcmp(theirs, note->value) == 0, "%s is \"%s\" in the file; %s has \"%s\"", note->key,
                     theirs ? theirs : "", what, note->value);
    }
    return GPUR_OK;
}
