/* SPDX-License-Identifier: MIT */
/* Appends blocks: all of the rows and frames of a block under one claim of a staging block. */
#include "replay/block/block.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "kernels/cpu/copy_value.h"
#include "kernels/lib/previous.h"
#include "replay/replay.h"
#include "replay/writer/writer.h"

#include <inttypes.h>
#include <string.h>

enum { SMALL_BYTES = 4096 }; /* up to here, copying is faster than releasing the lock and taking it again */

/* A block that is being appended. */
typedef struct block_job {
    gpur_writer *writer;
    gpur_block_spec spec;
    const gpur_block_view *view;
} block_job;

/* Checks that the writer can append the block. */
static gpur_status check_can_append(const gpur_writer *writer, const gpur_block_header *h)
{
    const gpur_replay *const replay = writer->replay;
    const int64_t rows = replay->config.block_rows, frames = replay->layout.frame_layout.block_frames;
    GPUR_REQUIRE(h->rows <= rows,
                 "the block has %" PRId64 " rows; a staging block of this replay has block_rows = %" PRId64
                 ", which must be as many or more",
                 h->rows, rows);
    GPUR_REQUIRE(h->frames <= frames,
                 "the block has %" PRId64 " frames; a staging block of this replay has room for %" PRId64
                 ": set block_rows, now %" PRId64 ", to twice the rows of a block",
                 h->frames, frames, rows);
    GPUR_REQUIRE(writer->config.link_appends || !gpur_schema_has_previous(&replay->schema),
                 "the schema has a field \"previous\", and the ids that belong into it are not known where a block is "
                 "packed: set gpur_writer_config.link_appends to 1, and give each actor a writer of its own");
    GPUR_REQUIRE(writer->marked < 0,
                 "gpur_writer_config.sequence_length is %d; it must be 0 where blocks are appended, which bring "
                 "priorities of their own",
                 (int)writer->config.sequence_length);
    return GPUR_OK;
}

/* Records the rows: the frames of each are those that no row before it names. Requires the window lock. */
static void record_rows(gpur_replay *replay, const block_job *in, int64_t first_frame)
{
    int64_t named = 0;
    for (int64_t row = 0; row < in->view->header.rows; row++) {
        const int64_t head = first_frame + named;
        int64_t oldest = head;
        uint32_t links[GPUR_MAX_LINKS];
        gpur_block_read_links(&in->spec, in->view->rows + row * in->spec.row_bytes, links);
        for (int32_t i = 0; i < gpur_block_links(&in->spec); i++) {
            named = gpur_max(named, links[i]);
            if (links[i] > 0)
                oldest = gpur_min(oldest, first_frame + links[i] - 1);
        }
        gpur_frame_index_record(&replay->frame_index, head, oldest);
    }
}

/* Turns the links of copied rows from indices of the block into slots of the ring of frames. */
static void place_links(const gpur_replay *replay, const block_job *in, const gpur_claim *claim)
{
    const int64_t slots = replay->layout.frame_layout.frames;
    for (int64_t row = 0; row < claim->count; row++) {
        uint32_t *const links = (uint32_t *)(void *)(claim->rows + row * replay->layout.rows.pitch);
        for (int32_t i = 0; i < gpur_block_links(&in->spec); i++)
            links[i] = links[i] > 0 ? (uint32_t)((claim->first_frame + links[i] - 1) % slots) + 1 : 0;
    }
}

/* link_appends: fills in `previous` as the rows' signs say. */
static void link_rows(gpur_writer *writer, const gpur_claim *claim)
{
    for (int64_t i = 0; i < claim->count && writer->config.link_appends; i++) {
        unsigned char *const row = claim->rows + i * writer->replay->layout.rows.pitch;
        int64_t place;
        memcpy(&place, row + writer->offsets.previous, sizeof place);
        if (place < 0)
            writer->append_link = gpur_previous_across(writer->append_link);
        else if (place > 0)
            writer->append_link = gpur_previous_id(writer->append_link);
        gpur_writer_link_rows(writer, row, 1, claim->first_id + i);
    }
}

static void fill(const gpur_replay *replay, const block_job *in, const gpur_claim *claim)
{
    const int64_t row_bytes = in->spec.row_bytes, frame_bytes = in->spec.frame_bytes;
    const gpur_column rows = {claim->rows, in->view->rows, replay->layout.rows.pitch, row_bytes, row_bytes};
    const gpur_column frames = {claim->frames, in->view->frames, replay->layout.frame_layout.pitch, frame_bytes,
                                frame_bytes};
    gpur_copy_column(&rows, claim->count);
    if (in->view->header.frames > 0)
        gpur_copy_column(&frames, in->view->header.frames);
    if (gpur_block_links(&in->spec) > 0)
        place_links(replay, in, claim);
    link_rows(in->writer, claim);
}

/* link_appends: a block that does not follow the one before begins with a row that follows none. */
static void follow_block(gpur_writer *writer, const gpur_block_header *h)
{
    const gpur_block_source *const last = &writer->last_block;
    if (h->actor != last->actor || h->incarnation != last->incarnation || h->sequence - 1 != last->sequence)
        writer->append_link = -1;
    writer->last_block = (gpur_block_source){h->actor, h->incarnation, h->sequence};
}

/* Requires the window lock; copies much without it. */
static gpur_status append_locked(gpur_replay *replay, block_job *in)
{
    const gpur_block_header *const h = &in->view->header;
    gpur_claim claim;
    GPUR_TRY(gpur_ingest_claim_all(&replay->ingest, h->rows, h->frames, gpur_ingest_may_wait(&replay->ingest), &claim));
    const int holds_lock = h->raw_bytes <= SMALL_BYTES;
    follow_block(in->writer, h);
    if (gpur_block_links(&in->spec) > 0)
        record_rows(replay, in, claim.first_frame);
    if (!holds_lock)
        gpur_window_unlock(replay);
    fill(replay, in, &claim);
    if (!holds_lock)
        gpur_window_lock(replay);
    return gpur_ingest_commit(&replay->ingest, &claim);
}

static gpur_status append(gpur_replay *replay, block_job *in)
{
    gpur_ingest *const ingest = &replay->ingest;
    gpur_ingest_begin_call(ingest);
    const gpur_append_clock clock = gpur_append_clock_begin(ingest, in->view->header.rows);
    const gpur_status status = append_locked(replay, in);
    gpur_append_clock_end(&clock, ingest);
    gpur_ingest_end_call(ingest);
    return status;
}

static gpur_status check_actions(const block_job *in)
{
    const int32_t action = in->writer->fields.action, stored = action < 0 ? -1 : in->spec.layout->stored[action];
    if (stored < 0)
        return GPUR_OK;
    return gpur_writer_check_actions(in->writer, in->view->rows + in->spec.layout->rows.fields[stored].offset,
                                     in->view->header.rows, in->spec.row_bytes, "row", GPUR_FILE_ERROR);
}

static block_job job_of(gpur_writer *writer, const gpur_block_view *view)
{
    const gpur_replay *const replay = writer->replay;
    return (block_job){writer, gpur_block_spec_of(&replay->config, &replay->schema, &replay->layout), view};
}

static gpur_status append_checked(block_job *in)
{
    GPUR_TRY(check_actions(in));
    return append(in->writer->replay, in);
}

gpur_status gpur_writer_append_view(gpur_writer *writer, const gpur_block_view *view)
{
    block_job in = job_of(writer, view);
    GPUR_TRY(check_can_append(writer, &view->header));
    return append_checked(&in);
}

gpur_status gpur_writer_append_block(gpur_writer *writer, const void *block, int64_t bytes, gpur_block_info *info)
{
    gpur_block_header header;
    gpur_block_view view = {0};
    GPUR_REQUIRE(writer, "writer is NULL");
    if (info)
        GPUR_TRY(gpur_sized_check(info, "gpur_block_info"));
    block_job in = job_of(writer, &view);
    GPUR_TRY(gpur_block_read_header(&in.spec, block, bytes, &header));
    GPUR_TRY(check_can_append(writer, &header));
    gpur_status status = gpur_block_open(&in.spec, block, &header, &view);
    if (status == GPUR_OK)
        status = append_checked(&in);
    gpur_block_close(&view);
    return status == GPUR_OK ? gpur_block_tell(&header, info) : status;
}
