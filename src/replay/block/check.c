/* SPDX-License-Identifier: MIT */
/* Checks blocks, whose bytes may come from anywhere. */
#include "replay/block/block.h"

#include "base/sized.h"
#include "file/compression.h"
#include "file/safetensors.h"
#include "replay/finite.h"
#include "replay/row_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Refuses a block that is damaged. */
#define REQUIRE_INTACT(condition, ...)                                                                                 \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return gpur_fail(GPUR_FILE_ERROR, __VA_ARGS__);                                                            \
    } while (0)

static gpur_status check_kind(const gpur_block_header *h, int64_t bytes)
{
    REQUIRE_INTACT(memcmp(h->magic, GPUR_BLOCK_MAGIC, sizeof h->magic) == 0,
                   "the bytes are no block: they do not begin with \"" GPUR_BLOCK_MAGIC "\" and a 0");
    REQUIRE_INTACT(h->version == GPUR_BLOCK_VERSION, "the block is of version %" PRIu32 "; this library reads %d",
                   h->version, GPUR_BLOCK_VERSION);
    REQUIRE_INTACT(h->payload_bytes == bytes - GPUR_BLOCK_HEADER,
                   "the block has %" PRId64 " bytes after its header; the header says %" PRId64,
                   bytes - GPUR_BLOCK_HEADER, h->payload_bytes);
    return GPUR_OK;
}

/* The checksum is that of the block with 0 in the place of the checksum. */
static gpur_status check_checksum(const gpur_block_header *h, const unsigned char *block)
{
    gpur_block_header summed = *h;
    summed.checksum = 0;
    const uint64_t found =
        gpur_checksum_of_two(&summed, GPUR_BLOCK_HEADER, block + GPUR_BLOCK_HEADER, h->payload_bytes);
    REQUIRE_INTACT(found == h->checksum,
                   "the block is damaged: its checksum is %016" PRIx64 "; the header says %016" PRIx64, found,
                   h->checksum);
    return GPUR_OK;
}

static gpur_status check_counts(const gpur_block_spec *spec, const gpur_block_header *h)
{
    const int64_t counts[] = {h->actor, h->incarnation, h->sequence, h->first_step, h->weights_version};
    static const char *const names[] = {"actor", "incarnation", "sequence", "first step", "version of the weights"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        REQUIRE_INTACT(counts[i] >= 0, "the block's %s is %" PRId64 "; it must be 0 or more", names[i], counts[i]);
    REQUIRE_INTACT(h->rows >= 1 && h->rows <= GPUR_MAX_BLOCK_ROWS,
                   "the block says that it has %" PRId64 " rows; it must be 1 to %d", h->rows, GPUR_MAX_BLOCK_ROWS);
    const int64_t most = spec->frame_bytes > 0 ? GPUR_MAX_BLOCK_FRAMES : 0;
    REQUIRE_INTACT(h->frames >= 0 && h->frames <= most,
                   "the block says that it has %" PRId64 " frames; it must be 0 to %" PRId64, h->frames, most);
    REQUIRE_INTACT(h->compressed <= 1, "the block's compression is %" PRIu32 "; it must be 0 or 1", h->compressed);
    REQUIRE_INTACT(!h->reserved[0] && !h->reserved[1] && !h->reserved[2],
                   "the block's header ends with %" PRIx64 " %" PRIx64 " %" PRIx64 "; it must be 0",
                   (uint64_t)h->reserved[0], (uint64_t)h->reserved[1], (uint64_t)h->reserved[2]);
    return GPUR_OK;
}

static gpur_status check_sizes(const gpur_block_spec *spec, const gpur_block_header *h)
{
    const int64_t raw = gpur_block_raw_bytes(spec, h->rows, h->frames);
    REQUIRE_INTACT(h->raw_bytes == raw,
                   "the block says that it holds %" PRId64 " bytes; %" PRId64 " rows of %" PRId64 " and %" PRId64
                   " frames of %" PRId64 " are %" PRId64,
                   h->raw_bytes, h->rows, spec->row_bytes, h->frames, spec->frame_bytes, raw);
    REQUIRE_INTACT(h->compressed || h->payload_bytes == raw,
                   "the block is not compressed and has %" PRId64 " bytes after its header; it must be %" PRId64,
                   h->payload_bytes, raw);
    return GPUR_OK;
}

gpur_status gpur_block_read_header(const gpur_block_spec *spec, const void *block, int64_t bytes, gpur_block_header *h)
{
    GPUR_TRY(gpur_checksum_available());
    GPUR_REQUIRE(block, "block is NULL; it must be %" PRId64 " bytes", bytes);
    REQUIRE_INTACT(bytes >= GPUR_BLOCK_HEADER, "the block has %" PRId64 " bytes; its header alone has %d", bytes,
                   GPUR_BLOCK_HEADER);
    memcpy(h, block, sizeof *h);
    GPUR_TRY(check_kind(h, bytes));
    GPUR_TRY(check_checksum(h, block));
    GPUR_REQUIRE(h->format == spec->hash,
                 "the block's format is %016" PRIx64 "; it must be %016" PRIx64
                 ", of the same fields, layout, frame_stack, stack_axis, n_step, gamma and reward_clip",
                 h->format, spec->hash);
    GPUR_TRY(check_counts(spec, h));
    return check_sizes(spec, h);
}

/* The frames that the rows name must be numbered as block.h says. */
static gpur_status check_links(const gpur_block_spec *spec, const gpur_block_view *view)
{
    const int64_t frames = view->header.frames, most = spec->layout->frame_layout.frames_per_row;
    int64_t named = 0;
    for (int64_t row = 0; row < view->header.rows; row++) {
        const int64_t before = named;
        uint32_t links[GPUR_MAX_LINKS];
        gpur_block_read_links(spec, view->rows + row * spec->row_bytes, links);
        for (int32_t i = 0; i < gpur_block_links(spec); i++) {
            REQUIRE_INTACT(links[i] <= frames && links[i] <= named + 1,
                           "link %d of row %" PRId64 " is %" PRIu32 "; the block has %" PRId64
                           " frames, and the next one that is named must be %" PRId64,
                           (int)i, row, links[i], frames, named + 1);
            named += links[i] > named;
        }
        REQUIRE_INTACT(named - before <= most,
                       "row %" PRId64 " names %" PRId64 " frames that no row before it names; with this frame_stack "
                       "and n_step it must be at most %" PRId64,
                       row, named - before, most);
    }
    REQUIRE_INTACT(named == frames, "the block has %" PRId64 " frames, and its rows name %" PRId64, frames, named);
    return GPUR_OK;
}

/* Refuses bytes other than 0 and 1 in `count` values, `pitch` apart. */
static gpur_status check_flags(const unsigned char *values, int64_t count, int64_t pitch, const gpur_field_info *field,
                               int64_t bytes)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < bytes; j++)
            REQUIRE_INTACT(values[i * pitch + j] <= 1, "%s %" PRId64 " has %d in \"%s\"; it must be 0 or 1",
                           bytes == field->bytes ? "row" : "frame", i, (int)values[i * pitch + j], field->name);
    return GPUR_OK;
}

static gpur_status check_all_flags(const gpur_block_spec *spec, const gpur_block_view *view)
{
    const gpur_schema *const schema = spec->schema;
    for (int32_t f = 0; f < schema->count; f++) {
        const int32_t stored = spec->layout->stored[f];
        const gpur_field_info *const field = &schema->fields[f];
        if (!schema->is_flag[f])
            continue;
        if (stored >= 0)
            GPUR_TRY(check_flags(view->rows + spec->layout->rows.fields[stored].offset, view->header.rows,
                                 spec->row_bytes, field, field->bytes));
        else
            GPUR_TRY(check_flags(view->frames, view->header.frames, spec->frame_bytes, field, spec->frame_bytes));
    }
    return GPUR_OK;
}

gpur_status gpur_block_check_finite_frames(const gpur_block_spec *spec, const void *frames, int64_t count,
                                           gpur_status refusal)
{
    const int32_t obs = spec->frame_bytes > 0 ? gpur_schema_find(spec->schema, "obs") : -1;
    if (obs < 0 || !spec->check_finite || !spec->schema->is_real[obs])
        return GPUR_OK;
    const gpur_field_values values = {.at = frames,
                                      .count = count,
                                      .pitch = spec->frame_bytes,
                                      .bytes = spec->frame_bytes,
                                      .dtype = spec->schema->fields[obs].dtype,
                                      .name = "obs",
                                      .item = "frame"};
    return gpur_check_finite(&values, refusal);
}

static gpur_status check_finite(const gpur_block_spec *spec, const gpur_block_view *view)
{
    const gpur_block_header *const h = &view->header;
    GPUR_TRY(gpur_block_check_finite_frames(spec, view->frames, h->frames, GPUR_FILE_ERROR));
    if (!spec->check_finite)
        return GPUR_OK;
    return gpur_check_rows_finite(&spec->layout->rows, view->rows, h->rows, spec->row_bytes, GPUR_FILE_ERROR);
}

static gpur_status decompress(const unsigned char *payload, gpur_block_view *view)
{
    const gpur_block_header *const h = &view->header;
    GPUR_TRY(gpur_compressed_check(payload, h->payload_bytes, h->raw_bytes));
    view->memory = malloc((size_t)h->raw_bytes);
    if (!view->memory)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a block without its compression, %" PRId64 " bytes",
                         h->raw_bytes);
    view->rows = view->memory;
    return gpur_decompress(payload, h->payload_bytes, view->memory, h->raw_bytes);
}

gpur_status gpur_block_open(const gpur_block_spec *spec, const void *block, const gpur_block_header *header,
                            gpur_block_view *view)
{
    const unsigned char *const payload = (const unsigned char *)block + GPUR_BLOCK_HEADER;
    const gpur_block_view opened = {.header = *header, .rows = payload};
    *view = opened;
    if (header->compressed)
        GPUR_TRY(decompress(payload, view));
    view->frames = view->rows + header->rows * spec->row_bytes;
    if (gpur_block_links(spec) > 0)
        GPUR_TRY(check_links(spec, view));
    GPUR_TRY(check_all_flags(spec, view));
    GPUR_TRY(check_finite(spec, view));
    const gpur_row_values values =
        gpur_row_values_of_rows(spec->schema, spec->prioritized, view->rows, spec->row_bytes,
                                spec->layout->rows.fields, spec->layout->stored);
    return gpur_row_values_check(&values, header->rows, 1);
}

void gpur_block_close(gpur_block_view *view)
{
    free(view->memory);
}

gpur_status gpur_block_tell(const gpur_block_header *h, gpur_block_info *info)
{
    const gpur_block_info found = {
        .size = sizeof found,
        .format = h->format,
        .actor = h->actor,
        .incarnation = h->incarnation,
        .sequence = h->sequence,
        .first_step = h->first_step,
        .version = h->weights_version,
        .rows = h->rows,
        .frames = h->frames,
        .bytes = GPUR_BLOCK_HEADER + h->payload_bytes,
        .raw_bytes = h->raw_bytes,
    };
    return info ? gpur_sized_write(info, &found, sizeof found, "gpur_block_info") : GPUR_OK;
}

gpur_status gpur_block_check(const gpur_block_format *format, const void *block, int64_t bytes, gpur_block_info *info)
{
    gpur_block_header header;
    gpur_block_view view;
    GPUR_REQUIRE(format, "format is NULL");
    if (info)
        GPUR_TRY(gpur_sized_check(info, "gpur_block_info"));
    GPUR_TRY(gpur_block_read_header(&format->spec, block, bytes, &header));
    const gpur_status status = gpur_block_open(&format->spec, block, &header, &view);
    gpur_block_close(&view);
    return status == GPUR_OK ? gpur_block_tell(&header, info) : status;
}
