/* SPDX-License-Identifier: MIT */
#include "replay/feed.h"

#include "replay/config.h"
#include "replay/feed_copy.h"

#include <assert.h>
#include <string.h>

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

/* Changes that nobody could have seen in between go to the device as one. */
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
    feed->soon_copied = feed->late_copied; /* copies end in the order of their enqueuing */
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

/* Rows that leave before the device has been told of them may have brought a priority above all before, and later rows
 * get the largest, whoever has looked meanwhile. The copies that overwrite them must then wait for the reading. */
static gpur_status count_unseen(gpur_feed *feed, int64_t count)
{
    const int64_t seen = feed->shown.first_id + feed->shown.count;
    if (!gpur_priorities_brings(&feed->priorities) || feed->mirror.first_id + count <= seen)
        return GPUR_OK;
    feed->unread = 1;
    return show(feed);
}

/* The `count` oldest rows leave the window. In the midst of a launch its later gathers must know, hence `show`. */
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

/* Where rows go, and their frames. */
typedef struct place {
    int64_t first_slot, first_frame;
    int late; /* the copy will have to wait for a launch: it is then worth to let the next one go ahead without it */
} place;

/* Rows that are not in the window yet would not leave it max_batch rows. */
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

/* Makes room and tells where. */
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

/* Part of packed rows, from byte `begin` to before byte `end` of each. */
static void add_part(gpur_copies *copies, const gpur_schema *schema, const unsigned char *rows, int64_t begin,
                     int64_t end)
{
    if (begin < end)
        gpur_copies_add(copies, rows + begin, schema->row_bytes, begin, end - begin);
}

/* In one piece but for the flags, and what lies between them. */
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
