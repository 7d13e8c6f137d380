/* SPDX-License-Identifier: MIT */
#include "replay/feed.h"

#include "replay/config.h"
#include "replay/copies.h"

#include <assert.h>
#include <string.h>

enum { CACHED_RING_BYTES = 8 << 20 };
enum { TEAM_BYTES = 8 << 20 }; /* rows that several threads take in so much sooner that waiting for busy cores pays */

gpur_status gpur_feed_build(gpur_feed *feed, gpur_device *device, const gpur_replay_config *config,
                            const gpur_schema *schema, const gpur_replay_plan *plan)
{
    feed->device = device;
    feed->schema = schema;
    feed->capacity = config->capacity;
    feed->max_batch = config->max_batch;
    feed->block_rows = config->update_size;
    feed->clipped = gpur_clipped_field(config, schema);
    feed->reward_clip = config->reward_clip;
    GPUR_TRY(gpur_memory_alloc(device, plan->ring_bytes, "the ring of transitions", (void **)&feed->ring));
    GPUR_TRY(gpur_memory_alloc(device, GPUR_WINDOW_BYTES, "the visible window", (void **)&feed->window));
    if (config->feed == GPUR_FEED_SCATTER)
        GPUR_TRY(gpur_memory_alloc(device, plan->feed_bytes - GPUR_WINDOW_BYTES, "the scatter feed's block",
                                   (void **)&feed->block));
    GPUR_TRY(gpur_stream_create_main(device, &feed->consumer));
    GPUR_TRY(gpur_stream_create(device, &feed->copier));
    GPUR_TRY(gpur_event_create(device, &feed->read));
    return gpur_event_create(device, &feed->from_arrays);
}

void gpur_feed_destroy(gpur_feed *feed)
{
    gpur_stream_destroy(feed->copier);
    gpur_stream_destroy(feed->consumer);
    gpur_event_destroy(feed->read);
    gpur_event_destroy(feed->from_arrays);
    gpur_memory_free(feed->device, feed->block);
    gpur_memory_free(feed->device, feed->window);
    gpur_memory_free(feed->device, feed->ring);
}

/* Changes that nobody could have seen in between go to the device as one. */
static gpur_status show(gpur_feed *feed)
{
    if (!feed->stale)
        return GPUR_OK;
    const gpur_window_set_args args = {.window = feed->window, .value = feed->mirror};
    feed->stale = 0;
    return gpur_launch_window_set(feed->consumer, gpur_grid_single(feed->device), &args);
}

void gpur_feed_hasten(gpur_feed *feed)
{
    if (feed->late == 0)
        return;
    feed->soon += feed->late;
    feed->soon_copied = feed->late_copied; /* copies end in the order of their enqueuing */
    feed->late = 0;
}

static gpur_status publish_soon(gpur_feed *feed)
{
    if (feed->soon == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_stream_wait(feed->consumer, feed->soon_copied));
    feed->mirror.count += feed->soon;
    feed->published += feed->soon;
    feed->soon = 0;
    feed->stale = 1;
    return GPUR_OK;
}

/* The `count` oldest rows leave the window. In the midst of a launch its later gathers must know, hence `show`. */
static gpur_status evict(gpur_feed *feed, int64_t count)
{
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

/* Rows that are not in the window yet would not leave it max_batch rows. */
static int is_crowded(const gpur_feed *feed, int64_t count)
{
    return feed->soon + feed->late + count + feed->max_batch > feed->capacity;
}

/* By how much they are too many for the ring. */
static int64_t excess_of(const gpur_feed *feed, int64_t count)
{
    return feed->mirror.count + feed->soon + feed->late + count - feed->capacity;
}

int gpur_feed_meets_launch(const gpur_feed *feed, int64_t count)
{
    return feed->launching && (is_crowded(feed, count) || excess_of(feed, count) > 0);
}

/* Makes room and tells where. `late` says whether the copy will have to wait for a launch: it is then worth to let the
 * next launch go ahead without these rows. */
static gpur_status reserve(gpur_feed *feed, int64_t count, int64_t *first_slot, int *late)
{
    assert(count >= 1 && count <= feed->block_rows);
    if (is_crowded(feed, count)) {
        gpur_feed_hasten(feed);
        GPUR_TRY(publish_soon(feed));
    }
    const int64_t held = feed->mirror.count + feed->soon + feed->late;
    const int64_t excess = excess_of(feed, count);
    *first_slot = (feed->mirror.first_id + held) % feed->capacity;
    *late = feed->late > 0 || (excess > 0 && feed->launches > 0);
    return excess > 0 ? evict(feed, excess) : GPUR_OK;
}

/* Behind the copy: it is now in flight. */
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

/* A ring that the caches hold stays there. Of a larger one a draw seldom wants what came last. */
static int is_large(const gpur_feed *feed)
{
    return feed->capacity * feed->schema->pitch > CACHED_RING_BYTES;
}

/* A team of the CPU's threads waits for the last of them, however many others want its core: the caller is done with
 * most blocks sooner alone. */
static gpur_grid grid_of(const gpur_feed *feed, int64_t count, int32_t tile)
{
    const int64_t pitch = feed->schema->pitch;
    const int is_alone = !gpur_device_is_cuda(feed->device) && count * pitch < TEAM_BYTES;
    return gpur_grid_rows(feed->device, count, tile, is_alone ? 0 : pitch);
}

/* `rewards` NULL: none is clipped. */
static gpur_status scatter(gpur_feed *feed, const gpur_copies *copies, const void *rewards, int64_t first_slot,
                           int64_t count)
{
    const int64_t pitch = feed->schema->pitch;
    gpur_scatter_args args = {
        .ring = feed->ring,
        .pitch = pitch,
        .capacity = feed->capacity,
        .first_slot = first_slot,
        .rows = count,
        .rewards = rewards,
        .reward_offset = rewards ? (int32_t)feed->schema->fields[feed->clipped].offset : 0,
        .reward_clip = feed->reward_clip,
        .past = is_large(feed) && (!rewards || pitch > GPUR_TILE_BYTES), /* a tile has no clipped ones */
        .tile = gpur_tile_rows(pitch),
        .copy_count = copies->count,
        .units = copies->units,
    };
    memcpy(args.copies, copies->list, sizeof args.copies);
    return gpur_launch_scatter(feed->copier, grid_of(feed, count, args.tile), &args);
}

static gpur_status copy_run(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count)
{
    const int64_t pitch = feed->schema->pitch;
    unsigned char *const to = feed->ring + first_slot * pitch;
    return (is_large(feed) ? gpur_copy_past : gpur_copy)(feed->copier, to, rows, count * pitch);
}

/* In one run, or in two at the ring's end. */
static gpur_status copy_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count)
{
    const int64_t to_end = feed->capacity - first_slot, head = count < to_end ? count : to_end;
    GPUR_TRY(copy_run(feed, rows, first_slot, head));
    return head == count ? GPUR_OK : copy_run(feed, rows + head * feed->schema->pitch, 0, count - head);
}

static gpur_status scatter_rows(gpur_feed *feed, const unsigned char *rows, int64_t first_slot, int64_t count)
{
    const int64_t pitch = feed->schema->pitch;
    gpur_copies copies = {0};
    gpur_copies_add(&copies, feed->block, pitch, 0, pitch);
    GPUR_TRY(gpur_copy(feed->copier, feed->block, rows, count * pitch));
    return scatter(feed, &copies, NULL, first_slot, count);
}

gpur_status gpur_feed_rows(gpur_feed *feed, const void *rows, int64_t count, gpur_event *copied)
{
    int64_t first_slot = 0;
    int late = 0;
    GPUR_TRY(reserve(feed, count, &first_slot, &late));
    GPUR_TRY((feed->block ? scatter_rows : copy_rows)(feed, rows, first_slot, count));
    feed->bytes += count * feed->schema->pitch;
    return fed(feed, count, late, copied);
}

static gpur_status feed_scattered(gpur_feed *feed, const gpur_copies *copies, const void *rewards, int64_t count)
{
    int64_t first_slot = 0;
    int late = 0;
    GPUR_TRY(reserve(feed, count, &first_slot, &late));
    GPUR_TRY(scatter(feed, copies, rewards, first_slot, count));
    return fed(feed, count, late, feed->from_arrays);
}

gpur_status gpur_feed_packed(gpur_feed *feed, const void *rows, int64_t count)
{
    gpur_copies copies = {0};
    gpur_copies_add(&copies, rows, feed->schema->row_bytes, 0, feed->schema->row_bytes);
    return feed_scattered(feed, &copies, NULL, count);
}

gpur_status gpur_feed_arrays(gpur_feed *feed, const void *const *fields, int64_t count)
{
    const gpur_schema *const schema = feed->schema;
    gpur_copies copies = {0};
    for (int32_t i = 0; i < schema->count; i++)
        if (i != feed->clipped)
            gpur_copies_add(&copies, fields[i], schema->fields[i].bytes, schema->fields[i].offset,
                            schema->fields[i].bytes);
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

void gpur_feed_end_launch(gpur_feed *feed)
{
    feed->launching = 0;
}
