/* SPDX-License-Identifier: MIT */
#include "replay/sampler/sequences.h"

#include <inttypes.h>

gpur_status gpur_sequences_check(const gpur_replay *replay)
{
    const int32_t field = gpur_schema_find(&replay->schema, "previous");
    GPUR_REQUIRE(field >= 0, "the schema has no field \"previous\", which sequences follow; it must be one int64");
    const gpur_field_info *const previous = &replay->schema.fields[field];
    GPUR_REQUIRE(previous->dtype == GPUR_INT64 && previous->bytes == (int64_t)sizeof(int64_t),
                 "field \"previous\" is %s of %" PRId64 " bytes; for sequences it must be one int64",
                 gpur_dtype_name(previous->dtype), previous->bytes);
    return GPUR_OK;
}

static int32_t last_of(const gpur_sequences_request *r)
{
    if (r->last_ids)
        return GPUR_LAST_GIVEN;
    if (r->source == GPUR_PRIORITIZED_STRATIFIED)
        return GPUR_LAST_STRATIFIED;
    return r->source == GPUR_PRIORITIZED_INDEPENDENT ? GPUR_LAST_INDEPENDENT : GPUR_LAST_UNIFORM;
}

gpur_status gpur_sequences_enqueue(gpur_replay *replay, const gpur_sequences_request *r, gpur_stream *stream)
{
    const gpur_schema *const rows = &replay->layout.rows;
    const int32_t previous = replay->layout.stored[gpur_schema_find(&replay->schema, "previous")];
    const gpur_sequences_args args = {
        .window = replay->window.device,
        .ring = replay->ring.rows,
        .pitch = rows->pitch,
        .capacity = replay->config.capacity,
        .count = r->count,
        .length = r->length,
        .min_length = r->min_length,
        .step = r->step,
        .step_value = r->step_value,
        .seed = r->seed,
        .last_ids = r->last_ids,
        .last_pitch = r->last_pitch,
        .id = r->ids,
        .leaf = r->leaf,
        .mask = r->mask,
        .is_first = r->is_first,
        .tree = replay->priorities.tree,
        .previous_offset = (int32_t)rows->fields[previous].offset,
        .last = last_of(r),
        .across_episodes = r->across_episodes,
        .purpose = r->purpose,
    };
    return gpur_launch_sequences(stream, gpur_grid_elements(replay->device, r->count), &args);
}
