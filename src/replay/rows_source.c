/* SPDX-License-Identifier: MIT */
#include "replay/rows_source.h"

#include "kernels/value_copy.h"

enum { TILE_ROWS = 64 };

static void move_packed(const gpur_schema *schema, const unsigned char *from, int64_t count, unsigned char *to)
{
    const gpur_column rows = {to, from, schema->pitch, schema->row_bytes, schema->row_bytes};
    if (schema->row_bytes == schema->pitch)
        memcpy(to, from, (size_t)(count * schema->pitch));
    else
        gpur_move_column(&rows, count);
}

/* Rows that are there already: their flags become 0 and 1. */
static void settle_flags(const gpur_schema *schema, int64_t count, unsigned char *rows)
{
    for (int32_t f = 0; f < schema->count; f++) {
        unsigned char *const at = rows + schema->fields[f].offset;
        const gpur_column column = {at, at, schema->pitch, schema->pitch, schema->fields[f].bytes};
        if (schema->is_flag[f])
            gpur_move_flags(&column, count);
    }
}

/* Packed rows into rows `pitch` bytes apart. */
static void fill_packed(const void *data, const gpur_schema *schema, int64_t first, int64_t count, unsigned char *to)
{
    const unsigned char *const from = (const unsigned char *)data + first * schema->row_bytes;
    const int64_t most = schema->flags > 0 ? TILE_ROWS : count;
    for (int64_t done = 0, rows; done < count; done += rows) {
        rows = count - done < most ? count - done : most;
        move_packed(schema, from + done * schema->row_bytes, rows, to + done * schema->pitch);
        if (schema->flags > 0)
            settle_flags(schema, rows, to + done * schema->pitch);
    }
}

/* A tile of rows at a time: lines of small rows are still in the nearest cache when the next field comes to them. */
static void fill_fields(const void *data, const gpur_schema *schema, int64_t first, int64_t count, unsigned char *to)
{
    const void *const *const fields = data;
    for (int64_t done = 0; done < count; done += TILE_ROWS)
        for (int32_t f = 0; f < schema->count; f++) {
            const gpur_field_info *const field = &schema->fields[f];
            const gpur_column column = {to + done * schema->pitch + field->offset,
                                        (const unsigned char *)fields[f] + (first + done) * field->bytes, schema->pitch,
                                        field->bytes, field->bytes};
            const int64_t rows = count - done < TILE_ROWS ? count - done : TILE_ROWS;
            if (schema->is_flag[f])
                gpur_move_flags(&column, rows);
            else
                gpur_move_column(&column, rows);
        }
}

static gpur_status feed_packed(gpur_feed *feed, const void *data, int64_t first, int64_t count)
{
    return gpur_feed_packed(feed, (const unsigned char *)data + first * feed->schema->row_bytes, count);
}

static gpur_status feed_fields(gpur_feed *feed, const void *data, int64_t first, int64_t count)
{
    const gpur_schema *const schema = feed->schema;
    const void *const *const fields = data;
    const void *at[GPUR_MAX_FIELDS];
    for (int32_t f = 0; f < schema->count; f++)
        at[f] = (const unsigned char *)fields[f] + first * schema->fields[f].bytes;
    return gpur_feed_arrays(feed, at, count);
}

const gpur_rows_source gpur_source_packed = {fill_packed, feed_packed, 0};
const gpur_rows_source gpur_source_fields = {fill_fields, feed_fields, 1};
