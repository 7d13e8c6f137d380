/* SPDX-License-Identifier: MIT */
/* The replay handle: create, destroy, and functions that only read it. */
#include "replay/replay.h"

#include "base/numbers.h"
#include "base/sized.h"
#include "gpureplay/lanes.h"
#include "replay/checkpoint/writers.h"
#include "replay/finite.h"
#include "replay/view.h"

#include <inttypes.h>

static gpur_storage storage_of(gpur_replay *replay)
{
    return (gpur_storage){
        .device = replay->device,
        .config = &replay->config,
        .layout = &replay->layout,
        .window_lock = &replay->window_lock,
        .consumer_stream = replay->consumer.stream,
        .copy_stream = replay->copy_stream,
        .priorities = &replay->priorities,
        .hindsight = &replay->hindsight,
        .frame_index = &replay->frame_index,
    };
}

static gpur_status build_lanes(gpur_replay *replay)
{
    const gpur_lane_config config = gpur_lane_config_of(&replay->config);
    GPUR_TRY(gpur_priorities_build(&replay->priorities, replay->device, &replay->config, &replay->schema, NULL,
                                   replay->window.device, replay->consumer.stream));
    return gpur_lane_store_build(&replay->lanes, replay->device, &replay->schema, &config, &replay->priorities,
                                 replay->window.device);
}

static gpur_status replay_build(gpur_replay *replay)
{
    const gpur_replay_plan plan = gpur_plan(&replay->config, &replay->schema, &replay->layout);
    gpur_device *const device = replay->device;
    const gpur_replay_config *const c = &replay->config;
    const int64_t tracked = c->capacity + c->staging_blocks * c->block_rows; /* rows, staged ones included */
    GPUR_TRY(gpur_plan_check_fits(&plan, &replay->config, &replay->schema, device));
    GPUR_TRY(gpur_mutex_open(&replay->window_lock, "a replay"));
    GPUR_TRY(gpur_consumer_build(replay));
    GPUR_TRY(gpur_stream_create(device, &replay->copy_stream));
    replay->storage = storage_of(replay);
    GPUR_TRY(gpur_window_build(&replay->window, &replay->storage));
    if (c->layout == GPUR_LAYOUT_LANES)
        return build_lanes(replay);
    GPUR_TRY(gpur_ring_build(&replay->ring, &replay->storage, &replay->window, &plan));
    GPUR_TRY(gpur_priorities_build(&replay->priorities, device, &replay->config, &replay->layout.rows,
                                   replay->ring.rows, replay->window.device, replay->consumer.stream));
    GPUR_TRY(gpur_hindsight_build(&replay->hindsight, device, c, &replay->layout.rows, replay->ring.rows,
                                  replay->window.device, replay->consumer.stream));
    replay->config.hindsight = NULL;
    GPUR_TRY(gpur_frame_index_build(&replay->frame_index, device, &replay->layout.frame_layout, tracked));
    GPUR_TRY(gpur_ingest_build(&replay->ingest, &replay->storage, &replay->ring));
    const gpur_batch_extent extent = {2 * replay->layout.frame_layout.stack, replay->hindsight.device != NULL};
    return gpur_pool_create(device, &replay->schema, extent, replay->config.max_batch, &replay->pool);
}

gpur_status gpur_replay_create(gpur_device *device, const gpur_replay_config *config, gpur_replay **out)
{
    gpur_replay_config checked;
    gpur_schema schema;
    GPUR_REQUIRE(out, "replay is NULL; it must be where the handle goes");
    *out = NULL;
    GPUR_REQUIRE(device, "device is NULL; open one with gpur_device_open");
    GPUR_TRY(gpur_replay_config_check(config, &checked, &schema));
    gpur_replay *const replay = gpur_host_alloc(device, sizeof *replay);
    if (!replay)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a replay handle of %zu bytes", sizeof *replay);
    gpur_device_retain(device);
    replay->device = device;
    replay->config = checked;
    replay->schema = schema;
    replay->layout = gpur_ring_layout_of(&checked, &schema);
    const gpur_status status = replay_build(replay);
    if (status != GPUR_OK) {
        gpur_replay_destroy(replay);
        return status;
    }
    *out = replay;
    return GPUR_OK;
}

void gpur_replay_destroy(gpur_replay *replay)
{
    if (!replay)
        return;
    gpur_device *const device = replay->device;
    gpur_stream_destroy(replay->copy_stream); /* waits for its enqueued work, which uses the rest */
    gpur_stream_destroy(replay->consumer.stream);
    gpur_ring_destroy(&replay->ring);
    gpur_lane_store_destroy(&replay->lanes);
    gpur_consumer_destroy(replay);
    gpur_window_destroy(&replay->window);
    gpur_priorities_destroy(&replay->priorities);
    gpur_hindsight_destroy(&replay->hindsight);
    gpur_ingest_destroy(&replay->ingest);
    gpur_frame_index_destroy(&replay->frame_index);
    gpur_mutex_close(&replay->window_lock);
    gpur_writer_states_free(replay, replay->pending_states);
    gpur_pool_close(replay->pool);
    gpur_host_free(device, replay, sizeof *replay);
    gpur_device_release(device);
}

gpur_status gpur_replay_get_field(gpur_replay *replay, int32_t index, gpur_field_info *info)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_REQUIRE(index >= 0 && index < replay->schema.count, "field %d; there are %d fields", (int)index,
                 (int)replay->schema.count);
    return gpur_sized_write(info, &replay->schema.fields[index], sizeof *info, "gpur_field_info");
}

/* Of a replay of lanes, whose device must be asked; 0 if it fails. */
static int64_t lane_transitions(gpur_replay *replay)
{
    gpur_lane_stats stats = {.size = sizeof stats};
    return gpur_replay_get_lane_stats(replay, &stats, NULL) == GPUR_OK ? stats.transitions : 0;
}

int64_t gpur_replay_size(gpur_replay *replay)
{
    if (!replay)
        return 0;
    if (replay->lanes.device)
        return lane_transitions(replay);
    gpur_window_lock(replay);
    const int64_t size = gpur_replay_visible(replay).count;
    gpur_window_unlock(replay);
    return size;
}

/* The burn-in counts evicted rows, too: once it is reached it stays reached, although the window is smaller while a
 * block is being copied. */
int32_t gpur_replay_can_sample(gpur_replay *replay)
{
    if (!replay)
        return 0;
    if (replay->lanes.device)
        return lane_transitions(replay) > 0;
    const gpur_replay_config *const config = &replay->config;
    gpur_window_lock(replay);
    const int64_t size = gpur_replay_visible(replay).count;
    const int64_t ever = replay->window.evicted + size;
    gpur_window_unlock(replay);
    return size >= 1 && ever >= config->min_size;
}

typedef struct trim {
    gpur_replay *replay;
    int64_t keep;
} trim;

static gpur_status trim_locked(void *context)
{
    const trim *const t = context;
    return gpur_window_trim(&t->replay->window, t->keep);
}

gpur_status gpur_replay_trim(gpur_replay *replay, int64_t keep)
{
    trim t = {replay, keep};
    gpur_stream *stream = NULL;
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "gpur_replay_trim"));
    GPUR_REQUIRE(keep >= 0 && keep <= replay->config.capacity,
                 "keep is %" PRId64 "; it must be 0 to capacity = %" PRId64, keep, replay->config.capacity);
    GPUR_TRY(gpur_consumer_begin(replay, gpur_consumer_refresh, &stream));
    return gpur_consumer_end(replay, gpur_with_window_locked(replay, trim_locked, &t));
}

gpur_status gpur_replay_get_stats(gpur_replay *replay, gpur_replay_stats *given)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    GPUR_TRY(gpur_replay_refuse_lanes(replay, "gpur_replay_get_stats, in place of gpur_replay_get_lane_stats"));
    const gpur_ingest *const ingest = &replay->ingest;
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_window_lock(replay);
    const gpur_window visible = gpur_replay_visible(replay);
    stats.first_id = visible.first_id;
    stats.visible = visible.count;
    stats.appended = ingest->appended;
    stats.published = replay->window.published;
    stats.evicted = replay->window.evicted;
    stats.blocks = replay->ring.uploads;
    stats.truncated_on_close = ingest->truncated_on_close;
    stats.cut_on_load = replay->cut_on_load;
    stats.waits = ingest->waits;
    stats.wait_seconds = ingest->wait_seconds;
    stats.append_seconds = ingest->busy_seconds + ingest->wait_seconds;
    stats.bytes_uploaded = replay->ring.bytes;
    stats.frames_stored = replay->frame_index.head;
    gpur_window_unlock(replay);
    stats.sampled = atomic_load(&replay->sampled);
    gpur_pool_count(replay->pool, &stats.batches_alive, &stats.batches_made);
    return gpur_sized_write(given, &stats, sizeof stats, "gpur_replay_stats");
}

int gpur_replay_has_hindsight(const gpur_replay *replay)
{
    return replay->hindsight.device != NULL;
}

const gpur_lane_store *gpur_replay_lanes(const gpur_replay *replay)
{
    return replay->lanes.device ? &replay->lanes : NULL;
}

gpur_status gpur_replay_refuse_lanes(const gpur_replay *replay, const char *call)
{
    GPUR_REQUIRE(!replay->lanes.device,
                 "%s: the replay's layout is GPUR_LAYOUT_LANES (2), whose steps come from device memory and go there: "
                 "use gpur_replay_add_lanes and gpur_replay_draw_lanes, or another layout",
                 call);
    return GPUR_OK;
}

gpur_device *gpur_replay_device(gpur_replay *replay)
{
    return replay->device;
}

const gpur_schema *gpur_replay_schema(gpur_replay *replay)
{
    return &replay->schema;
}

const gpur_replay_config *gpur_replay_settings(gpur_replay *replay)
{
    return &replay->config;
}

const gpur_priorities *gpur_replay_priorities(gpur_replay *replay)
{
    return &replay->priorities;
}

gpur_stored_rows gpur_replay_stored_rows(const gpur_replay *replay)
{
    return (gpur_stored_rows){replay->window.device, replay->ring.rows, replay->layout.rows.pitch,
                              replay->config.capacity};
}

int32_t gpur_replay_stored_offset(const gpur_replay *replay, const char *field)
{
    const int32_t index = gpur_schema_find(&replay->schema, field);
    const int32_t stored = index < 0 ? -1 : replay->layout.stored[index];
    return stored < 0 ? -1 : (int32_t)replay->layout.rows.fields[stored].offset;
}

/* Looks at the actions of some rows in host memory. */
typedef gpur_status (*visit_actions)(void *context, const gpur_field_values *actions);

static gpur_status check_unit_actions(void *context, const gpur_field_values *actions)
{
    (void)context;
    return gpur_check_unit_actions(actions, GPUR_INVALID_ARGUMENT);
}

/* Copies `count` rows of the ring to the host, from a slot on, and visits their actions. The first is row `first` of
 * the window. */
static gpur_status visit_slots(const gpur_replay *replay, gpur_stream *stream, unsigned char *rows, int64_t slot,
                               int64_t count, int64_t first, visit_actions visit, void *context)
{
    const int64_t pitch = replay->layout.rows.pitch;
    const gpur_field_info *const action = &replay->schema.fields[gpur_schema_find(&replay->schema, "action")];
    const gpur_field_values values = {.at = rows + gpur_replay_stored_offset(replay, "action"),
                                      .count = count,
                                      .pitch = pitch,
                                      .bytes = action->bytes,
                                      .dtype = action->dtype,
                                      .name = action->name,
                                      .item = "row",
                                      .is_part = 1,
                                      .first = first};
    GPUR_TRY(gpur_copy(stream, rows, replay->ring.rows + slot * pitch, count * pitch));
    GPUR_TRY(gpur_stream_sync(stream));
    return visit(context, &values);
}

/* Of rows that were evicted by priority only the device knows which ones they are. */
static gpur_status visit_stored_actions(gpur_replay *replay, gpur_stream *stream, visit_actions visit, void *context)
{
    enum { CHUNK = 1 << 12 }; /* rows */
    const int64_t capacity = replay->config.capacity, bytes = CHUNK * replay->layout.rows.pitch;
    const gpur_window window = replay->window.host;
    gpur_status status = GPUR_OK;
    if (replay->config.eviction == GPUR_EVICT_BY_PRIORITY && replay->window.evicted > 0)
        return GPUR_OK;
    unsigned char *const rows = gpur_host_alloc(replay->device, (size_t)bytes);
    if (!rows)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no host memory for %" PRId64 " bytes of transitions", bytes);
    for (int64_t done = 0, count; done < window.count && status == GPUR_OK; done += count) {
        const int64_t slot = (window.first_id + done) % capacity;
        count = gpur_min(gpur_min(window.count - done, capacity - slot), CHUNK);
        status = visit_slots(replay, stream, rows, slot, count, done, visit, context);
    }
    gpur_host_free(replay->device, rows, (size_t)bytes);
    return status;
}

static gpur_status note_largest(void *context, const gpur_field_values *actions)
{
    return gpur_find_largest_action(actions, context);
}

gpur_status gpur_replay_find_largest_action(gpur_replay *replay, int64_t *largest)
{
    gpur_stream *stream = NULL;
    *largest = -1;
    GPUR_TRY(gpur_consumer_begin_exclusive(replay, &stream));
    return gpur_consumer_end_exclusive(replay, visit_stored_actions(replay, stream, note_largest, largest));
}

/* Requires the window lock. */
static void update_limit(gpur_replay *replay)
{
    int32_t smallest = 0;
    for (const gpur_action_limit *limit = replay->action_limits; limit; limit = limit->next)
        smallest = smallest == 0 || limit->actions < smallest ? limit->actions : smallest;
    atomic_store(&replay->actions, smallest);
}

gpur_status gpur_replay_limit_actions(gpur_replay *replay, gpur_action_limit *limit, int32_t actions)
{
    gpur_stream *stream = NULL;
    gpur_window_lock(replay);
    *limit = (gpur_action_limit){actions, replay->action_limits};
    replay->action_limits = limit;
    update_limit(replay);
    gpur_window_unlock(replay);
    if (actions != GPUR_UNIT_ACTIONS || replay->lanes.device)
        return GPUR_OK; /* train steps leave out and count others; arrays on the device are not searched */
    gpur_status status = gpur_consumer_begin_exclusive(replay, &stream);
    if (status == GPUR_OK)
        status = gpur_consumer_end_exclusive(replay, visit_stored_actions(replay, stream, check_unit_actions, NULL));
    if (status != GPUR_OK)
        gpur_replay_free_actions(replay, limit);
    return status;
}

void gpur_replay_free_actions(gpur_replay *replay, gpur_action_limit *limit)
{
    if (limit->actions == 0)
        return;
    gpur_window_lock(replay);
    gpur_action_limit **at = &replay->action_limits;
    while (*at != limit)
        at = &(*at)->next;
    *at = limit->next;
    *limit = (gpur_action_limit){0};
    update_limit(replay);
    gpur_window_unlock(replay);
}

int32_t gpur_replay_links(const gpur_replay *replay)
{
    return 2 * replay->layout.frame_layout.stack;
}
