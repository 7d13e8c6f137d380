/* SPDX-License-Identifier: MIT */
/* Makes blocks, from arrays of the caller or from the rows of a packer. */
#include "replay/block/block.h"

#include "base/sized.h"
#include "file/compression.h"
#include "file/safetensors.h"
#include "kernels/cpu/copy_value.h"
#include "kernels/lib/clip.h"
#include "replay/finite.h"
#include "replay/row_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Gets the links of a row of the draft. */
static void read_links(const gpur_block_spec *spec, const gpur_block_draft *draft, int64_t row, uint32_t *links)
{
    const int32_t count = gpur_block_links(spec);
    if (!draft->links) {
        gpur_block_read_links(spec, draft->rows + row * spec->row_bytes, links);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        links[i] = (uint32_t)draft->links[row * count + i] + 1;
}

/* Numbers the frames in the order in which links name them: numbers[f] becomes 1 + that of frame f, or stays 0. */
static gpur_status number_frames(const gpur_block_spec *spec, const gpur_block_draft *draft, uint32_t *numbers,
                                 int64_t *used)
{
    const int64_t frames = draft->header.frames, most = spec->layout->frame_layout.frames_per_row;
    uint32_t links[GPUR_MAX_LINKS];
    *used = 0;
    for (int64_t row = 0; row < draft->header.rows && gpur_block_links(spec) > 0; row++) {
        const int64_t before = *used;
        read_links(spec, draft, row, links);
        for (int32_t i = 0; i < gpur_block_links(spec); i++) {
            GPUR_REQUIRE(links[i] <= frames,
                         "links[%" PRId64 "][%d] is %" PRId64 "; it must be -1 to %" PRId64 ", as there are %" PRId64
                         " frames",
                         row, (int)i, (int64_t)(int32_t)(links[i] - 1), frames - 1, frames);
            if (links[i] > 0 && numbers[links[i] - 1] == 0)
                numbers[links[i] - 1] = (uint32_t)++ * used;
        }
        GPUR_REQUIRE(*used - before <= most,
                     "row %" PRId64 " names %" PRId64 " frames that no row before it names; with this frame_stack and "
                     "n_step it must be at most %" PRId64,
                     row, *used - before, most);
    }
    return GPUR_OK;
}

static void clip_rewards(const gpur_block_spec *spec, unsigned char *rows, int64_t count)
{
    const int32_t stored = spec->clipped_field < 0 ? -1 : spec->layout->stored[spec->clipped_field];
    for (int64_t i = 0; i < count && stored >= 0; i++) {
        unsigned char *const at = rows + i * spec->row_bytes + spec->layout->rows.fields[stored].offset;
        float reward;
        memcpy(&reward, at, sizeof reward);
        reward = gpur_clip(reward, spec->reward_clip);
        memcpy(at, &reward, sizeof reward);
    }
}

/* Of the caller's `previous` the sign alone. */
static void fill_places(const gpur_block_spec *spec, const gpur_block_draft *draft, int32_t field, unsigned char *rows)
{
    const int64_t offset = spec->layout->rows.fields[spec->layout->stored[field]].offset;
    for (int64_t i = 0; i < draft->header.rows && draft->fields[field]; i++) {
        int64_t previous;
        memcpy(&previous, (const int64_t *)draft->fields[field] + i, sizeof previous);
        previous = previous < 0 ? GPUR_BLOCK_FIRST : GPUR_BLOCK_LATER;
        memcpy(rows + i * spec->row_bytes + offset, &previous, sizeof previous);
    }
}

/* Copies the caller's arrays into rows. Gaps between fields are 0. */
static void fill_rows(const gpur_block_spec *spec, const gpur_block_draft *draft, unsigned char *rows)
{
    const gpur_schema *const schema = spec->schema;
    const int32_t previous = gpur_schema_has_previous(schema) ? gpur_schema_find(schema, "previous") : -1;
    memset(rows, 0, (size_t)(draft->header.rows * spec->row_bytes));
    for (int32_t f = 0; f < schema->count; f++) {
        const int32_t stored = spec->layout->stored[f];
        if (f == previous)
            fill_places(spec, draft, f, rows);
        if (stored < 0 || f == previous)
            continue;
        const int64_t bytes = schema->fields[f].bytes;
        const gpur_column column = {rows + spec->layout->rows.fields[stored].offset, draft->fields[f], spec->row_bytes,
                                    bytes, bytes};
        (schema->is_flag[f] ? gpur_copy_flags : gpur_copy_column)(&column, draft->header.rows);
    }
    clip_rewards(spec, rows, draft->header.rows);
}

static void fill_links(const gpur_block_spec *spec, const gpur_block_draft *draft, const uint32_t *numbers,
                       unsigned char *rows)
{
    const int32_t count = gpur_block_links(spec);
    uint32_t links[GPUR_MAX_LINKS];
    for (int64_t row = 0; row < draft->header.rows; row++) {
        read_links(spec, draft, row, links);
        for (int32_t i = 0; i < count; i++)
            links[i] = links[i] > 0 ? numbers[links[i] - 1] : 0;
        memcpy(rows + row * spec->row_bytes, links, (size_t)count * sizeof *links);
    }
}

static void fill_frames(const gpur_block_spec *spec, const gpur_block_draft *draft, const uint32_t *numbers,
                        unsigned char *frames)
{
    const int is_flag = spec->schema->is_flag[gpur_schema_find(spec->schema, "obs")];
    const int64_t bytes = spec->frame_bytes;
    for (int64_t f = 0; f < draft->header.frames; f++) {
        const gpur_column frame = {frames + (numbers[f] - 1) * bytes, draft->frames + f * bytes, bytes, bytes, bytes};
        if (numbers[f] > 0)
            (is_flag ? gpur_copy_flags : gpur_copy_column)(&frame, 1);
    }
}

/* Writes rows and frames. */
static void fill(const gpur_block_spec *spec, const gpur_block_draft *draft, const uint32_t *numbers,
                 unsigned char *raw)
{
    if (draft->fields)
        fill_rows(spec, draft, raw);
    else
        memcpy(raw, draft->rows, (size_t)(draft->header.rows * spec->row_bytes));
    if (gpur_block_links(spec) == 0)
        return;
    fill_links(spec, draft, numbers, raw);
    fill_frames(spec, draft, numbers, raw + draft->header.rows * spec->row_bytes);
}

static gpur_status write_compressed(const gpur_block_spec *spec, const gpur_block_draft *draft, const uint32_t *numbers,
                                    int64_t raw_bytes, unsigned char *payload, int64_t *bytes)
{
    unsigned char *const raw = malloc((size_t)raw_bytes);
    if (!raw)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a block before it is compressed, %" PRId64 " bytes",
                         raw_bytes);
    fill(spec, draft, numbers, raw);
    const gpur_status status =
        gpur_compress(raw, raw_bytes, draft->compression, payload, gpur_compression_bound(raw_bytes), bytes);
    free(raw);
    return status;
}

static gpur_status write_numbered(const gpur_block_spec *spec, const gpur_block_draft *draft, const uint32_t *numbers,
                                  int64_t used, unsigned char *block, int64_t *bytes)
{
    gpur_block_header header = draft->header;
    memcpy(header.magic, GPUR_BLOCK_MAGIC, sizeof header.magic);
    header.version = GPUR_BLOCK_VERSION;
    header.compressed = draft->compression > 0;
    header.format = spec->hash;
    header.frames = used;
    header.raw_bytes = header.payload_bytes = gpur_block_raw_bytes(spec, header.rows, used);
    if (header.compressed)
        GPUR_TRY(
            write_compressed(spec, draft, numbers, header.raw_bytes, block + GPUR_BLOCK_HEADER, &header.payload_bytes));
    else
        fill(spec, draft, numbers, block + GPUR_BLOCK_HEADER);
    header.checksum = gpur_checksum_of_two(&header, GPUR_BLOCK_HEADER, block + GPUR_BLOCK_HEADER, header.payload_bytes);
    memcpy(block, &header, GPUR_BLOCK_HEADER);
    *bytes = GPUR_BLOCK_HEADER + header.payload_bytes;
    return GPUR_OK;
}

gpur_status gpur_block_write(const gpur_block_spec *spec, const gpur_block_draft *draft, void *block, int64_t *bytes)
{
    const size_t frames = (size_t)draft->header.frames;
    int64_t used = 0;
    uint32_t *const numbers = calloc(frames + 1, sizeof *numbers);
    if (!numbers)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory to number %zu frames", frames);
    gpur_status status = number_frames(spec, draft, numbers, &used);
    if (status == GPUR_OK)
        status = write_numbered(spec, draft, numbers, used, block, bytes);
    free(numbers);
    return status;
}

gpur_status gpur_block_check_compression(int32_t level, const char *name)
{
    GPUR_REQUIRE(level >= 0 && level <= GPUR_MAX_COMPRESSION, "%s is %d; it must be 0 (none) to %d", name, (int)level,
                 GPUR_MAX_COMPRESSION);
    return level > 0 ? gpur_compression_available() : GPUR_OK;
}

static gpur_status check_numbers(const gpur_block_input *in)
{
    const int64_t values[] = {in->actor, in->incarnation, in->sequence, in->first_step, in->version};
    static const char *const names[] = {"actor", "incarnation", "sequence", "first_step", "version"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        GPUR_REQUIRE(values[i] >= 0, "gpur_block_input.%s is %" PRId64 "; it must be 0 or more", names[i], values[i]);
    GPUR_REQUIRE(in->rows >= 1 && in->rows <= GPUR_MAX_BLOCK_ROWS,
                 "gpur_block_input.rows is %" PRId64 "; it must be 1 to %d", in->rows, GPUR_MAX_BLOCK_ROWS);
    return gpur_block_check_compression(in->compression, "gpur_block_input.compression");
}

static gpur_status check_arrays(const gpur_block_spec *spec, const gpur_block_input *in)
{
    const gpur_schema *const schema = spec->schema;
    const int has_previous = gpur_schema_has_previous(schema);
    const int64_t most = spec->frame_bytes > 0 ? GPUR_MAX_BLOCK_FRAMES : 0;
    GPUR_REQUIRE(in->frames >= 0 && in->frames <= most,
                 "gpur_block_input.frames is %" PRId64 "; with the layout GPUR_LAYOUT_%s it must be %s%" PRId64,
                 in->frames, most > 0 ? "FRAMES" : "ROWS", most > 0 ? "0 to " : "", most);
    GPUR_REQUIRE(in->frame_data || in->frames == 0,
                 "gpur_block_input.frame_data is NULL; it must be %" PRId64 " frames", in->frames);
    GPUR_REQUIRE(in->links || most == 0, "gpur_block_input.links is NULL; it must be (%" PRId64 ", 2, %d) int32",
                 in->rows, (int)spec->layout->frame_layout.stack);
    GPUR_REQUIRE(in->fields, "gpur_block_input.fields is NULL; it must be %d pointers", (int)schema->count);
    for (int32_t f = 0; f < schema->count; f++)
        GPUR_REQUIRE(in->fields[f] || spec->layout->stored[f] < 0 ||
                         (has_previous && strcmp(schema->fields[f].name, "previous") == 0),
                     "gpur_block_input.fields[%d], \"%s\", is NULL", (int)f, schema->fields[f].name);
    return GPUR_OK;
}

static gpur_status check_finite(const gpur_block_spec *spec, const gpur_block_input *in)
{
    const gpur_schema *const schema = spec->schema;
    for (int32_t f = 0; f < schema->count && spec->check_finite; f++) {
        const gpur_field_info *const field = &schema->fields[f];
        const gpur_field_values values = {in->fields[f], in->rows,    field->bytes, field->bytes,
                                          field->dtype,  field->name, "row"};
        if (schema->is_real[f] && spec->layout->stored[f] >= 0)
            GPUR_TRY(gpur_check_finite(&values, GPUR_INVALID_ARGUMENT));
    }
    return gpur_block_check_finite_frames(spec, in->frame_data, in->frames, GPUR_INVALID_ARGUMENT);
}

gpur_status gpur_block_pack(const gpur_block_format *format, const gpur_block_input *input, void *block, int64_t room,
                            int64_t *bytes)
{
    gpur_block_input in = {.size = sizeof in};
    GPUR_REQUIRE(format && block && bytes, "%s is NULL", !format ? "format" : !block ? "block" : "bytes");
    GPUR_TRY(gpur_sized_read(&in, sizeof in, input, "gpur_block_input"));
    GPUR_TRY(check_numbers(&in));
    GPUR_TRY(check_arrays(&format->spec, &in));
    GPUR_TRY(check_finite(&format->spec, &in));
    const gpur_row_values values =
        gpur_row_values_of_fields(&format->schema, format->config.prioritized, in.fields);
    GPUR_TRY(gpur_row_values_check(&values, in.rows, 1));
    const int64_t needed = gpur_block_max_bytes(format, in.rows, in.frames);
    GPUR_REQUIRE(room >= needed,
                 "room is %" PRId64 " bytes; for %" PRId64 " rows and %" PRId64 " frames it must be %" PRId64
                 " or more, as gpur_block_max_bytes says",
                 room, in.rows, in.frames, needed);
    const gpur_block_draft draft = {
        .header = {.actor = in.actor,
                   .incarnation = in.incarnation,
                   .sequence = in.sequence,
                   .first_step = in.first_step,
                   .weights_version = in.version,
                   .rows = in.rows,
                   .frames = in.frames},
        .fields = in.fields,
        .links = in.links,
        .frames = in.frame_data,
        .compression = in.compression,
    };
    return gpur_block_write(&format->spec, &draft, block, bytes);
}
