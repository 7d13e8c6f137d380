/* SPDX-License-Identifier: MIT */
#include "replay/storage/ring.h"

#include "replay/storage/copies.h"
#include "replay/config.h"

#include <assert.h>
#include <string.h>

enum { WIDEST_SHIFT = 4 };

/* log2 of the widest unit, 1 to 16 bytes, that divides all four numbers. Rows of the ring start at multiples of 32
 * bytes or more, so the offset in a row stands for the address. */
static int32_t widest_shift(const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    const uint64_t all = (uint64_t)(uintptr_t)array | (uint64_t)pitch | (uint64_t)offset | (uint64_t)bytes;
    int32_t shift = 0;
    while (shift < WIDEST_SHIFT && (all >> shift & 1) == 0)
        shift++;
    return shift;
}

void gpur_copies_add(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    const int32_t shift = widest_shift(array, pitch, offset, bytes);
    assert(copies->count < GPUR_MOST_COPIES);
    const gpur_field_copy copy = {
        .array = (unsigned char *)(uintptr_t)array, /* the scatter kernel only reads it */
        .array_pitch = pitch,
        .offset = (int32_t)offset,
        .units = (int32_t)(bytes >> shift),
        .first_unit = copies->units,
        .shift = (int16_t)shift,
    };
    copies->list[copies->count++] = copy;
    copies->units += copy.units;
}

int32_t gpur_copies_parts(const gpur_copies *copies)
{
    return copies->count <= GPUR_MAX_COPIES ? 1 : (copies->count + GPUR_MAX_COPIES - 1) / GPUR_MAX_COPIES;
}

gpur_copies_range gpur_copies_part(const gpur_copies *copies, int32_t part, gpur_field_copy *to)
{
    const int32_t first = part * GPUR_MAX_COPIES, left = copies->count - first;
    gpur_copies_range range = {.count = left < GPUR_MAX_COPIES ? left : GPUR_MAX_COPIES};
    for (int32_t c = 0; c < range.count; c++) {
        to[c] = copies->list[first + c];
        to[c].first_unit = range.units;
        range.units += to[c].units;
    }
    return range;
}

void gpur_copies_add_flags(gpur_copies *copies, const void *array, int64_t pitch, int64_t offset, int64_t bytes)
{
    gpur_copies_add(copies, array, pitch, offset, bytes);
    copies->list[copies->count - 1].flags = 1;
}

int32_t gpur_tile_rows(int64_t row_bytes)
{
    const int64_t rows = GPUR_TILE_BYTES / row_bytes;
    return rows < 1 ? 1 : rows > GPUR_TILE ? GPUR_TILE : (int32_t)rows;
}

/* Copies of rows and frames to reserved slots of their rings, all on the copy stream. */

/* Two ways to upload rows that have the ring's layout: copies straight into the ring, or one copy to device memory from
 * which the scatter kernel writes the ring. */
gpur_status gpur_copy_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count);
gpur_status gpur_scatter_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count);

gpur_status gpur_copy_frames(gpur_feed *feed, const gpur_feed_part *part, int64_t first_frame);

/* `rewards`: (count) rewards to be clipped on the way; NULL: none. */
gpur_status gpur_scatter_arrays(gpur_feed *feed, const gpur_copies *copies, const void *rewards, int64_t first_slot,
                                int64_t count);

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
        /* non-temporal stores write whole row tiles, so one launch must write all of a tile and clip nothing in it */
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

/* A copy of `count` items into slots `first` and following of a ring. */
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

/* One contiguous copy, or two if the slots go around the ring's end. */
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

/* Launches that began before a frame's rows were evicted may still read the frame. The copy stream was made to wait for
 * them when the rows were evicted. */
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

static gpur_status build_frames(gpur_feed *feed, const gpur_linking *linking)
{
    feed->frame_slots = linking->frames;
    feed->frame_pitch = linking->pitch;
    return linking->stack == 0 ? GPUR_OK
                               : gpur_memory_alloc(feed->device, linking->frames * linking->pitch, "the ring of frames",
                                                   (void **)&feed->frames);
}

gpur_status gpur_feed_build(gpur_feed *feed, gpur_device *device, const gpur_replay_config *config,
                            const gpur_storage *storage, const gpur_replay_plan *plan)
{
    feed->device = device;
    feed->schema = &storage->rows;
    feed->capacity = config->capacity;
    feed->max_batch = config->max_batch;
    feed->block_rows = config->update_size;
    feed->secure = storage->secure;
    feed->clipped = gpur_clipped_field(config, feed->schema);
    feed->reward_clip = config->reward_clip;
    GPUR_TRY(gpur_memory_alloc(device, plan->ring_bytes, "the ring of transitions", (void **)&feed->ring));
    GPUR_TRY(build_frames(feed, &storage->linking));
    GPUR_TRY(gpur_memory_alloc(device, GPUR_WINDOW_BYTES, "the visible window", (void **)&feed->window));
    if (config->feed == GPUR_FEED_SCATTER)
        GPUR_TRY(gpur_memory_alloc(device, plan->feed_bytes - GPUR_WINDOW_BYTES, "the scatter feed's block",
                                   (void **)&feed->block));
    GPUR_TRY(gpur_stream_create_main(device, &feed->consumer));
    GPUR_TRY(gpur_stream_create(device, &feed->copier));
    GPUR_TRY(gpur_event_create(device, &feed->read));
    GPUR_TRY(gpur_event_create(device, &feed->from_arrays));
    return gpur_priorities_build(&feed->priorities, device, config, feed->schema, feed->ring, feed->window,
                                 feed->consumer);
}

void gpur_feed_destroy(gpur_feed *feed)
{
    gpur_stream_destroy(feed->copier);
    gpur_stream_destroy(feed->consumer);
    gpur_event_destroy(feed->read);
    gpur_event_destroy(feed->from_arrays);
    gpur_priorities_destroy(&feed->priorities);
    gpur_memory_free(feed->device, feed->block);
    gpur_memory_free(feed->device, feed->window);
    gpur_memory_free(feed->device, feed->frames);
    gpur_memory_free(feed->device, feed->ring);
}

/* Sends the window to the device if it has changed, and updates the priorities of the rows that enter or leave it.
 * Several changes on the host are sent as one, since no launch could see the window in between. */
static gpur_status show(gpur_feed *feed)
{
    if (!feed->stale)
        return GPUR_OK;
    const gpur_window_set_args args = {.window = feed->window, .value = feed->mirror};
    const gpur_window old = feed->shown;
    feed->stale = 0;
    feed->shown = feed->mirror;
    GPUR_TRY(gpur_priorities_leave(&feed->priorities, feed->consumer, &old, &feed->mirror));
    GPUR_TRY(gpur_launch_window_set(feed->consumer, gpur_grid_single(feed->device), &args));
    return gpur_priorities_enter(&feed->priorities, feed->consumer, &old, &feed->mirror);
}

void gpur_feed_hasten(gpur_feed *feed)
{
    if (feed->late == 0)
        return;
    feed->soon += feed->late;
    feed->soon_copied = feed->late_copied; /* copies finish in the order in which they were enqueued */
    feed->late = 0;
}

static gpur_status publish_soon(gpur_feed *feed)
{
    feed->looked = 0;
    if (feed->soon == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_stream_wait(feed->consumer, feed->soon_copied));
    feed->mirror.count += feed->soon;
    feed->published += feed->soon;
    feed->soon = 0;
    feed->stale = 1;
    return GPUR_OK;
}

/* Before `count` rows are evicted: if some of them were never in the device's window and rows contain priorities, sends
 * the window first. One of these rows may have the largest priority so far, which later rows without a valid priority
 * get, and that must not depend on whether a refresh came in between. The copies that overwrite these rows must then
 * wait until their priorities have been read. */
static gpur_status count_unseen(gpur_feed *feed, int64_t count)
{
    const int64_t seen = feed->shown.first_id + feed->shown.count;
    if (!gpur_priorities_brings(&feed->priorities) || feed->mirror.first_id + count <= seen)
        return GPUR_OK;
    feed->unread = 1;
    return show(feed);
}

/* Evicts the `count` oldest rows. While a launch is being enqueued, its remaining gathers must see the smaller window,
 * so it is sent at once. */
static gpur_status evict(gpur_feed *feed, int64_t count)
{
    GPUR_TRY(count_unseen(feed, count));
    feed->mirror.first_id += count;
    feed->mirror.first_slot = feed->mirror.first_id % feed->capacity;
    feed->mirror.count -= count;
    feed->evicted += count;
    feed->stale = 1;
    if (feed->launching)
        GPUR_TRY(show(feed));
    if (!feed->unread)
        return GPUR_OK;
    feed->unread = feed->launching;
    GPUR_TRY(gpur_event_record(feed->read, feed->consumer));
    return gpur_stream_wait(feed->copier, feed->read);
}

int64_t gpur_feed_leaving(const gpur_feed *feed, int64_t held, int64_t head)
{
    const int64_t excess = held - feed->capacity, first = feed->mirror.first_id;
    const int64_t for_frames = feed->frames ? gpur_frame_log_keep(feed->log, first, head) - first : 0;
    const int64_t most = excess > for_frames ? excess : for_frames;
    return most > 0 ? most : 0;
}

/* The slots reserved for an upload. */
typedef struct place {
    int64_t first_slot, first_frame;
    int late; /* 1: the copy waits for a launch, so the rows are published one launch later */
} place;

/* 1 if the window could be left with fewer than max_batch rows by `count` more rows that are not published yet. */
static int is_crowded(const gpur_feed *feed, int64_t count)
{
    return feed->soon + feed->looked + feed->late + count + feed->max_batch > feed->secure;
}

int gpur_feed_meets_launch(const gpur_feed *feed, int64_t count)
{
    const int64_t held = feed->mirror.count + feed->soon + feed->late;
    return feed->launching &&
           (is_crowded(feed, count) || gpur_feed_leaving(feed, held + count, feed->frame_head) > 0);
}

/* Reserves slots, and evicts the rows that are in the way. */
static gpur_status reserve(gpur_feed *feed, int64_t count, int64_t frames, place *to)
{
    assert(count >= 1 && count <= feed->block_rows);
    if (is_crowded(feed, count)) {
        gpur_feed_hasten(feed);
        GPUR_TRY(publish_soon(feed));
    }
    const int64_t held = feed->mirror.count + feed->soon + feed->late;
    const int64_t leaving = gpur_feed_leaving(feed, held + count, feed->frame_head + frames);
    assert(leaving <= feed->mirror.count);
    to->first_slot = (feed->mirror.first_id + held) % feed->capacity;
    to->first_frame = feed->frame_head;
    to->late = feed->late > 0 || (leaving > 0 && feed->launches > 0);
    feed->frame_head += frames;
    return leaving > 0 ? evict(feed, leaving) : GPUR_OK;
}

/* Finishes an upload whose copies are enqueued: records `copied`, and notes when to publish the rows. */
static gpur_status fed(gpur_feed *feed, int64_t count, int late, gpur_event *copied)
{
    GPUR_TRY(gpur_event_record(copied, feed->copier));
    if (late)
        feed->late += count, feed->late_copied = copied;
    else
        feed->soon += count, feed->soon_copied = copied;
    feed->blocks++;
    return GPUR_OK;
}

gpur_status gpur_feed_rows(gpur_feed *feed, const gpur_feed_part *part, gpur_event *copied)
{
    place to = {0};
    GPUR_TRY(reserve(feed, part->count, part->frame_count, &to));
    GPUR_TRY((feed->block ? gpur_scatter_rows : gpur_copy_rows)(feed, part->rows, to.first_slot, part->count));
    if (feed->frames)
        GPUR_TRY(gpur_copy_frames(feed, part, to.first_frame));
    feed->bytes += part->count * feed->schema->pitch + part->frame_count * feed->frame_pitch;
    return fed(feed, part->count, to.late, copied);
}

static gpur_status feed_scattered(gpur_feed *feed, const gpur_copies *copies, const void *rewards, int64_t count)
{
    place to = {0};
    GPUR_TRY(reserve(feed, count, 0, &to));
    GPUR_TRY(gpur_scatter_arrays(feed, copies, rewards, to.first_slot, count));
    return fed(feed, count, to.late, feed->from_arrays);
}

/* Adds bytes `begin` to end - 1 of each packed row. */
static void add_part(gpur_copies *copies, const gpur_schema *schema, const unsigned char *rows, int64_t begin,
                     int64_t end)
{
    if (begin < end)
        gpur_copies_add(copies, rows + begin, schema->row_bytes, begin, end - begin);
}

/* Adds packed rows: each flag field on its own, and the bytes between them as they are. */
static void add_packed(gpur_copies *copies, const gpur_schema *schema, const unsigned char *rows)
{
    int64_t done = 0;
    for (int32_t f = 0; f < schema->count; f++) {
        const gpur_field_info *const field = &schema->fields[f];
        if (!schema->is_flag[f])
            continue;
        add_part(copies, schema, rows, done, field->offset);
        gpur_copies_add_flags(copies, rows + field->offset, schema->row_bytes, field->offset, field->bytes);
        done = field->offset + field->bytes;
    }
    add_part(copies, schema, rows, done, schema->row_bytes);
}

gpur_status gpur_feed_packed(gpur_feed *feed, const void *rows, int64_t count)
{
    gpur_copies copies;
    copies.count = copies.units = 0;
    add_packed(&copies, feed->schema, rows);
    return feed_scattered(feed, &copies, NULL, count);
}

gpur_status gpur_feed_arrays(gpur_feed *feed, const void *const *fields, int64_t count)
{
    const gpur_schema *const schema = feed->schema;
    gpur_copies copies;
    copies.count = copies.units = 0;
    for (int32_t i = 0; i < schema->count; i++)
        if (i != feed->clipped)
            (schema->is_flag[i] ? gpur_copies_add_flags : gpur_copies_add)(
                &copies, fields[i], schema->fields[i].bytes, schema->fields[i].offset, schema->fields[i].bytes);
    return feed_scattered(feed, &copies, feed->clipped < 0 ? NULL : fields[feed->clipped], count);
}

gpur_status gpur_feed_begin_turn(gpur_feed *feed)
{
    GPUR_TRY(show(feed));
    feed->launching = feed->unread = 1;
    return GPUR_OK;
}

gpur_status gpur_feed_begin_launch(gpur_feed *feed)
{
    GPUR_TRY(publish_soon(feed));
    gpur_feed_hasten(feed);
    GPUR_TRY(gpur_feed_begin_turn(feed));
    feed->launches++;
    return GPUR_OK;
}

gpur_status gpur_feed_begin_look(gpur_feed *feed, int hasten)
{
    if (hasten)
        gpur_feed_hasten(feed);
    const int64_t looked = feed->looked + feed->soon;
    GPUR_TRY(publish_soon(feed));
    feed->looked = hasten ? 0 : looked;
    return gpur_feed_begin_turn(feed);
}

gpur_status gpur_feed_set_window(gpur_feed *feed, int64_t first_id, int64_t count)
{
    const gpur_window window = {.first_id = first_id, .first_slot = first_id % feed->capacity, .count = count};
    const gpur_window_set_args args = {.window = feed->window, .value = window};
    feed->mirror = feed->shown = window;
    feed->stale = 0;
    return gpur_launch_window_set(feed->consumer, gpur_grid_single(feed->device), &args);
}

void gpur_feed_end_launch(gpur_feed *feed)
{
    feed->launching = 0;
}
