/* SPDX-License-Identifier: MIT */
/* What a file says of itself, and whether it is what was written and what is wanted. */
#include "replay/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gpur_status gpur_checkpoint_blame(const gpur_checkpoint *checkpoint, gpur_status status)
{
    char why[384];
    if (status == GPUR_OK || status == GPUR_OUT_OF_MEMORY)
        return status;
    snprintf(why, sizeof why, "%s", gpur_last_error());
    return gpur_fail(status, "%s: %s", checkpoint->file.path, why);
}

static gpur_status read_length(gpur_checkpoint *checkpoint, int64_t *length)
{
    unsigned char bytes[GPUR_HEAD_LENGTH];
    uint64_t value = 0;
    const int64_t room = checkpoint->file.bytes - GPUR_HEAD_LENGTH;
    if (room < 2)
        return gpur_fail(GPUR_FILE_ERROR, "it has %" PRId64 " bytes; it must be a safetensors file, of 10 or more",
                         checkpoint->file.bytes);
    GPUR_TRY(gpur_old_file_read(&checkpoint->file, bytes, GPUR_HEAD_LENGTH, 0));
    for (int i = GPUR_HEAD_LENGTH - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    if (value < 2 || value > (uint64_t)room || value > GPUR_MAX_HEADER)
        return gpur_fail(GPUR_FILE_ERROR, "its header should have %" PRIu64 " bytes; it must be 2 to %" PRId64, value,
                         room < GPUR_MAX_HEADER ? room : (int64_t)GPUR_MAX_HEADER);
    *length = (int64_t)value;
    return GPUR_OK;
}

static gpur_status parse_head(gpur_checkpoint *checkpoint, unsigned char *head)
{
    const int64_t bytes = checkpoint->data_at;
    GPUR_TRY(gpur_old_file_read(&checkpoint->file, head, bytes, 0));
    checkpoint->head = gpur_checksum(head, bytes);
    GPUR_TRY(gpur_tensors_parse(&checkpoint->tensors, (const char *)head + GPUR_HEAD_LENGTH,
                                (size_t)(bytes - GPUR_HEAD_LENGTH)));
    return gpur_tensors_check(&checkpoint->tensors, checkpoint->data_bytes);
}

static gpur_status read_head(gpur_checkpoint *checkpoint)
{
    int64_t length = 0;
    GPUR_TRY(read_length(checkpoint, &length));
    checkpoint->data_at = GPUR_HEAD_LENGTH + length;
    checkpoint->data_bytes = checkpoint->file.bytes - checkpoint->data_at;
    unsigned char *const head = malloc((size_t)checkpoint->data_at);
    if (!head)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a header of %" PRId64 " bytes", length);
    const gpur_status status = parse_head(checkpoint, head);
    free(head);
    return status;
}

gpur_status gpur_checkpoint_open(gpur_checkpoint *checkpoint, const char *path)
{
    *checkpoint = (gpur_checkpoint){.file = {.descriptor = -1}};
    GPUR_TRY(gpur_old_file_open(&checkpoint->file, path));
    const gpur_status status = gpur_checkpoint_blame(checkpoint, read_head(checkpoint));
    if (status != GPUR_OK)
        gpur_checkpoint_close(checkpoint);
    return status;
}

void gpur_checkpoint_close(gpur_checkpoint *checkpoint)
{
    gpur_old_file_close(&checkpoint->file);
    gpur_tensors_free(&checkpoint->tensors);
    free(checkpoint->checksums);
    checkpoint->checksums = NULL;
}

int gpur_checkpoint_is_ours(const gpur_checkpoint *checkpoint)
{
    for (int32_t i = 0; i < checkpoint->tensors.note_count; i++)
        if (strncmp(checkpoint->tensors.notes[i].key, "gpureplay", sizeof "gpureplay" - 1) == 0)
            return 1;
    return 0;
}

gpur_status gpur_checkpoint_check_kind(const gpur_checkpoint *checkpoint, const char *kind)
{
    const char *const theirs = gpur_tensors_find_note(&checkpoint->tensors, "gpureplay.kind");
    const int ours = gpur_checkpoint_is_ours(checkpoint);
    if (ours && theirs && strcmp(theirs, kind) == 0)
        return GPUR_OK;
    return gpur_fail(GPUR_FILE_ERROR, "%s: it is a %s file%s; it must be a %s file", checkpoint->file.path,
                     ours && theirs ? theirs : "safetensors", ours ? "" : " of another program", kind);
}

/* They lie first, cover the rest, and are whole: the last of them is that of all before it. */
static gpur_status read_checksums(gpur_checkpoint *checkpoint)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&checkpoint->tensors, "checksums");
    if (!entry || entry->begin != 0 || entry->type != GPUR_I64 || entry->dims != 1 || entry->shape[0] < 2)
        return gpur_fail(GPUR_FILE_ERROR, "it has no checksums");
    checkpoint->covered_at = entry->end;
    checkpoint->chunks = entry->shape[0] - 2;
    const int64_t covered = checkpoint->data_bytes - checkpoint->covered_at;
    if (checkpoint->chunks != (covered + GPUR_CHUNK - 1) / GPUR_CHUNK)
        return gpur_fail(GPUR_FILE_ERROR, "it has checksums for %" PRId64 " MiB; its data are %" PRId64 " bytes",
                         checkpoint->chunks, covered);
    checkpoint->checksums = malloc((size_t)entry->end);
    if (!checkpoint->checksums)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " checksums", entry->shape[0]);
    GPUR_TRY(gpur_old_file_read(&checkpoint->file, checkpoint->checksums, entry->end, checkpoint->data_at));
    const uint64_t *const last = checkpoint->checksums + checkpoint->chunks;
    if (last[1] != gpur_checksum(checkpoint->checksums, (checkpoint->chunks + 1) * (int64_t)sizeof *last))
        return gpur_fail(GPUR_FILE_ERROR, "its checksums are not what was written");
    return last[0] == checkpoint->head ? GPUR_OK : gpur_fail(GPUR_FILE_ERROR, "its header is not what was written");
}

gpur_status gpur_checkpoint_compare(gpur_checkpoint *checkpoint, const char *kind, const gpur_tensors *settings,
                                    const gpur_scalar *scalars, int32_t count)
{
    char what[32];
    snprintf(what, sizeof what, "this %s", kind);
    GPUR_TRY(gpur_checkpoint_check_kind(checkpoint, kind));
    GPUR_TRY(gpur_checkpoint_blame(checkpoint, read_checksums(checkpoint)));
    GPUR_TRY(gpur_settings_compare(&checkpoint->tensors, settings, what));
    return gpur_checkpoint_blame(checkpoint, gpur_scalars_read(&checkpoint->tensors, scalars, count));
}

static int are_alike(const gpur_tensor_entry *a, const gpur_tensor_entry *b)
{
    return a->type == b->type && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

gpur_status gpur_checkpoint_match(const gpur_checkpoint *checkpoint, gpur_sections *sections, const char *what,
                                  int32_t extra)
{
    for (int32_t i = 0; i < sections->count; i++) {
        gpur_tensor_entry *const ours = &sections->list[i].entry;
        const gpur_tensor_entry *const theirs = gpur_tensors_find(&checkpoint->tensors, ours->name);
        GPUR_REQUIRE(theirs, "%s has no tensor \"%s\"; %s has", checkpoint->file.path, ours->name, what);
        GPUR_REQUIRE(are_alike(ours, theirs),
                     "tensor \"%s\" is %s of %" PRId64 " x %" PRId64 " in %s; in %s it is %s of %" PRId64 " x %" PRId64,
                     ours->name, gpur_tensor_types[theirs->type].name, theirs->shape[0],
                     theirs->dims > 1 ? theirs->shape[1] : 1, checkpoint->file.path, what,
                     gpur_tensor_types[ours->type].name, ours->shape[0], ours->dims > 1 ? ours->shape[1] : 1);
        *ours = *theirs;
    }
    GPUR_REQUIRE(checkpoint->tensors.count == sections->count + extra, "%s has %d tensors; %s has %d of them",
                 checkpoint->file.path, (int)checkpoint->tensors.count - extra, what, (int)sections->count);
    return GPUR_OK;
}
