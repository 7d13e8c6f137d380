/* SPDX-License-Identifier: MIT */
#include "replay/feed_copy.h"

enum { CACHED_RING_BYTES = 8 << 20 };
enum { TEAM_BYTES = 8 << 20 }; /* rows that several threads take in so much sooner that waiting for busy cores pays */

/* A ring that the caches hold stays there. Of a larger one a draw seldom wants what came last. */
static int is_large(int64_t ring_bytes)
{
    return ring_bytes > CACHED_RING_BYTES;
}

/* A team of the CPU's threads waits for the last of them, however many others want its core: the caller is done with
 * most blocks sooner alone. */
static gpur_grid grid_of(const gpur_feed *feed, int64_t count, int32_t tile)
{
    const int64_t pitch = feed->schema->pitch;
    const int is_alone = !gpur_device_is_cuda(feed->device) && count * pitch < TEAM_BYTES;
    return gpur_grid_rows(feed->device, count, tile, is_alone ? 0 : pitch);
}

gpur_status gpur_scatter_arrays(gpur_feed *feed, const gpur_copies *copies, const void *rewards, int64_t first_slot,
                                int64_t count)
{
    const int64_t pitch = feed->schema->pitch;
    const int32_t parts = gpur_copies_parts(copies);
    gpur_scatter_args args = {
        .ring = feed->ring,
        .pitch = pitch,
        .capacity = feed->capacity,
        .first_slot = first_slot,
        .rows = count,
        .rewards = rewards,
        .reward_offset = rewards ? (int32_t)feed->schema->fields[feed->clipped].offset : 0,
        .reward_clip = feed->reward_clip,
        /* a tile is written as a whole: it has no clipped ones, and all copies are in one launch */
        .past = is_large(feed->capacity * pitch) && ((!rewards && parts == 1) || pitch > GPUR_TILE_BYTES),
        .tile = gpur_tile_rows(pitch),
    };
    for (int32_t part = 0; part < parts; part++) {
        const gpur_copies_range range = gpur_copies_part(copies, part, args.copies);
        args.copy_count = range.count, args.units = range.units;
        GPUR_TRY(gpur_launch_scatter(feed->copier, grid_of(feed, count, args.tile), &args));
        args.rewards = NULL;
    }
    return GPUR_OK;
}

/* A ring, and what comes into it. */
typedef struct run {
    unsigned char *ring;
    int64_t slots, pitch;
    const unsigned char *from;
    int64_t first, count;
} run;

static gpur_status copy_part(gpur_feed *feed, const run *r, int64_t slot, int64_t first, int64_t count)
{
    unsigned char *const to = r->ring + slot * r->pitch;
    const unsigned char *const from = r->from + first * r->pitch;
    return (is_large(r->slots * r->pitch) ? gpur_copy_past : gpur_copy)(feed->copier, to, from, count * r->pitch);
}

/* In one run, or in two at the ring's end. */
static gpur_status copy_run(gpur_feed *feed, const run *r)
{
    const int64_t to_end = r->slots - r->first, head = r->count < to_end ? r->count : to_end;
    GPUR_TRY(copy_part(feed, r, r->first, 0, head));
    return head == r->count ? GPUR_OK : copy_part(feed, r, 0, head, r->count - head);
}

gpur_status gpur_copy_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count)
{
    const run r = {feed->ring, feed->capacity, feed->schema->pitch, rows, first_slot, count};
    return copy_run(feed, &r);
}

/* Frames whose rows left earlier may still be read by launches that began before those rows left. The copier has been
 * made to wait for them then. */
gpur_status gpur_copy_frames(gpur_feed *feed, const gpur_feed_part *part, int64_t first_frame)
{
    const run r = {
        feed->frames,     feed->frame_slots, feed->frame_pitch, part->frames, first_frame % feed->frame_slots,
        part->frame_count};
    return part->frame_count > 0 ? copy_run(feed, &r) : GPUR_OK;
}

gpur_status gpur_scatter_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count)
{
    const int64_t pitch = feed->schema->pitch;
    gpur_copies copies;
    copies.count = copies.units = 0;
    gpur_copies_add(&copies, feed->block, pitch, 0, pitch);
    GPUR_TRY(gpur_copy(feed->copier, feed->block, rows, count * pitch));
    return gpur_scatter_arrays(feed, &copies, NULL, first_slot, count);
}
