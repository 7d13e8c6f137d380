/* SPDX-License-Identifier: MIT */
#include "replay/plan.h"

#include "base/sized.h"
#include "replay/config.h"
#include "replay/hindsight/hindsight.h"
#include "replay/lanes/lanes.h"
#include "replay/priority/sum_tree.h"
#include "replay/sampler/batch.h"

#include <inttypes.h>

gpur_replay_plan gpur_plan(const gpur_replay_config *checked, const gpur_schema *schema, const gpur_ring_layout *layout)
{
    const gpur_frame_layout *const l = &layout->frame_layout;
    const int64_t block_bytes = checked->block_rows * layout->rows.pitch, ids = 2 * checked->max_batch;
    const int scatters = checked->upload == GPUR_UPLOAD_SCATTER || checked->eviction == GPUR_EVICT_BY_PRIORITY;
    const gpur_batch_extent extent = {2 * l->stack, checked->hindsight != NULL};
    gpur_replay_plan plan = {
        .size = sizeof plan,
        .row_bytes = schema->row_bytes,
        .row_pitch = layout->rows.pitch,
        .ring_bytes = checked->capacity * layout->rows.pitch,
        .upload_bytes = GPUR_WINDOW_BYTES + (scatters ? block_bytes : 0),
        .pinned_bytes = checked->staging_blocks * (block_bytes + l->block_frames * l->pitch),
        .batch_bytes = gpur_batch_layout_of(schema, extent, checked->max_batch).bytes,
        .frames = l->frames,
        .frame_bytes = l->frame_bytes,
        .frame_pitch = l->pitch,
        .frame_ring_bytes = l->frames * l->pitch,
        .frame_reach = l->reach,
    };
    if (checked->layout == GPUR_LAYOUT_LANES) {
        const gpur_lane_config lanes = gpur_lane_config_of(checked);
        plan.ring_bytes = gpur_lane_store_bytes(schema, &lanes);
        plan.pinned_bytes = plan.batch_bytes = 0;
    }
    plan.pinned_bytes += ids * (int64_t)sizeof(int64_t) + gpur_priorities_pinned_bytes(checked);
    plan.priority_bytes = gpur_priorities_device_bytes(checked) + gpur_hindsight_bytes(checked);
    plan.device_bytes = plan.ring_bytes + plan.upload_bytes + plan.frame_ring_bytes + plan.priority_bytes;
    return plan;
}

/* Asks whether a replay with these settings, but any capacity, fits into a device's memory. */
typedef struct fit_query {
    const gpur_replay_config *checked;
    const gpur_schema *schema;
    int has_staging; /* 1: pinned memory counts as device memory, too (CPU) */
} fit_query;

static gpur_replay_plan plan_with(const fit_query *f, int64_t capacity)
{
    gpur_replay_config config = *f->checked;
    config.capacity = capacity;
    const gpur_ring_layout layout = gpur_ring_layout_of(&config, f->schema);
    return gpur_plan(&config, f->schema, &layout);
}

static int64_t outside_rings(const fit_query *f, const gpur_replay_plan *plan)
{
    return plan->upload_bytes + plan->batch_bytes + (f->has_staging ? plan->pinned_bytes : 0);
}

static int64_t rings_of(const gpur_replay_plan *plan)
{
    return plan->ring_bytes + plan->frame_ring_bytes + plan->priority_bytes;
}

static int fits_in(const fit_query *f, int64_t capacity, int64_t available)
{
    const gpur_replay_plan plan = plan_with(f, capacity);
    return rings_of(&plan) <= available - outside_rings(f, &plan);
}

/* The largest capacity that fits, by bisection. `min_capacity` must fit, and the requested capacity must not. */
static int64_t max_that_fits(const fit_query *f, int64_t min_capacity, int64_t available)
{
    int64_t fits = min_capacity, does_not = f->checked->capacity;
    while (does_not - fits > 1) {
        const int64_t middle = fits + (does_not - fits) / 2;
        *(fits_in(f, middle, available) ? &fits : &does_not) = middle;
    }
    return fits;
}

static gpur_status fail_at_min_capacity(const fit_query *f, int64_t min_capacity, gpur_device *device,
                                        int64_t available)
{
    const gpur_replay_config *const c = f->checked;
    const gpur_replay_plan plan = plan_with(f, min_capacity);
    return gpur_fail(GPUR_OUT_OF_MEMORY,
                     "no ring fits on %s: %" PRId64 " bytes are free, and %d staging blocks of block_rows = %" PRId64
                     " take %" PRId64 ", the upload %" PRId64 ", a batch of max_batch = %" PRId64 " %" PRId64
                     ", the least capacity beside them, %" PRId64 " with %" PRId64 " frames, %" PRId64
                     ": lower one of them",
                     gpur_device_name(device), available, (int)c->staging_blocks, c->block_rows, plan.pinned_bytes,
                     plan.upload_bytes, c->max_batch, plan.batch_bytes, min_capacity, plan.frames, rings_of(&plan));
}

/* Of lanes, in the words of their settings. */
static gpur_status fail_of_lanes(const fit_query *f, const gpur_replay_plan *plan, gpur_device *device,
                                 int64_t available, int64_t total)
{
    const int64_t lanes = f->checked->lanes, least = 2 * lanes;
    const gpur_replay_plan smallest = plan_with(f, least);
    if (!fits_in(f, least, available))
        return gpur_fail(GPUR_OUT_OF_MEMORY,
                         "gpur_replay_config.lanes is %" PRId64 "; with 2 steps of each, the least, it takes "
                         " %" PRId64 " bytes of %s, %" PRId64 " more for a batch of max_batch = %" PRId64 "; %" PRId64
                         " of %" PRId64 " are free: lower one of them",
                         lanes, rings_of(&smallest), gpur_device_name(device), outside_rings(f, &smallest),
                         f->checked->max_batch, available, total);
    const int64_t most = max_that_fits(f, least, available) / lanes;
    return gpur_fail(GPUR_OUT_OF_MEMORY,
                     "gpur_replay_config.capacity is %" PRId64 ", %" PRId64 " steps of %" PRId64
                     " lanes, which takes %" PRId64 " bytes of %s, %" PRId64 " more for a batch; %" PRId64
                     " of %" PRId64 " are free: it must be at most %" PRId64 ", %" PRId64 " steps",
                     f->checked->capacity, f->checked->capacity / lanes, lanes, rings_of(plan),
                     gpur_device_name(device), outside_rings(f, plan), available, total, most * lanes, most);
}

gpur_status gpur_plan_check_fits(const gpur_replay_plan *plan, const gpur_replay_config *checked,
                                 const gpur_schema *schema, gpur_device *device)
{
    const fit_query f = {checked, schema, !gpur_device_get_traits(device)->has_own_memory};
    const int is_distinct = checked->index_source == GPUR_UNIFORM_DISTINCT;
    const int64_t min_capacity = checked->block_rows + (is_distinct ? checked->max_batch : 1);
    int64_t total = 0, available = 0;
    GPUR_TRY(gpur_memory_available(device, &total, &available));
    if (rings_of(plan) <= available - outside_rings(&f, plan))
        return GPUR_OK;
    if (checked->layout == GPUR_LAYOUT_LANES)
        return fail_of_lanes(&f, plan, device, available, total);
    if (!fits_in(&f, min_capacity, available))
        return fail_at_min_capacity(&f, min_capacity, device, available);
    return gpur_fail(GPUR_OUT_OF_MEMORY,
                     "a capacity of %" PRId64 " takes %" PRId64 " bytes of %s, %" PRId64
                     " more for the upload, a batch and staging; %" PRId64 " of %" PRId64
                     " are free: a capacity of %" PRId64 " fits",
                     checked->capacity, rings_of(plan), gpur_device_name(device), outside_rings(&f, plan), available,
                     total, max_that_fits(&f, min_capacity, available));
}

gpur_status gpur_replay_plan_bytes(const gpur_replay_config *config, gpur_replay_plan *given)
{
    gpur_replay_config checked;
    gpur_schema schema;
    GPUR_TRY(gpur_replay_config_check(config, &checked, &schema));
    const gpur_ring_layout layout = gpur_ring_layout_of(&checked, &schema);
    const gpur_replay_plan plan = gpur_plan(&checked, &schema, &layout);
    return gpur_sized_write(given, &plan, sizeof plan, "gpur_replay_plan");
}
