/* SPDX-License-Identifier: MIT */
/* Appends finished rows, which callers give as packed rows or as one array per field. They go into a staging block.
 * Arrays in device memory go straight into the ring; so do others if the device executes work before a call returns. */
#include "kernels/cpu/copy_value.h"
#include "replay/writer/writer.h"
#include "kernels/lib/clip.h"
#include "kernels/lib/previous.h"
#include "replay/finite.h"
#include "replay/replay.h"
#include "replay/row_rules.h"
#include "replay/writer/n_step.h"

#include <inttypes.h>
#include <string.h>

typedef struct gpur_rows_source {
    /* Copies rows `first` to first + count - 1 to `to`, (count, pitch). */
    void (*fill)(const void *data, const gpur_schema *schema, int64_t first, int64_t count, unsigned char *to);
    /* Uploads the same rows, at most block_rows of them. */
    gpur_status (*upload)(gpur_replay *replay, const void *data, int64_t first, int64_t count);
    int upload_clips; /* 1: the upload clips rewards */
} gpur_rows_source;

enum { TILE_ROWS = 64 };

static void copy_packed(const gpur_schema *schema, const unsigned char *from, int64_t count, unsigned char *to)
{
    const gpur_column rows = {to, from, schema->pitch, schema->row_bytes, schema->row_bytes};
    if (schema->row_bytes == schema->pitch)
        memcpy(to, from, (size_t)(count * schema->pitch));
    else
        gpur_copy_column(&rows, count);
}

/* Normalizes the flags of rows that have been copied: bytes other than 0 become 1. */
static void normalize_flags(const gpur_schema *schema, int64_t count, unsigned char *rows)
{
    for (int32_t f = 0; f < schema->count; f++) {
        unsigned char *const at = rows + schema->fields[f].offset;
        const gpur_column column = {at, at, schema->pitch, schema->pitch, schema->fields[f].bytes};
        if (schema->is_flag[f])
            gpur_copy_flags(&column, count);
    }
}

/* Copies packed rows to rows `pitch` bytes apart. If there are flags, a tile of rows at a time: it is still in the
 * cache when its flags are normalized. */
static void fill_packed(const void *data, const gpur_schema *schema, int64_t first, int64_t count, unsigned char *to)
{
    const unsigned char *const from = (const unsigned char *)data + first * schema->row_bytes;
    const int64_t limit = schema->flags > 0 ? TILE_ROWS : count;
    for (int64_t done = 0, rows; done < count; done += rows) {
        rows = count - done < limit ? count - done : limit;
        copy_packed(schema, from + done * schema->row_bytes, rows, to + done * schema->pitch);
        if (schema->flags > 0)
            normalize_flags(schema, rows, to + done * schema->pitch);
    }
}

/* Copies a tile of rows at a time: the cache lines of small rows are still in the L1 cache when the next field is
 * copied. */
static void fill_fields(const void *data, const gpur_schema *schema, int64_t first, int64_t count, unsigned char *to)
{
    const void *const *const fields = data;
    for (int64_t done = 0; done < count; done += TILE_ROWS)
        for (int32_t f = 0; f < schema->count; f++) {
            const gpur_field_info *const field = &schema->fields[f];
            if (!fields[f]) /* `previous` or `priority` of linked rows */
                continue;
            const gpur_column column = {to + done * schema->pitch + field->offset,
                                        (const unsigned char *)fields[f] + (first + done) * field->bytes, schema->pitch,
                                        field->bytes, field->bytes};
            const int64_t rows = count - done < TILE_ROWS ? count - done : TILE_ROWS;
            if (schema->is_flag[f])
                gpur_copy_flags(&column, rows);
            else
                gpur_copy_column(&column, rows);
        }
}

static gpur_status upload_packed(gpur_replay *replay, const void *data, int64_t first, int64_t count)
{
    return gpur_ring_upload_packed(&replay->ring, (const unsigned char *)data + first * replay->schema.row_bytes,
                                   count);
}

static gpur_status upload_fields(gpur_replay *replay, const void *data, int64_t first, int64_t count)
{
    const gpur_schema *const schema = &replay->schema;
    const void *const *const fields = data;
    const void *at[GPUR_MAX_FIELDS];
    for (int32_t f = 0; f < schema->count; f++)
        at[f] = (const unsigned char *)fields[f] + first * schema->fields[f].bytes;
    return gpur_ring_upload_arrays(&replay->ring, at, count);
}

static const gpur_rows_source source_packed = {fill_packed, upload_packed, 0};
static const gpur_rows_source source_fields = {fill_fields, upload_fields, 1};

/* The public functions, and the choice between a staging block and the ring. */

enum { SMALL_BYTES = 4096 };  /* up to here, copying is faster than releasing the lock and taking it again */
enum { DIRECT_BYTES = 8192 }; /* from here on, copying rows twice takes longer than an upload of their own */

static void clip_rewards(const gpur_replay *replay, unsigned char *rows, int64_t count)
{
    const int32_t field = replay->ring.clipped_field;
    if (field < 0)
        return;
    unsigned char *const column = rows + replay->schema.fields[field].offset;
    for (int64_t i = 0; i < count; i++) {
        float reward;
        memcpy(&reward, column + i * replay->schema.pitch, sizeof reward);
        reward = gpur_clip(reward, replay->config.reward_clip);
        memcpy(column + i * replay->schema.pitch, &reward, sizeof reward);
    }
}

/* An append in progress. */
typedef struct append_job {
    gpur_writer *writer;
    const gpur_rows_source *source;
    const void *data;
    int64_t count, done;
    int hold_lock; /* 1: never release the lock, so that no other call comes in between */
} append_job;

static int has_flag(const unsigned char *row, int64_t offset)
{
    return offset >= 0 && row[offset] != 0;
}

void gpur_writer_link_rows(gpur_writer *writer, unsigned char *rows, int64_t count, int64_t first_id)
{
    const gpur_row_offsets *const at = &writer->offsets;
    for (int64_t i = 0; i < count && writer->config.link_appends; i++) {
        unsigned char *const row = rows + i * writer->replay->layout.rows.pitch;
        const int ends = has_flag(row, at->terminated) || has_flag(row, at->truncated);
        memcpy(row + at->previous, &writer->append_link, sizeof writer->append_link);
        gpur_writer_mark(writer, row, writer->appended, ends);
        writer->append_link = ends ? gpur_previous_across(first_id + i) : first_id + i;
        writer->appended = ends ? 0 : writer->appended + 1;
    }
}

/* Fills claimed rows. */
static void fill_rows(const append_job *in, int64_t count, unsigned char *rows, int64_t first_id)
{
    const gpur_replay *const replay = in->writer->replay;
    in->source->fill(in->data, &replay->schema, in->done, count, rows);
    clip_rewards(replay, rows, count);
    gpur_writer_link_rows(in->writer, rows, count, first_id);
}

/* Claims rows, fills them (many bytes: without the lock) and commits them. */
static gpur_status append_staged(gpur_replay *replay, append_job *in)
{
    gpur_claim claim;
    GPUR_TRY(gpur_ingest_claim(&replay->ingest, in->count - in->done, gpur_ingest_may_wait(&replay->ingest), &claim));
    const int holds_lock = in->hold_lock || claim.count * replay->schema.pitch <= SMALL_BYTES;
    if (!holds_lock)
        gpur_window_unlock(replay);
    fill_rows(in, claim.count, claim.rows, claim.first_id);
    if (!holds_lock)
        gpur_window_lock(replay);
    in->done += claim.count;
    return gpur_ingest_commit(&replay->ingest, &claim);
}

/* 1 if the next rows may bypass staging. The device must execute work before the call returns, nothing may be staged,
 * and the rows must be worth an upload of their own: they fill a block or, under GPUR_FLUSH_AUTO, take DIRECT_BYTES
 * or more. */
static int may_append_directly(const gpur_replay *replay, const append_job *in)
{
    const int64_t left = in->count - in->done;
    const int is_large = replay->config.flush == GPUR_FLUSH_AUTO && left > (DIRECT_BYTES - 1) / replay->schema.pitch;
    return (is_large || left >= replay->config.block_rows) && gpur_device_get_traits(replay->device)->is_synchronous &&
           replay->config.upload == GPUR_UPLOAD_COPY && !in->writer->config.link_appends &&
           (in->source->upload_clips || replay->ring.clipped_field < 0) && gpur_ingest_is_empty(&replay->ingest);
}

static gpur_status append_direct(gpur_replay *replay, append_job *in)
{
    const int64_t left = in->count - in->done, limit = replay->config.block_rows, rows = left < limit ? left : limit;
    GPUR_TRY(in->source->upload(replay, in->data, in->done, rows));
    replay->ring.bytes += rows * replay->schema.pitch;
    gpur_ingest_count_uploaded(&replay->ingest, rows);
    in->done += rows;
    return GPUR_OK;
}

/* Copies a few rows into the open block without waiting; 0 if that is not possible. */
static inline int append_small(gpur_replay *replay, append_job *in)
{
    unsigned char *rows = NULL;
    if (in->count > 0 && in->count <= SMALL_BYTES / replay->schema.pitch)
        rows = gpur_ingest_claim_under_lock(&replay->ingest, in->count);
    if (!rows)
        return 0;
    fill_rows(in, in->count, rows, replay->ingest.next_id - in->count);
    in->done = in->count;
    return 1;
}

/* Appends until all rows are stored or a claim is refused. The lock is held at the call and on return. */
static gpur_status append_large(gpur_replay *replay, append_job *in)
{
    while (in->done < in->count)
        GPUR_TRY((may_append_directly(replay, in) ? append_direct : append_staged)(replay, in));
    return GPUR_OK;
}

static inline gpur_status append_host(gpur_replay *replay, append_job *in)
{
    return append_small(replay, in) ? GPUR_OK : append_large(replay, in);
}

/* Uploads straight from device memory. Staged rows are uploaded first, so that ids follow the order of appends. */
static gpur_status append_arrays(gpur_replay *replay, int64_t count, const void *const *fields, int64_t *done)
{
    GPUR_TRY(gpur_ingest_flush(&replay->ingest));
    while (*done < count) {
        const int64_t left = count - *done, limit = replay->config.block_rows;
        const int64_t rows = left < limit ? left : limit;
        GPUR_TRY(source_fields.upload(replay, fields, *done, rows));
        gpur_ingest_count_uploaded(&replay->ingest, rows);
        *done += rows;
    }
    return GPUR_OK;
}

/* Waits until the arrays have been read, so that the caller may overwrite them. Releases the lock meanwhile, because no
 * other thread has to wait for that. */
static gpur_status wait_for_reading(gpur_replay *replay)
{
    gpur_window_unlock(replay);
    const gpur_status status = gpur_event_sync(replay->ring.arrays_read);
    gpur_window_lock(replay);
    return status;
}

/* Makes the upload wait for the caller's stream, and later work on that stream wait for the upload. Without a stream
 * the arrays are complete now, and have been read on return. The lock is held at the call and on return. */
static gpur_status append_device(gpur_replay *replay, int64_t count, const void *const *fields, void *stream,
                                 int64_t *done)
{
    gpur_stream *const copies = replay->copy_stream;
    if (stream)
        GPUR_TRY(gpur_stream_wait_native(copies, stream));
    GPUR_TRY(append_arrays(replay, count, fields, done));
    return stream ? gpur_native_wait_stream(stream, copies) : wait_for_reading(replay);
}

static gpur_status finish(gpur_replay *replay, gpur_status status, const gpur_append_clock *clock, int64_t done,
                          int64_t *appended)
{
    gpur_append_clock_end(clock, &replay->ingest);
    gpur_ingest_end_call(&replay->ingest);
    if (appended)
        *appended = done;
    return status;
}

/* Refuses GPUR_LAYOUT_FRAMES: finished rows do not show which of their frames are stored already. */
static gpur_status check_packed(const gpur_replay *replay)
{
    GPUR_REQUIRE(
        replay->config.layout == GPUR_LAYOUT_ROWS,
        "the replay's layout is GPUR_LAYOUT_FRAMES, which stores each frame of an episode once, and finished rows do "
        "not tell to which episode they belong: use gpur_writer_reset and gpur_writer_step_ex, "
        "gpur_writer_append_block, or GPUR_LAYOUT_ROWS");
    return GPUR_OK;
}

/* Refuses what cannot be linked: of transitions of several steps, the last ones of an episode all end it. */
static gpur_status check_links(const gpur_writer *writer)
{
    GPUR_REQUIRE(
        !writer->config.link_appends || writer->replay->config.n_step == 1,
        "the writer links the transitions that it appends (gpur_writer_config.link_appends), and n_step is %d: "
        "rows of several steps do not tell where an episode ends; append them in blocks "
        "(gpur_writer_append_block), which do",
        (int)writer->replay->config.n_step);
    GPUR_REQUIRE(
        writer->config.link_appends || writer->marked < 0,
        "gpur_writer_config.sequence_length is %d and link_appends 0; it must be 1 where sequences of appended "
        "transitions are",
        (int)writer->config.sequence_length);
    return GPUR_OK;
}

/* Refuses numbers that are not finite, actions that a learner cannot train on, priorities that are none, and discounts
 * of terminal rows. */
static gpur_status check_rows(const gpur_writer *writer, int64_t count, const void *rows)
{
    const gpur_replay *const replay = writer->replay;
    const gpur_schema *const schema = &replay->schema;
    const int32_t action = writer->fields.action;
    if (count == 0)
        return GPUR_OK;
    if (replay->config.check_finite)
        GPUR_TRY(gpur_check_rows_finite(schema, rows, count, schema->row_bytes, GPUR_INVALID_ARGUMENT));
    if (action >= 0)
        GPUR_TRY(gpur_writer_check_actions(writer, (const unsigned char *)rows + schema->fields[action].offset, count,
                                           schema->row_bytes, "row", GPUR_INVALID_ARGUMENT));
    const gpur_row_values values =
        gpur_row_values_of_rows(schema, replay->config.prioritized, rows, schema->row_bytes, schema->fields, NULL);
    return gpur_row_values_check(&values, count, 0);
}

gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended)
{
    append_job in = {writer, &source_packed, rows, count, 0, 0};
    if (appended)
        *appended = 0;
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(count >= 0, "count is %" PRId64 "; it must be 0 or more", count);
    GPUR_REQUIRE(rows || count == 0, "rows is NULL; it must be %" PRId64 " packed rows", count);
    gpur_replay *const replay = writer->replay;
    GPUR_TRY(check_packed(replay));
    GPUR_TRY(check_links(writer));
    GPUR_TRY(check_rows(writer, count, rows));
    gpur_ingest_begin_call(&replay->ingest);
    const gpur_append_clock clock = gpur_append_clock_begin(&replay->ingest, count);
    const gpur_status status = append_host(replay, &in);
    return finish(replay, status, &clock, in.done, appended);
}

/* Refuses arrays that are NULL, except those that linked rows do not need. */
static gpur_status check_given(const gpur_writer *writer, int64_t count, const void *const *fields)
{
    for (int32_t f = 0; f < writer->replay->schema.count && count > 0; f++)
        GPUR_REQUIRE(fields[f] || f == writer->marked || (writer->config.link_appends && f == writer->fields.previous),
                     "fields[%d], \"%s\", is NULL", (int)f, writer->replay->schema.fields[f].name);
    return GPUR_OK;
}

/* Refuses numbers that are not finite, actions that a learner cannot train on, priorities that are none, and discounts
 * of terminal rows, in arrays in host memory. */
static gpur_status check_numbers(const gpur_writer *writer, int64_t count, const void *const *fields)
{
    const gpur_replay *const replay = writer->replay;
    const gpur_schema *const schema = &replay->schema;
    const int32_t action = writer->fields.action;
    if (count == 0)
        return GPUR_OK;
    for (int32_t f = 0; f < schema->count && replay->config.check_finite; f++) {
        const gpur_field_info *const field = &schema->fields[f];
        const gpur_field_values values = {fields[f],    count,       field->bytes, field->bytes,
                                          field->dtype, field->name, "row"};
        if (schema->is_real[f])
            GPUR_TRY(gpur_check_finite(&values, GPUR_INVALID_ARGUMENT));
    }
    if (action >= 0)
        GPUR_TRY(gpur_writer_check_actions(writer, fields[action], count, schema->fields[action].bytes, "row",
                                           GPUR_INVALID_ARGUMENT));
    const gpur_row_values rules = gpur_row_values_of_fields(schema, replay->config.prioritized, fields);
    return gpur_row_values_check(&rules, count, 0);
}

/* Finds out whether the arrays are in device memory. On the CPU a kernel can read any memory; with GPUR_UPLOAD_SCATTER
 * the arrays count as device memory, so that a kernel copies them, unless the writer links their rows. */
static gpur_status locate_arrays(const gpur_writer *writer, int64_t count, const void *const *fields, int *on_device)
{
    const gpur_replay *const replay = writer->replay;
    const gpur_field_info *const infos = replay->schema.fields;
    int32_t first = -1;
    for (int32_t f = 0; f < replay->schema.count && count > 0; f++) {
        if (!fields[f])
            continue;
        int here = replay->config.upload == GPUR_UPLOAD_SCATTER && !writer->config.link_appends;
        if (gpur_device_get_traits(replay->device)->has_own_memory)
            GPUR_TRY(gpur_memory_locate(replay->device, fields[f], &here));
        first = first < 0 ? f : first;
        GPUR_REQUIRE(f == first || here == *on_device,
                     "fields[%d], \"%s\", is in %s memory and fields[%d], \"%s\", in %s "
                     "memory; all must be in the same",
                     (int)first, infos[first].name, *on_device ? "device" : "host", (int)f, infos[f].name,
                     here ? "device" : "host");
        *on_device = here;
    }
    GPUR_REQUIRE(!*on_device || !writer->config.link_appends,
                 "fields[%d], \"%s\", is in device memory, and the writer links the rows that it appends "
                 "(gpur_writer_config.link_appends); it must be in host memory",
                 (int)first, infos[first].name);
    return GPUR_OK;
}

gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields, void *stream,
                                      int64_t *appended)
{
    append_job in = {writer, &source_fields, fields, count, 0, 0};
    int on_device = 0;
    if (appended)
        *appended = 0;
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(count >= 0, "count is %" PRId64 "; it must be 0 or more", count);
    GPUR_REQUIRE(fields || count == 0, "fields is NULL; it must be %d pointers", (int)writer->replay->schema.count);
    gpur_replay *const replay = writer->replay;
    GPUR_TRY(check_packed(replay));
    GPUR_TRY(gpur_native_stream_check(replay->device, stream, 0));
    GPUR_TRY(check_links(writer));
    GPUR_TRY(check_given(writer, count, fields));
    GPUR_TRY(locate_arrays(writer, count, fields, &on_device));
    if (!on_device || !gpur_device_get_traits(replay->device)->has_own_memory)
        GPUR_TRY(check_numbers(writer, count, fields));
    gpur_ingest_begin_call(&replay->ingest);
    const gpur_append_clock clock = gpur_append_clock_begin(&replay->ingest, count);
    const gpur_status status =
        on_device ? append_device(replay, count, fields, stream, &in.done) : append_host(replay, &in);
    return finish(replay, status, &clock, in.done, appended);
}

/* 1 if all rows can be appended without waiting: there is room, and no upload would overwrite rows that may be read by
 * a launch that another thread is enqueuing. No launch begins while the lock is held. */
static int fits_without_waiting(const gpur_replay *replay, const append_job *in)
{
    const gpur_ingest *const ingest = &replay->ingest;
    const int uploads = may_append_directly(replay, in) || gpur_ingest_fills_block(ingest, in->count);
    return gpur_ingest_has_room(ingest, in->count) &&
           !(uploads && gpur_window_would_wait(&replay->window, ingest->staged + in->count));
}

static gpur_status try_append(gpur_writer *writer, int64_t count, const void *const *fields)
{
    gpur_replay *const replay = writer->replay;
    append_job in = {writer, &source_fields, fields, count, 0, 1};
    const gpur_append_clock clock = gpur_append_clock_begin(&replay->ingest, count);
    gpur_status status = GPUR_OK;
    if (!append_small(replay, &in))
        status = fits_without_waiting(replay, &in) ? append_large(replay, &in) : GPUR_WOULD_BLOCK;
    return finish(replay, status, &clock, in.done, NULL);
}

/* Refuses a count for which there may never be room, because GPUR_WOULD_BLOCK means that calling again will help. One
 * block may stay open and partly filled until a flush, so only the others are sure to have room. */
static gpur_status check_try_append(const gpur_replay *replay, int64_t count)
{
    const int64_t limit = (replay->config.staging_blocks - 1) * replay->config.block_rows;
    GPUR_TRY(check_packed(replay));
    GPUR_REQUIRE(count <= limit,
                 "count is %" PRId64 "; at once it must be at most (staging_blocks - 1) x block_rows = %" PRId64
                 "; gpur_writer_append_fields takes any number",
                 count, limit);
    return GPUR_OK;
}

gpur_status gpur_writer_try_append_fields(gpur_writer *writer, int64_t count, const void *const *fields)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(count >= 0, "count is %" PRId64 "; it must be 0 or more", count);
    GPUR_REQUIRE(fields || count == 0, "fields is NULL; it must be %d pointers", (int)writer->replay->schema.count);
    gpur_replay *const replay = writer->replay;
    GPUR_TRY(check_try_append(replay, count));
    GPUR_TRY(check_links(writer));
    GPUR_TRY(check_given(writer, count, fields));
    GPUR_TRY(check_numbers(writer, count, fields));
    gpur_status status = GPUR_WOULD_BLOCK;
    if (gpur_ingest_try_begin_call(&replay->ingest))
        status = try_append(writer, count, fields);
    if (status == GPUR_WOULD_BLOCK)
        return gpur_fail(status,
                         "%" PRId64 " transitions would have to wait; call again later, or "
                         "gpur_writer_append_fields",
                         count);
    return status;
}

gpur_status gpur_writer_end_appended_episode(gpur_writer *writer)
{
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(writer->config.link_appends,
                 "gpur_writer_config.link_appends is 0, so the writer stores `previous` as given");
    gpur_ingest_begin_call(&writer->replay->ingest);
    writer->append_link = gpur_previous_across(writer->append_link);
    writer->appended = 0;
    gpur_ingest_end_call(&writer->replay->ingest);
    return GPUR_OK;
}
