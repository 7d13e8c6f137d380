/* SPDX-License-Identifier: MIT */
#include "replay/plan.h"

#include "base/sized.h"
#include "replay/config.h"

#include <inttypes.h>
#include <stdio.h>

enum { ARRAY_ALIGNMENT = 256 };

static int32_t add_array(gpur_batch_layout *layout, gpur_field_info info, int64_t rows)
{
    info.offset = layout->bytes;
    layout->bytes += (info.bytes * rows + ARRAY_ALIGNMENT - 1) / ARRAY_ALIGNMENT * ARRAY_ALIGNMENT;
    layout->arrays[layout->count] = info;
    return layout->count++;
}

static int32_t add_number(gpur_batch_layout *layout, const char *name, int32_t dtype, int64_t rows)
{
    gpur_field_info info = {.size = sizeof info, .dtype = dtype, .bytes = gpur_dtype_bytes(dtype)};
    snprintf(info.name, sizeof info.name, "%s", name);
    return add_array(layout, info, rows);
}

gpur_batch_layout gpur_batch_lay_out(const gpur_schema *schema, int64_t rows)
{
    gpur_batch_layout layout = {0};
    for (int32_t i = 0; i < schema->count; i++)
        add_array(&layout, schema->fields[i], rows);
    layout.discount = gpur_schema_find(schema, "discount");
    if (layout.discount < 0)
        layout.discount = add_number(&layout, "discount", GPUR_FLOAT32, rows);
    layout.weight = add_number(&layout, "weight", GPUR_FLOAT32, rows);
    layout.id = add_number(&layout, "id", GPUR_INT64, rows);
    return layout;
}

gpur_replay_plan gpur_plan(const gpur_replay_config *checked, const gpur_schema *schema)
{
    gpur_replay_plan plan = {.size = sizeof plan, .row_bytes = schema->row_bytes, .row_pitch = schema->pitch};
    const int64_t block_bytes = checked->update_size * schema->pitch;
    plan.ring_bytes = checked->capacity * schema->pitch;
    plan.feed_bytes = GPUR_WINDOW_BYTES + (checked->feed == GPUR_FEED_SCATTER ? block_bytes : 0);
    plan.pinned_bytes = checked->staging_blocks * block_bytes + 2 * checked->max_batch * (int64_t)sizeof(int64_t);
    plan.batch_bytes = gpur_batch_lay_out(schema, checked->max_batch).bytes;
    plan.device_bytes = plan.ring_bytes + plan.feed_bytes;
    return plan;
}

gpur_status gpur_plan_check_fits(const gpur_replay_plan *plan, gpur_device *device)
{
    int64_t total = 0, available = 0;
    GPUR_TRY(gpur_memory_available(device, &total, &available));
    const int64_t one_batch = plan->batch_bytes;
    const int64_t room = available - plan->feed_bytes - one_batch;
    if (plan->device_bytes + one_batch <= available)
        return GPUR_OK;
    return gpur_fail(GPUR_OUT_OF_MEMORY,
                     "a capacity of %" PRId64 " takes %" PRId64 " bytes of %s, %" PRId64 " more for a batch; %" PRId64
                     " of %" PRId64 " are free: a capacity of %" PRId64 " fits",
                     plan->ring_bytes / plan->row_pitch, plan->device_bytes, gpur_device_name(device), one_batch,
                     available, total, room > 0 ? room / plan->row_pitch : 0);
}

gpur_status gpur_replay_plan_bytes(const gpur_replay_config *config, gpur_replay_plan *given)
{
    gpur_replay_config checked;
    gpur_schema schema;
    GPUR_TRY(gpur_replay_config_check(config, &checked, &schema));
    const gpur_replay_plan plan = gpur_plan(&checked, &schema);
    return gpur_sized_write(given, &plan, sizeof plan, "gpur_replay_plan");
}
