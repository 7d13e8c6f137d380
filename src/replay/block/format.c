/* SPDX-License-Identifier: MIT */
/* The format of a replay's blocks: what both sides must agree on, and its hash. */
#include "replay/block/block.h"

#include "file/compression.h"
#include "file/safetensors.h"
#include "replay/view.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(gpur_block_header) == GPUR_BLOCK_HEADER, "the header has no gaps");

/* What the hash covers, without gaps. */
typedef struct hashed_field {
    char name[GPUR_MAX_NAME];
    int32_t dtype, shape[GPUR_MAX_DIMS];
} hashed_field;

typedef struct hashed_format {
    int32_t version, layout, frame_stack, stack_axis, n_step, fields;
    float gamma, reward_clip;
    hashed_field field[GPUR_MAX_FIELDS]; /* (fields) */
} hashed_format;

/* Settings that have no effect with GPUR_LAYOUT_ROWS do not count there. */
static uint64_t hash_of(const gpur_replay_config *c, const gpur_schema *schema)
{
    const int has_frames = c->layout == GPUR_LAYOUT_FRAMES;
    hashed_format format = {
        .version = GPUR_BLOCK_VERSION,
        .layout = c->layout,
        .frame_stack = has_frames ? c->frame_stack : 0,
        .stack_axis = has_frames ? c->stack_axis : 0,
        .n_step = c->n_step,
        .fields = schema->count,
        .gamma = c->gamma,
        .reward_clip = c->reward_clip,
    };
    for (int32_t f = 0; f < schema->count; f++) {
        const gpur_field_info *const info = &schema->fields[f];
        memcpy(format.field[f].name, info->name, sizeof info->name);
        memcpy(format.field[f].shape, info->shape, sizeof info->shape);
        format.field[f].dtype = info->dtype;
    }
    return gpur_checksum(&format,
                         (int64_t)(offsetof(hashed_format, field) + (size_t)schema->count * sizeof(hashed_field)));
}

gpur_block_spec gpur_block_spec_of(const gpur_replay_config *checked, const gpur_schema *schema,
                                   const gpur_ring_layout *layout)
{
    const gpur_block_spec spec = {
        .schema = schema,
        .layout = layout,
        .check_finite = checked->check_finite,
        .reward_clip = checked->reward_clip,
        .prioritized = checked->prioritized,
        .clipped_field = gpur_clipped_field(checked, schema),
        .row_bytes = layout->rows.row_bytes,
        .frame_bytes = layout->frame_layout.frame_bytes,
        .hash = hash_of(checked, schema),
    };
    return spec;
}

static gpur_status make_format(const gpur_replay_config *checked, const gpur_schema *schema, gpur_block_format **out)
{
    GPUR_REQUIRE(
        checked->layout != GPUR_LAYOUT_LANES,
        "gpur_replay_config.layout is GPUR_LAYOUT_LANES (2), whose experience comes from device memory and not "
        "in blocks; it must be GPUR_LAYOUT_ROWS (0) or FRAMES (1)");
    gpur_block_format *const format = malloc(sizeof *format);
    if (!format)
        return gpur_fail(GPUR_OUT_OF_MEMORY, "no memory for a format of blocks, %zu bytes", sizeof *format);
    format->config = *checked;
    format->schema = *schema;
    format->layout = gpur_ring_layout_of(checked, schema);
    format->spec = gpur_block_spec_of(&format->config, &format->schema, &format->layout);
    *out = format;
    return GPUR_OK;
}

gpur_status gpur_block_format_create(const gpur_replay_config *config, gpur_block_format **out)
{
    gpur_replay_config checked;
    gpur_schema schema;
    GPUR_REQUIRE(out, "format is NULL; it must be where the handle goes");
    *out = NULL;
    GPUR_TRY(gpur_checksum_available());
    GPUR_TRY(gpur_replay_config_check(config, &checked, &schema));
    return make_format(&checked, &schema, out);
}

gpur_status gpur_block_format_of(gpur_replay *replay, gpur_block_format **out)
{
    GPUR_TRY(gpur_checksum_available());
    return make_format(gpur_replay_settings(replay), gpur_replay_schema(replay), out);
}

void gpur_block_format_destroy(gpur_block_format *format)
{
    free(format);
}

uint64_t gpur_block_format_hash(const gpur_block_format *format)
{
    return format ? format->spec.hash : 0;
}

int64_t gpur_block_max_bytes(const gpur_block_format *format, int64_t rows, int64_t frames)
{
    if (!format || rows < 1 || rows > GPUR_MAX_BLOCK_ROWS || frames < 0 || frames > GPUR_MAX_BLOCK_FRAMES ||
        (frames > 0 && format->spec.frame_bytes == 0))
        return 0;
    return GPUR_BLOCK_HEADER + gpur_compression_bound(gpur_block_raw_bytes(&format->spec, rows, frames));
}
