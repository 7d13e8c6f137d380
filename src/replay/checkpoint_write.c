/* SPDX-License-Identifier: MIT */
/* Sections to a file, a chunk after the other: while one is written, the next comes from the device. */
#include "replay/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
    gpur_new_file file;
    gpur_chunks chunks;
    const gpur_sections *sections;
    const gpur_checkpoint_options *options;
    unsigned char *head;
    uint64_t *checksums;  /* (count + 2) */
    int64_t head_bytes, count;
    int64_t covered_at;   /* bytes of the data that the checksums take */
    int64_t data_bytes;
} writing;

static int width_of(const gpur_section *section)
{
    return gpur_tensor_types[section->entry.type].bytes;
}

/* Wide types first; an insertion sort, which keeps the order of equals. */
static void sort_by_width(gpur_sections *sections)
{
    for (int32_t i = 1; i < sections->count; i++) {
        const gpur_section moved = sections->list[i];
        int32_t place = i;
        for (; place > 0 && width_of(&sections->list[place - 1]) < width_of(&moved); place--)
            sections->list[place] = sections->list[place - 1];
        sections->list[place] = moved;
    }
}

/* Places of all tensors, and the head that tells them. */
static gpur_status lay_out(writing *w, gpur_sections *sections, gpur_tensors *tensors)
{
    int64_t covered = 0;
    for (int32_t i = 0; i < sections->count; i++)
        covered += gpur_tensor_bytes(&sections->list[i].entry);
    w->count = (covered + GPUR_CHUNK - 1) / GPUR_CHUNK;
    w->covered_at = (w->count + 2) * (int64_t)sizeof *w->checksums;
    w->data_bytes = w->covered_at + covered;
    const gpur_tensor_entry checksums = {"checksums", GPUR_I64, 1, {w->count + 2}, 0, w->covered_at};
    GPUR_TRY(gpur_tensors_add(tensors, &checksums));
    int64_t at = w->covered_at;
    for (int32_t i = 0; i < sections->count; i++) {
        gpur_tensor_entry *const entry = &sections->list[i].entry;
        entry->begin = at;
        entry->end = at += gpur_tensor_bytes(entry);
        GPUR_TRY(gpur_tensors_add(tensors, entry));
    }
    GPUR_TRY(gpur_tensors_print(tensors, &w->head, &w->head_bytes));
    w->checksums = calloc((size_t)w->count + 2, sizeof *w->checksums);
    return w->checksums ? GPUR_OK : gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for %" PRId64 " checksums", w->count);
}

static int64_t end_of(const writing *w, int64_t chunk)
{
    const int64_t end = w->covered_at + (chunk + 1) * GPUR_CHUNK;
    return end < w->data_bytes ? end : w->data_bytes;
}

/* Enqueues the way of a chunk into its half, which was written to the file before. */
static gpur_status bring(writing *w, int64_t chunk)
{
    if (chunk >= w->count)
        return GPUR_OK;
    return gpur_chunks_copy(&w->chunks, (int)(chunk % 2), w->sections, w->covered_at + chunk * GPUR_CHUNK,
                            end_of(w, chunk), 0);
}

static gpur_status put(writing *w, int64_t chunk)
{
    const int64_t begin = w->covered_at + chunk * GPUR_CHUNK, end = end_of(w, chunk);
    const unsigned char *const at = w->chunks.pinned + chunk % 2 * GPUR_CHUNK;
    GPUR_TRY(gpur_event_sync(w->chunks.copied[chunk % 2]));
    w->checksums[chunk] = gpur_checksum(at, end - begin);
    GPUR_TRY(gpur_new_file_write(&w->file, at, end - begin, w->head_bytes + begin));
    return gpur_checkpoint_tell(w->options, w->head_bytes + end, w->head_bytes + w->data_bytes);
}

static gpur_status write_all(writing *w)
{
    GPUR_TRY(bring(w, 0));
    for (int64_t chunk = 0; chunk < w->count; chunk++) {
        GPUR_TRY(bring(w, chunk + 1));
        GPUR_TRY(put(w, chunk));
    }
    w->checksums[w->count] = gpur_checksum(w->head, w->head_bytes);
    w->checksums[w->count + 1] = gpur_checksum(w->checksums, (w->count + 1) * (int64_t)sizeof *w->checksums);
    GPUR_TRY(gpur_new_file_write(&w->file, w->head, w->head_bytes, 0));
    GPUR_TRY(gpur_new_file_write(&w->file, w->checksums, w->covered_at, w->head_bytes));
    return gpur_new_file_commit(&w->file);
}

static gpur_status open_and_write(writing *w, gpur_device *device, gpur_stream *stream, gpur_sections *sections,
                                  gpur_tensors *tensors, const char *path)
{
    GPUR_TRY(lay_out(w, sections, tensors));
    GPUR_TRY(gpur_chunks_open(&w->chunks, device, stream));
    GPUR_TRY(gpur_new_file_open(&w->file, path, w->head_bytes + w->data_bytes));
    return write_all(w);
}

gpur_status gpur_checkpoint_write(gpur_device *device, gpur_stream *stream, gpur_sections *sections,
                                  gpur_tensors *tensors, const char *path, const gpur_checkpoint_options *options)
{
    writing w = {.file = {.descriptor = -1, .folder = -1}, .sections = sections, .options = options};
    sort_by_width(sections);
    const gpur_status status = open_and_write(&w, device, stream, sections, tensors, path);
    gpur_new_file_abandon(&w.file);
    gpur_chunks_close(&w.chunks);
    free(w.head);
    free(w.checksums);
    return status;
}
