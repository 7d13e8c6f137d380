/* SPDX-License-Identifier: MIT */
#include "replay/storage/window.h"

#include "replay/config.h"
#include "replay/plan.h"

#include <assert.h>

gpur_status gpur_window_build(gpur_window_state *window, const gpur_storage *storage)
{
    window->storage = storage;
    GPUR_TRY(gpur_memory_alloc(storage->device, GPUR_WINDOW_BYTES, "the visible window", (void **)&window->device));
    return gpur_event_create(storage->device, &window->reads_done);
}

void gpur_window_destroy(gpur_window_state *window)
{
    if (!window->storage)
        return;
    gpur_event_destroy(window->reads_done);
    gpur_memory_free(window->storage->device, window->device);
}

static gpur_status launch_set(const gpur_window_state *window, const gpur_window *value)
{
    const gpur_window_set_args args = {.window = window->device, .value = *value};
    return gpur_launch_window_set(window->storage->consumer_stream, gpur_grid_single(window->storage->device), &args);
}

/* Lists the episodes that end with the rows that the device's window has beyond the old one. */
static gpur_status list_episodes(const gpur_window_state *window, const gpur_window *old)
{
    const gpur_window *const now = &window->host;
    const int64_t end = old->first_id + old->count, first = end > now->first_id ? end : now->first_id;
    return gpur_hindsight_list_rows(window->storage->hindsight, window->storage->consumer_stream, first,
                                    now->first_id + now->count - first);
}

/* Sends the window to the device if it has changed, updates the priorities of the rows that enter or leave it, and
 * lists the episodes that end. Several changes on the host are sent as one, since no launch could see the window in
 * between. */
static gpur_status send(gpur_window_state *window)
{
    gpur_stream *const stream = window->storage->consumer_stream;
    if (!window->is_dirty)
        return GPUR_OK;
    const gpur_window old = window->sent;
    window->is_dirty = 0;
    window->sent = window->host;
    GPUR_TRY(gpur_priorities_evict(window->storage->priorities, stream, &old, &window->host));
    GPUR_TRY(launch_set(window, &window->host));
    GPUR_TRY(gpur_priorities_insert(window->storage->priorities, stream, &old, &window->host));
    return list_episodes(window, &old);
}

void gpur_window_publish_all_next(gpur_window_state *window)
{
    if (window->due_launch_after.rows == 0)
        return;
    window->due_next_launch.rows += window->due_launch_after.rows;
    window->due_next_launch.copied =
        window->due_launch_after.copied; /* copies finish in the order of their enqueuing */
    window->due_launch_after.rows = 0;
}

static gpur_status publish_next(gpur_window_state *window)
{
    const int64_t rows = window->due_next_launch.rows;
    window->refreshed = 0;
    if (rows == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_stream_wait(window->storage->consumer_stream, window->due_next_launch.copied));
    window->host.count += rows;
    window->published += rows;
    window->due_next_launch.rows = 0;
    window->is_dirty = 1;
    return GPUR_OK;
}

/* Before `rows` rows are evicted: if some of them were never in the device's window, rows contain priorities and the
 * largest one ever given counts, sends the window first. One of these rows may have that priority, which later rows
 * without a valid priority get, and that must not depend on whether a refresh came in between. The copies that
 * overwrite these rows must then wait until their priorities have been read. */
static gpur_status send_unseen(gpur_window_state *window, int64_t rows)
{
    const int64_t seen = window->sent.first_id + window->sent.count;
    const gpur_priorities *const priorities = window->storage->priorities;
    if (!gpur_priorities_from_rows(priorities) || !priorities->tree.first_ever || window->host.first_id + rows <= seen)
        return GPUR_OK;
    window->reads_unrecorded = 1;
    return send(window);
}

/* Evicts `rows` rows, the oldest or by priority. While a launch is being enqueued, its remaining gathers must see the
 * smaller window, so it is sent at once. The draw by priority reads the window on the device. So the window is sent
 * before the draw and after it, and copies into the slots of the drawn rows wait for the draw. */
static gpur_status evict(gpur_window_state *window, int64_t rows)
{
    const int by_priority = window->storage->config->eviction == GPUR_EVICT_BY_PRIORITY;
    GPUR_TRY(by_priority ? send(window) : send_unseen(window, rows));
    window->host.first_id += rows;
    window->host.first_slot = window->host.first_id % window->storage->config->capacity;
    window->host.count -= rows;
    window->evicted += rows;
    window->is_dirty = 1;
    window->reads_unrecorded |= by_priority;
    if (window->launch_open || by_priority)
        GPUR_TRY(send(window));
    if (!window->reads_unrecorded)
        return GPUR_OK;
    window->reads_unrecorded = window->launch_open;
    GPUR_TRY(gpur_event_record(window->reads_done, window->storage->consumer_stream));
    return gpur_stream_wait(window->storage->copy_stream, window->reads_done);
}

/* How many of the oldest rows must be evicted if `held` rows and all frames before `head` are to be stored. */
static int64_t rows_to_evict(const gpur_window_state *window, int64_t held, int64_t head)
{
    const gpur_frame_index *const index = window->storage->frame_index;
    const int64_t excess = held - window->storage->config->capacity, first = window->host.first_id;
    const int64_t for_frames = index->groups ? gpur_frame_index_first_live_row(index, first, head) - first : 0;
    const int64_t rows = excess > for_frames ? excess : for_frames;
    return rows > 0 ? rows : 0;
}

/* Visible rows and uploaded ones. */
static int64_t rows_held(const gpur_window_state *window)
{
    return window->host.count + window->due_next_launch.rows + window->due_launch_after.rows;
}

gpur_window gpur_window_visible(const gpur_window_state *window, int64_t staged)
{
    gpur_window visible = window->host;
    visible.count += window->due_next_launch.rows;
    if (window->storage->config->flush == GPUR_FLUSH_AUTO) {
        visible.count += window->due_launch_after.rows + staged;
        const int64_t leaving = rows_to_evict(window, visible.count, window->storage->frame_index->head);
        visible.first_id += leaving;
        visible.first_slot = visible.first_id % window->storage->config->capacity;
        visible.count -= leaving;
    }
    return visible;
}

/* 1 if uploading `rows` more rows could leave fewer rows visible than gpur_kept_rows says. */
static int is_crowded(const gpur_window_state *window, int64_t rows)
{
    const int64_t unpublished = window->due_next_launch.rows + window->refreshed + window->due_launch_after.rows;
    return unpublished + rows + gpur_kept_rows(window->storage->config) > window->storage->layout->guaranteed_rows;
}

int gpur_window_would_wait(const gpur_window_state *window, int64_t rows)
{
    return window->launch_open &&
           (is_crowded(window, rows) || rows_to_evict(window, rows_held(window) + rows, window->frame_head) > 0);
}

/* Publishes the uploaded rows that a launch would see, or if `all`, all of them. */
static gpur_status publish_uploaded(gpur_window_state *window, int all)
{
    if (all || window->storage->config->flush == GPUR_FLUSH_AUTO)
        gpur_window_publish_all_next(window);
    return publish_next(window);
}

gpur_status gpur_window_reserve(gpur_window_state *window, int64_t rows, int64_t frames, gpur_reservation *to)
{
    assert(rows >= 1 && rows <= window->storage->config->block_rows);
    const int64_t held = rows_held(window);
    const int64_t leaving = rows_to_evict(window, held + rows, window->frame_head + frames);
    if (is_crowded(window, rows) || (leaving > 0 && window->storage->config->eviction == GPUR_EVICT_BY_PRIORITY))
        GPUR_TRY(publish_uploaded(window, is_crowded(window, rows)));
    assert(leaving <= window->host.count);
    to->first_slot = (window->host.first_id + held) % window->storage->config->capacity;
    to->first_frame = window->frame_head;
    to->after_next = window->due_launch_after.rows > 0 || (leaving > 0 && window->launches > 0);
    window->frame_head += frames;
    return leaving > 0 ? evict(window, leaving) : GPUR_OK;
}

void gpur_window_uploaded(gpur_window_state *window, int64_t rows, const gpur_reservation *to, gpur_event *copied)
{
    gpur_pending_rows *const due = to->after_next ? &window->due_launch_after : &window->due_next_launch;
    due->rows += rows;
    due->copied = copied;
}

gpur_status gpur_window_begin_without_publishing(gpur_window_state *window)
{
    GPUR_TRY(send(window));
    window->launch_open = window->reads_unrecorded = 1;
    return GPUR_OK;
}

gpur_status gpur_window_begin_launch(gpur_window_state *window)
{
    GPUR_TRY(publish_next(window));
    gpur_window_publish_all_next(window);
    GPUR_TRY(gpur_window_begin_without_publishing(window));
    window->launches++;
    return GPUR_OK;
}

gpur_status gpur_window_begin_refresh(gpur_window_state *window, int publish_all)
{
    if (publish_all)
        gpur_window_publish_all_next(window);
    const int64_t refreshed = window->refreshed + window->due_next_launch.rows;
    GPUR_TRY(publish_next(window));
    window->refreshed = publish_all ? 0 : refreshed;
    return gpur_window_begin_without_publishing(window);
}

void gpur_window_end_launch(gpur_window_state *window)
{
    window->launch_open = 0;
}

gpur_status gpur_window_trim(gpur_window_state *window, int64_t keep)
{
    const int64_t leaving = window->host.count - keep;
    return leaving > 0 ? evict(window, leaving) : GPUR_OK;
}

gpur_status gpur_window_set(gpur_window_state *window, int64_t first_id, int64_t count)
{
    const gpur_window value = {
        .first_id = first_id, .first_slot = first_id % window->storage->config->capacity, .count = count};
    window->host = window->sent = value;
    window->is_dirty = 0;
    GPUR_TRY(launch_set(window, &value));
    return gpur_hindsight_restore(window->storage->hindsight, window->storage->consumer_stream, &value);
}
