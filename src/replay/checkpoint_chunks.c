/* SPDX-License-Identifier: MIT */
/* What saving and loading share: options, notes of the kind, and the way between sections and chunks. */
#include "replay/checkpoint.h"

#include "base/sized.h"

#include <string.h>

gpur_status gpur_checkpoint_options_init(gpur_checkpoint_options *options, uint64_t size)
{
    const gpur_checkpoint_options defaults = {.size = sizeof defaults};
    GPUR_REQUIRE(options, "gpur_checkpoint_options is NULL");
    memcpy(options, &size, sizeof size);
    return gpur_sized_write(options, &defaults, sizeof defaults, "gpur_checkpoint_options");
}

gpur_status gpur_checkpoint_check_call(const void *object, const char *kind, const char *path,
                                       const gpur_checkpoint_options *given, gpur_checkpoint_options *options)
{
    GPUR_REQUIRE(object && path, "%s is NULL", object ? "path" : kind);
    *options = (gpur_checkpoint_options){.size = sizeof *options};
    if (given)
        GPUR_TRY(gpur_sized_read(options, sizeof *options, given, "gpur_checkpoint_options"));
    return gpur_tensors_available();
}

gpur_status gpur_checkpoint_tell(const gpur_checkpoint_options *options, int64_t done, int64_t all)
{
    if (!options->progress || options->progress(options->progress_user, done, all) == 0)
        return GPUR_OK;
    return gpur_fail(GPUR_INTERRUPTED, "the progress function ended it");
}

gpur_status gpur_checkpoint_note_kind(gpur_tensors *tensors, const char *kind)
{
    GPUR_TRY(gpur_tensors_note(tensors, "gpureplay", "%s", gpur_version()));
    return gpur_tensors_note(tensors, "gpureplay.kind", "%s", kind);
}

gpur_status gpur_chunks_open(gpur_chunks *chunks, gpur_device *device, gpur_stream *stream)
{
    void *pinned = NULL;
    *chunks = (gpur_chunks){.device = device, .stream = stream};
    GPUR_TRY(gpur_pinned_alloc(device, 2 * GPUR_CHUNK, "the buffer between memory and a file", &pinned));
    chunks->pinned = pinned;
    GPUR_TRY(gpur_event_create(device, &chunks->copied[0]));
    return gpur_event_create(device, &chunks->copied[1]);
}

void gpur_chunks_close(gpur_chunks *chunks)
{
    if (chunks->stream)
        (void)gpur_stream_sync(chunks->stream);
    gpur_event_destroy(chunks->copied[0]);
    gpur_event_destroy(chunks->copied[1]);
    gpur_pinned_free(chunks->device, chunks->pinned);
}

/* Between `at`, which is byte `begin` of the data, and a piece, which is bytes [first, first + bytes). */
static gpur_status copy_piece(gpur_chunks *chunks, unsigned char *at, int64_t begin, int64_t end,
                              const gpur_piece *piece, int64_t first, int to_sections)
{
    const int64_t low = begin > first ? begin : first;
    const int64_t high = end < first + piece->bytes ? end : first + piece->bytes;
    if (low >= high)
        return GPUR_OK;
    unsigned char *const ours = at + (low - begin), *const theirs = (unsigned char *)piece->memory + (low - first);
    void *const to = to_sections ? theirs : ours;
    const void *const from = to_sections ? ours : theirs;
    if (piece->on_device) /* a ring is not read again soon, a buffer is */
        return (to_sections ? gpur_copy_past : gpur_copy)(chunks->stream, to, from, high - low);
    memcpy(to, from, (size_t)(high - low));
    return GPUR_OK;
}

gpur_status gpur_chunks_copy(gpur_chunks *chunks, int half, const gpur_sections *sections, int64_t begin, int64_t end,
                             int to_sections)
{
    unsigned char *const at = chunks->pinned + half * GPUR_CHUNK;
    for (int32_t i = 0; i < sections->count; i++) {
        const gpur_section *const section = &sections->list[i];
        int64_t first = section->entry.begin;
        if (section->entry.begin >= end || section->entry.end <= begin)
            continue;
        for (int p = 0; p < GPUR_MAX_PIECES; p++) {
            GPUR_TRY(copy_piece(chunks, at, begin, end, &section->pieces[p], first, to_sections));
            first += section->pieces[p].bytes;
        }
    }
    return gpur_event_record(chunks->copied[half], chunks->stream);
}
