/* SPDX-License-Identifier: MIT */
#include "support/tree_rig.h"

#include <stdlib.h>
#include <string.h>

static gpur_status take(tree_rig *rig, const gpur_replay_config *config)
{
    const int64_t room = rig->room;
    gpur_schema none;
    memset(&none, 0, sizeof none);
    GPUR_TRY(gpur_stream_create(rig->device, &rig->stream));
    GPUR_TRY(gpur_memory_alloc(rig->device, sizeof *rig->window, "a test", (void **)&rig->window));
    GPUR_TRY(gpur_memory_alloc(rig->device, room * 8, "a test", (void **)&rig->ids));
    GPUR_TRY(gpur_memory_alloc(rig->device, room * 4, "a test", (void **)&rig->values));
    GPUR_TRY(gpur_memory_alloc(rig->device, room * 4, "a test", (void **)&rig->leaf));
    GPUR_TRY(gpur_memory_alloc(rig->device, room * 8, "a test", (void **)&rig->units));
    return gpur_priorities_build(&rig->priorities, rig->device, config, &none, NULL, rig->window, rig->stream);
}

int tree_open(tree_rig *rig, gpur_device *device, int64_t capacity, int32_t weight_norm, float alpha, float offset,
              int64_t room)
{
    const gpur_window all = {0, 0, capacity};
    gpur_replay_config config;
    gpur_replay_config_init(&config, sizeof config);
    memset(rig, 0, sizeof *rig);
    rig->device = device, rig->capacity = capacity, rig->room = room;
    config.capacity = capacity, config.max_batch = room, config.prioritized = 1;
    config.weight_norm = weight_norm, config.alpha = alpha, config.priority_offset = offset;
    return take(rig, &config) == GPUR_OK && tree_show(rig, all) == GPUR_OK;
}

void tree_close(tree_rig *rig)
{
    gpur_stream_destroy(rig->stream);
    gpur_priorities_destroy(&rig->priorities);
    gpur_memory_free(rig->device, rig->window);
    gpur_memory_free(rig->device, rig->ids);
    gpur_memory_free(rig->device, rig->values);
    gpur_memory_free(rig->device, rig->leaf);
    gpur_memory_free(rig->device, rig->units);
    gpur_device_close(rig->device);
}

gpur_status tree_show(tree_rig *rig, gpur_window window)
{
    GPUR_TRY(gpur_copy(rig->stream, rig->window, &window, sizeof window));
    return gpur_stream_sync(rig->stream);
}

static gpur_status bring(tree_rig *rig, int64_t count, const int64_t *ids, const float *priorities)
{
    GPUR_TRY(gpur_copy(rig->stream, rig->ids, ids, count * 8));
    return gpur_copy(rig->stream, rig->values, priorities, count * 4);
}

gpur_status tree_update(tree_rig *rig, int64_t count, const int64_t *ids, const float *priorities)
{
    GPUR_TRY(bring(rig, count, ids, priorities));
    GPUR_TRY(gpur_priorities_update(&rig->priorities, rig->stream, count, rig->ids, rig->values, 0));
    return gpur_stream_sync(rig->stream);
}

gpur_status tree_update_part(tree_rig *rig, int64_t count, const int64_t *ids, const float *priorities, int32_t part,
                             gpur_grid grid)
{
    const gpur_priority_update_args args = {
        .tree = rig->priorities.tree,
        .window = rig->window,
        .id = rig->ids,
        .priority = rig->values,
        .count = count,
        .offset = rig->priorities.offset,
        .part = part,
    };
    GPUR_TRY(bring(rig, count, ids, priorities));
    GPUR_TRY(gpur_launch_priority_update(rig->stream, grid, &args));
    return gpur_stream_sync(rig->stream);
}

gpur_status tree_set_leaves(tree_rig *rig, int64_t first_slot, int64_t count, const uint32_t *leaves)
{
    int64_t *const ids = malloc((size_t)rig->room * sizeof *ids);
    float *const priorities = malloc((size_t)rig->room * sizeof *priorities);
    gpur_status status = GPUR_OK;
    for (int64_t done = 0, part; done < count && status == GPUR_OK; done += part) {
        part = count - done < rig->room ? count - done : rig->room;
        for (int64_t i = 0; i < part; i++) {
            ids[i] = first_slot + done + i;
            priorities[i] = (float)leaves[done + i] / 1048576.0f;
        }
        status = tree_update(rig, part, ids, priorities);
    }
    free(ids);
    free(priorities);
    return status;
}

static gpur_status draw(tree_rig *rig, const gpur_priority_draw_args *args, gpur_grid grid, int64_t *ids,
                        uint32_t *leaves)
{
    GPUR_TRY(gpur_launch_priority_draw(rig->stream, grid, args));
    GPUR_TRY(gpur_copy(rig->stream, ids, rig->ids, args->batch * 8));
    if (leaves)
        GPUR_TRY(gpur_copy(rig->stream, leaves, rig->leaf, args->batch * 4));
    return gpur_stream_sync(rig->stream);
}

gpur_status tree_find(tree_rig *rig, int64_t count, const uint64_t *units, int64_t *ids, uint32_t *leaves,
                      gpur_grid grid)
{
    gpur_priority_draw_args args = gpur_priorities_draw(&rig->priorities, 1, count, rig->ids, rig->leaf);
    args.unit = rig->units;
    GPUR_TRY(gpur_copy(rig->stream, rig->units, units, count * 8));
    return draw(rig, &args, grid.blocks > 0 ? grid : gpur_priorities_draw_grid(&rig->priorities, count), ids, leaves);
}

gpur_status tree_draw(tree_rig *rig, int32_t index_source, int64_t count, uint64_t seed, uint64_t step, int64_t *ids,
                      uint32_t *leaves)
{
    gpur_priority_draw_args args =
        gpur_priorities_draw(&rig->priorities, index_source == GPUR_PRIORITIZED, count, rig->ids, rig->leaf);
    args.seed = seed, args.step_value = step, args.purpose = 7;
    return draw(rig, &args, gpur_priorities_draw_grid(&rig->priorities, count), ids, leaves);
}

int64_t tree_wrong(tree_rig *rig, uint64_t *total)
{
    if (gpur_priorities_survey(&rig->priorities, rig->stream) != GPUR_OK || gpur_stream_sync(rig->stream) != GPUR_OK)
        return -1;
    if (total)
        *total = *rig->priorities.host_total;
    return rig->priorities.host_found->wrong;
}

gpur_status tree_leaves(tree_rig *rig, uint32_t *leaves)
{
    GPUR_TRY(gpur_copy(rig->stream, leaves, rig->priorities.tree.leaf, rig->capacity * 4));
    return gpur_stream_sync(rig->stream);
}
