/* SPDX-License-Identifier: MIT */
/* Copies of rows and frames to reserved slots of their rings, all on the copy stream. */
#include "replay/storage/ring.h"

#include "replay/config.h"
#include "replay/storage/copies.h"

#include <assert.h>
#include <string.h>

/* For the scatter of flags: bytes other than 0 are stored as 1. */
static void copies_add_flags(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    gpur_copies_add(copies, array, pitch, offset, bytes);
    copies->list[copies->count - 1].flags = 1;
}

int32_t gpur_tile_rows(int64_t row_bytes)
{
    const int64_t rows = GPUR_TILE_BYTES / row_bytes;
    return rows < 1 ? 1 : rows > GPUR_MAX_TILE_ROWS ? GPUR_MAX_TILE_ROWS : (int32_t)rows;
}

enum { CACHED_RING_BYTES = 8 << 20 };
enum { TEAM_BYTES = 8 << 20 }; /* of uploads that are worth several threads, even if some cores are busy */

/* 1: write the ring with non-temporal stores. A ring that fits into the CPU's caches should stay there; of a larger
 * one, samples rarely read the newest rows. */
static int is_large(int64_t ring_bytes)
{
    return ring_bytes > CACHED_RING_BYTES;
}

/* On the CPU, an OpenMP region takes as long as its slowest thread, which may have to share its core. Uploads below
 * TEAM_BYTES are faster on the calling thread alone. */
static gpur_grid grid_of(const gpur_ring *ring, int64_t count, int32_t tile)
{
    const int64_t pitch = ring->storage->layout->rows.pitch;
    const int is_small = gpur_device_get_traits(ring->storage->device)->uses_host_cores && count * pitch < TEAM_BYTES;
    return gpur_grid_rows(ring->storage->device, count, tile, is_small ? 0 : pitch);
}

/* `rewards`: (count) rewards to be clipped on the way; NULL: none. */
static gpur_status scatter(const gpur_ring *ring, const gpur_copies *copies, const void *rewards, int64_t first_slot,
                           int64_t count)
{
    const gpur_schema *const schema = &ring->storage->layout->rows;
    const int64_t pitch = schema->pitch, capacity = ring->storage->config->capacity;
    const int32_t launches = gpur_copies_launches(copies);
    gpur_scatter_args args = {
        .ring = ring->rows,
        .pitch = pitch,
        .capacity = capacity,
        .first_slot = first_slot,
        .rows = count,
        .slots = ring->storage->priorities->slots,
        .rewards = rewards,
        .reward_offset = rewards ? (int32_t)schema->fields[ring->clipped_field].offset : 0,
        .reward_clip = ring->storage->config->reward_clip,
        /* non-temporal stores write whole row tiles, so one launch must write all of a tile and clip nothing in it */
        .nontemporal = is_large(capacity * pitch) && ((!rewards && launches == 1) || pitch > GPUR_TILE_BYTES),
        .tile_rows = gpur_tile_rows(pitch),
    };
    for (int32_t launch = 0; launch < launches; launch++) {
        const gpur_copies_range range = gpur_copies_launch(copies, launch, args.copies);
        args.copy_count = range.count, args.units = range.units;
        GPUR_TRY(gpur_launch_scatter(ring->storage->copy_stream, grid_of(ring, count, args.tile_rows), &args));
        args.rewards = NULL;
    }
    return GPUR_OK;
}

/* A copy of `count` items into slots `first` and following of a ring. */
typedef struct ring_copy {
    gpur_stream *stream;
    unsigned char *ring;
    int64_t slots, pitch;
    const unsigned char *from;
    int64_t first, count;
} ring_copy;

static gpur_status copy_contiguous(const ring_copy *c, int64_t slot, int64_t first, int64_t count)
{
    unsigned char *const to = c->ring + slot * c->pitch;
    const unsigned char *const from = c->from + first * c->pitch;
    return (is_large(c->slots * c->pitch) ? gpur_copy_nt : gpur_copy)(c->stream, to, from, count * c->pitch);
}

/* One contiguous copy, or two if the slots go around the ring's end. */
static gpur_status copy_to_ring(const ring_copy *c)
{
    const int64_t to_end = c->slots - c->first, head = c->count < to_end ? c->count : to_end;
    GPUR_TRY(copy_contiguous(c, c->first, 0, head));
    return head == c->count ? GPUR_OK : copy_contiguous(c, 0, head, c->count - head);
}

/* Launches that began before a frame's rows were evicted may still read the frame. The copy stream was made to wait for
 * them when the rows were evicted. */
static gpur_status copy_frames(const gpur_ring *ring, const gpur_upload *upload, int64_t first_frame)
{
    const ring_copy c = {ring->storage->copy_stream, ring->frames,   ring->frame_slots,
                         ring->frame_pitch,          upload->frames, first_frame % ring->frame_slots,
                         upload->frame_count};
    return upload->frame_count > 0 ? copy_to_ring(&c) : GPUR_OK;
}

/* Copies rows that have the ring's layout straight into the ring or, under GPUR_UPLOAD_SCATTER or with eviction by
 * priority, to device memory from which the scatter kernel writes the ring. */
static gpur_status copy_rows(const gpur_ring *ring, const unsigned char *rows, int64_t first_slot, int64_t count)
{
    const int64_t pitch = ring->storage->layout->rows.pitch;
    const ring_copy c = {
        ring->storage->copy_stream, ring->rows, ring->storage->config->capacity, pitch, rows, first_slot, count};
    gpur_copies copies;
    if (!ring->scatter_block)
        return copy_to_ring(&c);
    copies.count = copies.units = 0;
    gpur_copies_add(&copies, ring->scatter_block, pitch, 0, pitch);
    GPUR_TRY(gpur_copy(ring->storage->copy_stream, ring->scatter_block, rows, count * pitch));
    return scatter(ring, &copies, NULL, first_slot, count);
}

/* Finishes an upload whose copies are enqueued. */
static gpur_status finish_upload(gpur_ring *ring, int64_t count, const gpur_reservation *to, gpur_event *copied)
{
    GPUR_TRY(gpur_event_record(copied, ring->storage->copy_stream));
    gpur_window_uploaded(ring->window, count, to, copied);
    ring->uploads++;
    return GPUR_OK;
}

gpur_status gpur_ring_upload(gpur_ring *ring, const gpur_upload *upload, gpur_event *copied)
{
    gpur_reservation to = {0};
    GPUR_TRY(gpur_window_reserve(ring->window, upload->count, upload->frame_count, &to));
    GPUR_TRY(copy_rows(ring, upload->rows, to.first_slot, upload->count));
    if (ring->frames)
        GPUR_TRY(copy_frames(ring, upload, to.first_frame));
    ring->bytes += upload->count * ring->storage->layout->rows.pitch + upload->frame_count * ring->frame_pitch;
    return finish_upload(ring, upload->count, &to, copied);
}

static gpur_status upload_scattered(gpur_ring *ring, const gpur_copies *copies, const void *rewards, int64_t count)
{
    gpur_reservation to = {0};
    GPUR_TRY(gpur_window_reserve(ring->window, count, 0, &to));
    GPUR_TRY(scatter(ring, copies, rewards, to.first_slot, count));
    return finish_upload(ring, count, &to, ring->arrays_read);
}

/* Adds bytes `begin` to end - 1 of each packed row. */
static void add_bytes(gpur_copies *copies, const gpur_schema *schema, const unsigned char *rows, int64_t begin,
                      int64_t end)
{
    if (begin < end)
        gpur_copies_add(copies, rows + begin, schema->row_bytes, begin, end - begin);
}

/* Adds packed rows: each flag field on its own, and the bytes between them as they are. */
static void add_packed_rows(gpur_copies *copies, const gpur_schema *schema, const unsigned char *rows)
{
    int64_t done = 0;
    for (int32_t f = 0; f < schema->count; f++) {
        const gpur_field_info *const field = &schema->fields[f];
        if (!schema->is_flag[f])
            continue;
        add_bytes(copies, schema, rows, done, field->offset);
        copies_add_flags(copies, rows + field->offset, schema->row_bytes, field->offset, field->bytes);
        done = field->offset + field->bytes;
    }
    add_bytes(copies, schema, rows, done, schema->row_bytes);
}

gpur_status gpur_ring_upload_packed(gpur_ring *ring, const void *rows, int64_t count)
{
    gpur_copies copies;
    copies.count = copies.units = 0;
    add_packed_rows(&copies, &ring->storage->layout->rows, rows);
    return upload_scattered(ring, &copies, NULL, count);
}

gpur_status gpur_ring_upload_arrays(gpur_ring *ring, const void *const *fields, int64_t count)
{
    const gpur_schema *const schema = &ring->storage->layout->rows;
    const int32_t clipped = ring->clipped_field;
    gpur_copies copies;
    copies.count = copies.units = 0;
    for (int32_t i = 0; i < schema->count; i++)
        if (i != clipped)
            (schema->is_flag[i] ? copies_add_flags : gpur_copies_add)(
                &copies, fields[i], schema->fields[i].bytes, schema->fields[i].offset, schema->fields[i].bytes);
    return upload_scattered(ring, &copies, clipped < 0 ? NULL : fields[clipped], count);
}

gpur_status gpur_ring_build(gpur_ring *ring, const gpur_storage *storage, gpur_window_state *window,
                            const gpur_replay_plan *plan)
{
    gpur_device *const device = storage->device;
    const gpur_frame_layout *const frame_layout = &storage->layout->frame_layout;
    ring->storage = storage;
    ring->window = window;
    ring->clipped_field = gpur_clipped_field(storage->config, &storage->layout->rows);
    GPUR_TRY(gpur_memory_alloc(device, plan->ring_bytes, "the ring of transitions", (void **)&ring->rows));
    ring->frame_slots = frame_layout->frames;
    ring->frame_pitch = frame_layout->pitch;
    if (frame_layout->stack > 0)
        GPUR_TRY(gpur_memory_alloc(device, frame_layout->frames * frame_layout->pitch, "the ring of frames",
                                   (void **)&ring->frames));
    if (plan->upload_bytes > GPUR_WINDOW_BYTES)
        GPUR_TRY(gpur_memory_alloc(device, plan->upload_bytes - GPUR_WINDOW_BYTES, "the block of an upload by scatter",
                                   (void **)&ring->scatter_block));
    return gpur_event_create(device, &ring->arrays_read);
}

void gpur_ring_destroy(gpur_ring *ring)
{
    if (!ring->storage)
        return;
    gpur_event_destroy(ring->arrays_read);
    gpur_memory_free(ring->storage->device, ring->scatter_block);
    gpur_memory_free(ring->storage->device, ring->frames);
    gpur_memory_free(ring->storage->device, ring->rows);
}
