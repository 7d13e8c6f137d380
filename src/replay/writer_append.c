/* SPDX-License-Identifier: MIT */
/* Finished rows: appended as they are, or field by field. */
#include "replay/writer.h"

#include "kernels/clip.h"
#include "kernels/value_copy.h"
#include "replay/append_clock.h"

#include <inttypes.h>
#include <string.h>

enum {
    TILE_ROWS = 64,
    SMALL_BYTES = 4096, /* copied sooner than the lock is let go of and taken again */
};

/* Packed rows into rows `pitch` bytes apart. */
static void copy_rows(unsigned char *to, const unsigned char *from, int64_t count, const gpur_schema *schema)
{
    const gpur_column rows = {to, from, schema->pitch, schema->row_bytes, schema->row_bytes};
    if (schema->row_bytes == schema->pitch)
        memcpy(to, from, (size_t)(count * schema->pitch));
    else
        gpur_move_column(&rows, count);
}

/* Fills `count` rows at `to` from the caller's row `first` on. */
typedef void (*fill_rows)(const void *source, const gpur_schema *schema, int64_t first, int64_t count,
                          unsigned char *to);

static void fill_from_rows(const void *source, const gpur_schema *schema, int64_t first, int64_t count,
                           unsigned char *to)
{
    copy_rows(to, (const unsigned char *)source + first * schema->row_bytes, count, schema);
}

/* A tile of rows at a time: lines of small rows are still in the nearest cache when the next field comes to them. */
static void fill_from_fields(const void *source, const gpur_schema *schema, int64_t first, int64_t count,
                             unsigned char *to)
{
    const void *const *const fields = source;
    for (int64_t done = 0; done < count; done += TILE_ROWS)
        for (int32_t f = 0; f < schema->count; f++) {
            const gpur_field_info *const field = &schema->fields[f];
            const gpur_column column = {to + done * schema->pitch + field->offset,
                                        (const unsigned char *)fields[f] + (first + done) * field->bytes, schema->pitch,
                                        field->bytes, field->bytes};
            gpur_move_column(&column, count - done < TILE_ROWS ? count - done : TILE_ROWS);
        }
}

static void clip_rewards(const gpur_replay *replay, unsigned char *rows, int64_t count)
{
    const int32_t field = replay->intake.feed.clipped;
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

/* Claim, fill (a lot: without the lock), commit, until all is in or a claim is refused. Called and left with the lock
 * held. */
static gpur_status append_host(gpur_replay *replay, int64_t count, const void *source, fill_rows fill, int64_t *done)
{
    gpur_intake *const intake = &replay->intake;
    const int small = count * replay->schema.pitch <= SMALL_BYTES;
    while (*done < count) {
        gpur_claim claim;
        GPUR_TRY(gpur_intake_claim(intake, count - *done, &claim));
        if (!small)
            gpur_intake_unlock(intake);
        fill(source, &replay->schema, *done, claim.count, claim.rows);
        clip_rewards(replay, claim.rows, claim.count);
        if (!small)
            gpur_intake_lock(intake);
        *done += claim.count;
        GPUR_TRY(gpur_intake_commit(intake, &claim));
    }
    return GPUR_OK;
}

/* Straight from device memory. What is staged goes first, so that ids follow the order of appends. */
static gpur_status append_arrays(gpur_replay *replay, int64_t count, const void *const *fields, int64_t *done)
{
    gpur_intake *const intake = &replay->intake;
    const gpur_schema *const schema = &replay->schema;
    GPUR_TRY(gpur_intake_seal(intake));
    while (*done < count) {
        const void *at[GPUR_MAX_FIELDS];
        const int64_t left = count - *done, most = intake->feed.block_rows;
        const int64_t rows = left < most ? left : most;
        for (int32_t f = 0; f < schema->count; f++)
            at[f] = (const unsigned char *)fields[f] + *done * schema->fields[f].bytes;
        GPUR_TRY(gpur_feed_arrays(&intake->feed, at, rows));
        intake->appended += rows;
        *done += rows;
    }
    return GPUR_OK;
}

/* The caller may use the arrays again once they have been read. Nobody else has to wait for that, so the lock is let go
 * of meanwhile. */
static gpur_status wait_for_reading(gpur_intake *intake)
{
    gpur_intake_unlock(intake);
    const gpur_status status = gpur_event_sync(intake->feed.from_arrays);
    gpur_intake_lock(intake);
    return status;
}

/* Between the caller's stream and ours; without a stream the arrays are ready, and must be free on return. Called and
 * left with the lock held. */
static gpur_status append_device(gpur_replay *replay, int64_t count, const void *const *fields, void *stream,
                                 int64_t *done)
{
    gpur_feed *const feed = &replay->intake.feed;
    if (stream)
        GPUR_TRY(gpur_stream_wait_native(feed->copier, stream));
    GPUR_TRY(append_arrays(replay, count, fields, done));
    return stream ? gpur_native_wait_stream(stream, feed->copier) : wait_for_reading(&replay->intake);
}

static gpur_status finish(gpur_intake *intake, gpur_status status, const gpur_append_clock *clock, int64_t done,
                          int64_t *appended)
{
    gpur_append_clock_end(clock, intake);
    gpur_intake_unlock(intake);
    if (appended)
        *appended = done;
    return status;
}

gpur_status gpur_writer_append(gpur_writer *writer, int64_t count, const void *rows, int64_t *appended)
{
    int64_t done = 0;
    if (appended)
        *appended = 0;
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(count >= 0, "count is %" PRId64 "; it must be 0 or more", count);
    GPUR_REQUIRE(rows || count == 0, "rows is NULL; it must be %" PRId64 " packed rows", count);
    gpur_replay *const replay = writer->replay;
    gpur_intake_lock(&replay->intake);
    const gpur_append_clock clock = gpur_append_clock_begin(writer, count);
    const gpur_status status = append_host(replay, count, rows, fill_from_rows, &done);
    return finish(&replay->intake, status, &clock, done, appended);
}

/* Where the arrays lie. On the CPU a kernel can read anything, and the replay's feed decides who does the copying. */
static gpur_status place_of(const gpur_replay *replay, const void *const *fields, int *on_device)
{
    gpur_device *const device = replay->device;
    for (int32_t f = 0; f < replay->schema.count; f++) {
        GPUR_REQUIRE(fields[f], "fields[%d], \"%s\", is NULL", (int)f, replay->schema.fields[f].name);
        int here = replay->config.feed == GPUR_FEED_SCATTER;
        if (gpur_device_is_cuda(device))
            GPUR_TRY(gpur_memory_locate(device, fields[f], &here));
        GPUR_REQUIRE(f == 0 || here == *on_device,
                     "fields[0], \"%s\", is in %s memory and fields[%d], \"%s\", in %s "
                     "memory; all must be in the same",
                     replay->schema.fields[0].name, *on_device ? "device" : "host", (int)f,
                     replay->schema.fields[f].name, here ? "device" : "host");
        *on_device = here;
    }
    return GPUR_OK;
}

gpur_status gpur_writer_append_fields(gpur_writer *writer, int64_t count, const void *const *fields, void *stream,
                                      int64_t *appended)
{
    int64_t done = 0;
    int on_device = 0;
    if (appended)
        *appended = 0;
    GPUR_REQUIRE(writer, "writer is NULL");
    GPUR_REQUIRE(count >= 0, "count is %" PRId64 "; it must be 0 or more", count);
    GPUR_REQUIRE(fields, "fields is NULL; it must be %d pointers", (int)writer->replay->schema.count);
    gpur_replay *const replay = writer->replay;
    GPUR_REQUIRE(!stream || gpur_device_is_cuda(replay->device), "stream is %p; on the CPU it must be NULL", stream);
    GPUR_TRY(place_of(replay, fields, &on_device));
    gpur_intake_lock(&replay->intake);
    const gpur_append_clock clock = gpur_append_clock_begin(writer, count);
    const gpur_status status = on_device ? append_device(replay, count, fields, stream, &done)
                                         : append_host(replay, count, fields, fill_from_fields, &done);
    return finish(&replay->intake, status, &clock, done, appended);
}
