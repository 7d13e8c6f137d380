/* SPDX-License-Identifier: MIT */
/* Files to sections, a chunk after the other: while one goes to the device, the next is read. */
#include "replay/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Chunks begin at multiples of 4 bytes, and so must the tensor, or one of its numbers would lie in two chunks. */
gpur_status gpur_checkpoint_expect_reals(gpur_checkpoint *checkpoint, const char *name)
{
    const gpur_tensor_entry *const entry = gpur_tensors_find(&checkpoint->tensors, name);
    if (!entry || entry->type != GPUR_F32)
        return GPUR_OK;
    if (entry->begin < checkpoint->covered_at || (entry->begin - checkpoint->covered_at) % (int64_t)sizeof(float) != 0)
        return gpur_checkpoint_blame(checkpoint, gpur_fail(GPUR_FILE_ERROR,
                                                           "its %s begin at byte %" PRId64 " of its data; they must "
                                                           "follow the checksums, at a multiple of 4 bytes",
                                                           name, entry->begin));
    checkpoint->reals = *entry;
    return GPUR_OK;
}

/* `chunk` has bytes [begin, end) of the data. */
static gpur_status check_reals(const gpur_tensor_entry *reals, const unsigned char *chunk, int64_t begin, int64_t end)
{
    const int64_t first = begin > reals->begin ? begin : reals->begin, last = end < reals->end ? end : reals->end;
    for (int64_t at = first; at < last; at += (int64_t)sizeof(float)) {
        float value;
        memcpy(&value, chunk + (at - begin), sizeof value);
        if (!(value >= 0.0f && value < INFINITY))
            return gpur_fail(GPUR_FILE_ERROR, "number %" PRId64 " of its %s is %g; it must be finite, and 0 or more",
                             (at - reals->begin) / (int64_t)sizeof value, reals->name, (double)value);
    }
    return GPUR_OK;
}

gpur_status gpur_checkpoint_read_chunk(const gpur_checkpoint *checkpoint, int64_t chunk, unsigned char *to,
                                       int64_t *begin, int64_t *end)
{
    *begin = checkpoint->covered_at + chunk * GPUR_CHUNK;
    *end = *begin + GPUR_CHUNK < checkpoint->data_bytes ? *begin + GPUR_CHUNK : checkpoint->data_bytes;
    GPUR_TRY(gpur_old_file_read(&checkpoint->file, to, *end - *begin, checkpoint->data_at + *begin));
    if (gpur_checksum(to, *end - *begin) == checkpoint->checksums[chunk])
        return check_reals(&checkpoint->reals, to, *begin, *end);
    return gpur_fail(GPUR_FILE_ERROR, "its bytes %" PRId64 " to %" PRId64 " are not what was written",
                     checkpoint->data_at + *begin, checkpoint->data_at + *end - 1);
}

static gpur_status peek_section(const gpur_checkpoint *checkpoint, const gpur_section *section)
{
    int64_t at = checkpoint->data_at + section->entry.begin;
    for (int p = 0; p < GPUR_MAX_PIECES; p++) {
        const gpur_piece *const piece = &section->pieces[p];
        if (!piece->on_device)
            GPUR_TRY(gpur_old_file_read(&checkpoint->file, piece->memory, piece->bytes, at));
        at += piece->bytes;
    }
    return GPUR_OK;
}

gpur_status gpur_checkpoint_peek(const gpur_checkpoint *checkpoint, const gpur_sections *sections)
{
    gpur_status status = GPUR_OK;
    for (int32_t i = 0; i < sections->count && status == GPUR_OK; i++)
        status = peek_section(checkpoint, &sections->list[i]);
    return gpur_checkpoint_blame(checkpoint, status);
}

/* Once memory changes that the first pass has found a file for, it is too late to be interrupted. */
static gpur_status tell(const gpur_checkpoint *checkpoint, const gpur_checkpoint_options *options, int64_t end)
{
    const int64_t done = checkpoint->data_at + end, bytes = checkpoint->file.bytes;
    if (!checkpoint->verified)
        return gpur_checkpoint_tell(options, done, bytes);
    (void)gpur_checkpoint_tell(options, bytes + done, 2 * bytes);
    return GPUR_OK;
}

static gpur_status fill(const gpur_checkpoint *checkpoint, gpur_chunks *chunks, const gpur_sections *sections,
                        const gpur_checkpoint_options *options, int *touched)
{
    int64_t begin = 0, end = 0;
    for (int64_t chunk = 0; chunk < checkpoint->chunks; chunk++) {
        const int half = (int)(chunk % 2);
        GPUR_TRY(gpur_event_sync(chunks->copied[half]));
        GPUR_TRY(gpur_checkpoint_read_chunk(checkpoint, chunk, chunks->pinned + half * GPUR_CHUNK, &begin, &end));
        *touched = 1;
        GPUR_TRY(gpur_chunks_copy(chunks, half, sections, begin, end, 1));
        GPUR_TRY(tell(checkpoint, options, end));
    }
    return gpur_stream_sync(chunks->stream);
}

gpur_status gpur_checkpoint_fill(gpur_checkpoint *checkpoint, gpur_device *device, gpur_stream *stream,
                                 const gpur_sections *sections, const gpur_checkpoint_options *options, int *touched)
{
    gpur_chunks chunks;
    *touched = 0;
    gpur_status status = gpur_chunks_open(&chunks, device, stream);
    if (status == GPUR_OK)
        status = gpur_checkpoint_blame(checkpoint, fill(checkpoint, &chunks, sections, options, touched));
    gpur_chunks_close(&chunks);
    return status;
}
