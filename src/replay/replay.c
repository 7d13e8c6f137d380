/* SPDX-License-Identifier: MIT */
/* The replay handle: create, destroy, and functions that only read it. */
#include "replay/replay.h"

#include "base/sized.h"
#include "replay/checkpoint/writers.h"

#include <inttypes.h>

static gpur_status replay_build(gpur_replay *replay)
{
    const gpur_replay_plan plan = gpur_plan(&replay->config, &replay->schema, &replay->storage);
    gpur_device *const device = replay->device;
    const int64_t id_bytes = 2 * replay->config.max_batch * (int64_t)sizeof *replay->ids;
    GPUR_TRY(gpur_plan_check_fits(&plan, &replay->config, &replay->schema, device));
    GPUR_TRY(gpur_fair_lock_open(&replay->turn, "a replay"));
    GPUR_TRY(gpur_intake_build(&replay->intake, device, &replay->config, &replay->storage, &plan));
    GPUR_TRY(gpur_event_create(device, &replay->done[0]));
    GPUR_TRY(gpur_event_create(device, &replay->done[1]));
    GPUR_TRY(gpur_pinned_alloc(device, id_bytes, "injected ids", (void **)&replay->ids));
    return gpur_pool_create(device, &replay->schema, 2 * replay->storage.linking.stack, replay->config.max_batch,
                            &replay->pool);
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
    gpur_device_hold(device);
    replay->device = device;
    replay->config = checked;
    replay->schema = schema;
    replay->storage = gpur_storage_of(&checked, &schema);
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
    if (replay->intake.feed.device)
        gpur_intake_destroy(&replay->intake); /* first: waits for enqueued work that uses the rest */
    gpur_writer_states_free(replay, replay->waiting);
    gpur_pool_close(replay->pool);
    gpur_pinned_free(device, replay->ids);
    gpur_event_destroy(replay->done[0]);
    gpur_event_destroy(replay->done[1]);
    gpur_fair_lock_close(&replay->turn);
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

int64_t gpur_replay_size(gpur_replay *replay)
{
    if (!replay)
        return 0;
    gpur_intake_lock(&replay->intake);
    const int64_t size = gpur_intake_visible(&replay->intake).count;
    gpur_intake_unlock(&replay->intake);
    return size;
}

/* The burn-in counts evicted rows, too: once it is reached it stays reached, although the window is smaller while a
 * block is being copied. */
int32_t gpur_replay_can_sample(gpur_replay *replay)
{
    if (!replay)
        return 0;
    const gpur_replay_config *const config = &replay->config;
    gpur_intake_lock(&replay->intake);
    const int64_t size = gpur_intake_visible(&replay->intake).count;
    const int64_t ever = replay->intake.feed.evicted + size;
    gpur_intake_unlock(&replay->intake);
    return size >= 1 && ever >= config->min_size;
}

gpur_status gpur_replay_get_stats(gpur_replay *replay, gpur_replay_stats *given)
{
    GPUR_REQUIRE(replay, "replay is NULL");
    gpur_intake *const intake = &replay->intake;
    gpur_replay_stats stats = {.size = sizeof stats};
    gpur_intake_lock(intake);
    const gpur_window visible = gpur_intake_visible(intake);
    stats.first_id = visible.first_id;
    stats.visible = visible.count;
    stats.appended = intake->appended;
    stats.published = intake->feed.published;
    stats.evicted = intake->feed.evicted;
    stats.blocks = intake->feed.blocks;
    stats.episodes_cut = intake->episodes_cut;
    stats.waits = intake->waits;
    stats.wait_seconds = intake->wait_seconds;
    stats.append_seconds = intake->busy_seconds + intake->wait_seconds;
    stats.bytes_fed = intake->feed.bytes;
    stats.frames_stored = intake->frames.head;
    gpur_intake_unlock(intake);
    stats.draws = atomic_load(&replay->drawn);
    gpur_pool_count(replay->pool, &stats.batches_alive, &stats.batches_made);
    return gpur_sized_write(given, &stats, sizeof stats, "gpur_replay_stats");
}
