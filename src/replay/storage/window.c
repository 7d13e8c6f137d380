/* SPDX-License-Identifier: MIT */
#include "replay/storage/window.h"

#include "replay/replay.h"

#include <assert.h>

gpur_status gpur_window_build(gpur_replay *replay)
{
    GPUR_TRY(
        gpur_memory_alloc(replay->device, GPUR_WINDOW_BYTES, "the visible window", (void **)&replay->window.device));
    return gpur_event_create(replay->device, &replay->window.reads_done);
}

void gpur_window_destroy(gpur_replay *replay)
{
    gpur_event_destroy(replay->window.reads_done);
    gpur_memory_free(replay->device, replay->window.device);
}

static gpur_status launch_set(const gpur_replay *replay, const gpur_window *value)
{
    const gpur_window_set_args args = {.window = replay->window.device, .value = *value};
    return gpur_launch_window_set(replay->consumer.stream, gpur_grid_single(replay->device), &args);
}

/* Sends the window to the device if it has changed, and updates the priorities of the rows that enter or leave it.
 * Several changes on the host are sent as one, since no launch could see the window in between. */
static gpur_status send(gpur_replay *replay)
{
    gpur_window_state *const window = &replay->window;
    gpur_stream *const stream = replay->consumer.stream;
    if (!window->is_dirty)
        return GPUR_OK;
    const gpur_window old = window->sent;
    window->is_dirty = 0;
    window->sent = window->host;
    GPUR_TRY(gpur_priorities_evict(&replay->priorities, stream, &old, &window->host));
    GPUR_TRY(launch_set(replay, &window->host));
    return gpur_priorities_insert(&replay->priorities, stream, &old, &window->host);
}

void gpur_window_publish_all_next(gpur_replay *replay)
{
    gpur_window_state *const window = &replay->window;
    if (window->due_launch_after.rows == 0)
        return;
    window->due_next_launch.rows += window->due_launch_after.rows;
    window->due_next_launch.copied =
        window->due_launch_after.copied; /* copies finish in the order of their enqueuing */
    window->due_launch_after.rows = 0;
}

static gpur_status publish_next(gpur_replay *replay)
{
    gpur_window_state *const window = &replay->window;
    const int64_t rows = window->due_next_launch.rows;
    window->refreshed = 0;
    if (rows == 0)
        return GPUR_OK;
    GPUR_TRY(gpur_stream_wait(replay->consumer.stream, window->due_next_launch.copied));
    window->host.count += rows;
    window->published += rows;
    window->due_next_launch.rows = 0;
    window->is_dirty = 1;
    return GPUR_OK;
}

/* Before `rows` rows are evicted: if some of them were never in the device's window, rows contain priorities and the
 * largest one ever given counts, sends the window first. One of these rows may have that priority, which later rows
 * without a valid priority get, and that must not depend on whether a refresh came in between. The copies that overwrite these rows must then
 * wait until their priorities have been read. */
static gpur_status send_unseen(gpur_replay *replay, int64_t rows)
{
    gpur_window_state *const window = &replay->window;
    const int64_t seen = window->sent.first_id + window->sent.count;
    if (!gpur_priorities_from_rows(&replay->priorities) || !replay->priorities.tree.first_ever || window->host.first_id + rows <= seen)
        return GPUR_OK;
    window->reads_unrecorded = 1;
    return send(replay);
}

/* Evicts `rows` rows, the oldest or by priority. While a launch is being enqueued, its remaining gathers must see the
 * smaller window, so it is sent at once. The draw by priority reads the window on the device. So the window is sent
 * before the draw and after it, and copies into the slots of the drawn rows wait for the draw. */
static gpur_status evict(gpur_replay *replay, int64_t rows)
{
    gpur_window_state *const window = &replay->window;
    const int by_priority = replay->config.eviction == GPUR_EVICT_BY_PRIORITY;
    GPUR_TRY(by_priority ? send(replay) : send_unseen(replay, rows));
    window->host.first_id += rows;
    window->host.first_slot = window->host.first_id % replay->config.capacity;
    window->host.count -= rows;
    window->evicted += rows;
    window->is_dirty = 1;
    window->reads_unrecorded |= by_priority;
    if (window->launch_open || by_priority)
        GPUR_TRY(send(replay));
    if (!window->reads_unrecorded)
        return GPUR_OK;
    window->reads_unrecorded = window->launch_open;
    GPUR_TRY(gpur_event_record(window->reads_done, replay->consumer.stream));
    return gpur_stream_wait(replay->ring.copy_stream, window->reads_done);
}

/* How many of the oldest rows must be evicted if `held` rows and all frames before `head` are to be stored. */
static int64_t rows_to_evict(const gpur_replay *replay, int64_t held, int64_t head)
{
    const int64_t excess = held - replay->config.capacity, first = replay->window.host.first_id;
    const int64_t for_frames =
        replay->ring.frames ? gpur_frame_index_first_live_row(&replay->frame_index, first, head) - first : 0;
    const int64_t rows = excess > for_frames ? excess : for_frames;
    return rows > 0 ? rows : 0;
}

/* Visible rows and uploaded ones. */
static int64_t rows_held(const gpur_window_state *window)
{
    return window->host.count + window->due_next_launch.rows + window->due_launch_after.rows;
}

gpur_window gpur_window_visible(const gpur_replay *replay)
{
    const gpur_window_state *const window = &replay->window;
    gpur_window visible = window->host;
    visible.count += window->due_next_launch.rows;
    if (replay->config.flush == GPUR_FLUSH_AUTO) {
        visible.count += window->due_launch_after.rows + replay->ingest.staged;
        const int64_t leaving = rows_to_evict(replay, visible.count, replay->frame_index.head);
        visible.first_id += leaving;
        visible.first_slot = visible.first_id % replay->config.capacity;
        visible.count -= leaving;
    }
    return visible;
}

/* 1 if uploading `rows` more rows could leave fewer rows visible than gpur_kept_rows says. */
static int is_crowded(const gpur_replay *replay, int64_t rows)
{
    const gpur_window_state *const window = &replay->window;
    const int64_t unpublished = window->due_next_launch.rows + window->refreshed + window->due_launch_after.rows;
    return unpublished + rows + gpur_kept_rows(&replay->config) > replay->layout.guaranteed_rows;
}

int gpur_window_would_wait(const gpur_replay *replay, int64_t rows)
{
    const gpur_window_state *const window = &replay->window;
    return window->launch_open &&
           (is_crowded(replay, rows) || rows_to_evict(replay, rows_held(window) + rows, window->frame_head) > 0);
}

/* Publishes the uploaded rows that a launch would see, or if `all`, all of them. */
static gpur_status publish_uploaded(gpur_replay *replay, int all)
{
    if (all || replay->config.flush == GPUR_FLUSH_AUTO)
        gpur_window_publish_all_next(replay);
    return publish_next(replay);
}

gpur_status gpur_window_reserve(gpur_replay *replay, int64_t rows, int64_t frames, gpur_reservation *to)
{
    gpur_window_state *const window = &replay->window;
    assert(rows >= 1 && rows <= replay->config.block_rows);
    const int64_t held = rows_held(window);
    const int64_t leaving = rows_to_evict(replay, held + rows, window->frame_head + frames);
    if (is_crowded(replay, rows) || (leaving > 0 && replay->config.eviction == GPUR_EVICT_BY_PRIORITY))
        GPUR_TRY(publish_uploaded(replay, is_crowded(replay, rows)));
    assert(leaving <= window->host.count);
    to->first_slot = (window->host.first_id + held) % replay->config.capacity;
    to->first_frame = window->frame_head;
    to->after_next = window->due_launch_after.rows > 0 || (leaving > 0 && window->launches > 0);
    window->frame_head += frames;
    return leaving > 0 ? evict(replay, leaving) : GPUR_OK;
}

void gpur_window_uploaded(gpur_replay *replay, int64_t rows, const gpur_reservation *to, gpur_event *copied)
{
    gpur_window_state *const window = &replay->window;
    gpur_pending_rows *const due = to->after_next ? &window->due_launch_after : &window->due_next_launch;
    due->rows += rows;
    due->copied = copied;
}

gpur_status gpur_window_begin_without_publishing(gpur_replay *replay)
{
    GPUR_TRY(send(replay));
    replay->window.launch_open = replay->window.reads_unrecorded = 1;
    return GPUR_OK;
}

gpur_status gpur_window_begin_launch(gpur_replay *replay)
{
    GPUR_TRY(publish_next(replay));
    gpur_window_publish_all_next(replay);
    GPUR_TRY(gpur_window_begin_without_publishing(replay));
    replay->window.launches++;
    return GPUR_OK;
}

gpur_status gpur_window_begin_refresh(gpur_replay *replay, int publish_all)
{
    gpur_window_state *const window = &replay->window;
    if (publish_all)
        gpur_window_publish_all_next(replay);
    const int64_t refreshed = window->refreshed + window->due_next_launch.rows;
    GPUR_TRY(publish_next(replay));
    window->refreshed = publish_all ? 0 : refreshed;
    return gpur_window_begin_without_publishing(replay);
}

void gpur_window_end_launch(gpur_replay *replay)
{
    replay->window.launch_open = 0;
}

gpur_status gpur_window_trim(gpur_replay *replay, int64_t keep)
{
    const int64_t leaving = replay->window.host.count - keep;
    return leaving > 0 ? evict(replay, leaving) : GPUR_OK;
}

gpur_status gpur_window_set(gpur_replay *replay, int64_t first_id, int64_t count)
{
    gpur_window_state *const window = &replay->window;
    const gpur_window value = {.first_id = first_id, .first_slot = first_id % replay->config.capacity, .count = count};
    window->host = window->sent = value;
    window->is_dirty = 0;
    return launch_set(replay, &value);
}
