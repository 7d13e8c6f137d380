/* SPDX-License-Identifier: MIT */
#include "replay/storage/layout.h"

#include "base/numbers.h"
#include "replay/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_BLOCK_ROWS = 2000,
    DEFAULT_MAX_BATCH = 4096,
    EXTRA_FRAMES_SHARE = 64,
    EXTRA_FRAMES_ENVS = 64,
    GROUP_ROWS = 32
};

static gpur_status check_choices(const gpur_replay_config *c)
{
    GPUR_REQUIRE(c->frame_stack >= 1 && c->frame_stack <= GPUR_MAX_STACK,
                 "gpur_replay_config.frame_stack is %d; it must be 1 to %d", (int)c->frame_stack, GPUR_MAX_STACK);
    GPUR_TRY(gpur_choice_check(c->stack_axis, 1, "gpur_replay_config.stack_axis",
                               "GPUR_STACK_FIRST (0) or GPUR_STACK_LAST (1)"));
    GPUR_TRY(
        gpur_choice_check(c->stack_pad, 1, "gpur_replay_config.stack_pad", "GPUR_PAD_ZERO (0) or GPUR_PAD_REPEAT (1)"));
    GPUR_REQUIRE(c->extra_frames >= 0 && c->extra_frames <= UINT32_MAX,
                 "gpur_replay_config.extra_frames is %" PRId64 "; it must be 0 to %" PRIu32, c->extra_frames,
                 UINT32_MAX);
    GPUR_REQUIRE(
        c->layout != GPUR_LAYOUT_FRAMES || c->upload == GPUR_UPLOAD_COPY,
        "gpur_replay_config.upload is GPUR_UPLOAD_SCATTER; with GPUR_LAYOUT_FRAMES it must be GPUR_UPLOAD_COPY");
    return GPUR_OK;
}

static gpur_status check_observations(const gpur_replay_config *c, const gpur_schema *schema)
{
    const int32_t at = gpur_schema_find(schema, "obs"), next = gpur_schema_find(schema, "next_obs");
    GPUR_REQUIRE(at >= 0 && next >= 0,
                 "the schema has no field \"%s\"; the layout GPUR_LAYOUT_FRAMES is for frames of obs and next_obs",
                 at < 0 ? "obs" : "next_obs");
    const gpur_field_info *const obs = &schema->fields[at], *const other = &schema->fields[next];
    GPUR_REQUIRE(
        obs->dtype == other->dtype && memcmp(obs->shape, other->shape, sizeof obs->shape) == 0,
        "fields \"obs\" and \"next_obs\" differ in type or shape; the layout GPUR_LAYOUT_FRAMES needs them alike");
    const int32_t axis = c->stack_axis == GPUR_STACK_FIRST ? 0 : obs->dims - 1;
    const int32_t length = obs->dims > 0 ? obs->shape[axis] : 1;
    GPUR_REQUIRE(c->frame_stack == 1 || length == c->frame_stack,
                 "gpur_replay_config.frame_stack is %d and the %s axis of \"obs\" is %d long; they must be the same",
                 (int)c->frame_stack, c->stack_axis == GPUR_STACK_FIRST ? "first" : "last", (int)length);
    return GPUR_OK;
}

/* The most frames of a row: two stacks, which share frames if n_step is less than the stack. */
static int32_t frames_of_row(const gpur_replay_config *c)
{
    return (int32_t)gpur_min(2 * c->frame_stack, c->frame_stack + c->n_step);
}

int64_t gpur_kept_rows(const gpur_replay_config *c)
{
    const int64_t frames = c->layout == GPUR_LAYOUT_FRAMES ? frames_of_row(c) : 1;
    const int64_t most = gpur_max(1, gpur_min(c->capacity - c->block_rows, c->capacity / 2 / frames));
    return c->index_source == GPUR_UNIFORM_DISTINCT ? c->max_batch : gpur_min(c->max_batch, most);
}

/* Batches without replacement need as many visible rows, for which the ring of frames must have room even if they share
 * none: the frames that usual rows need should be enough for that. */
static int64_t default_max_batch_of_lanes(const gpur_replay_config *c)
{
    return c->index_source == GPUR_UNIFORM_DISTINCT ? gpur_min(GPUR_MAX_LANES, c->capacity - 1) : GPUR_MAX_LANES;
}

static int64_t default_max_batch(const gpur_replay_config *c)
{
    const int64_t most = c->index_source != GPUR_UNIFORM_DISTINCT ? c->capacity
                         : c->layout == GPUR_LAYOUT_FRAMES        ? c->capacity / 2 / frames_of_row(c)
                                                                  : c->capacity - c->block_rows;
    return gpur_min(DEFAULT_MAX_BATCH, gpur_max(1, most));
}

gpur_status gpur_ring_layout_resolve(gpur_replay_config *c, const gpur_schema *schema)
{
    GPUR_TRY(check_choices(c));
    const int stores_frames = c->layout == GPUR_LAYOUT_FRAMES;
    if (stores_frames)
        GPUR_TRY(check_observations(c, schema));
    if (c->layout == GPUR_LAYOUT_LANES) {
        c->block_rows = 1; /* nothing is staged */
        c->max_batch = c->max_batch > 0 ? c->max_batch : default_max_batch_of_lanes(c);
    }
    if (c->block_rows == 0)
        c->block_rows = gpur_min(DEFAULT_BLOCK_ROWS, gpur_max(1, c->capacity / (stores_frames ? 64 : 16)));
    if (c->max_batch == 0)
        c->max_batch = default_max_batch(c);
    return GPUR_OK;
}

static void store(gpur_ring_layout *s, gpur_field_info info, int64_t element)
{
    gpur_schema *const rows = &s->rows;
    info.offset = gpur_round_up(rows->row_bytes, element);
    rows->row_bytes = info.offset + info.bytes;
    rows->is_real[rows->count] = (unsigned char)gpur_field_is_real(&info);
    rows->reals += gpur_field_is_real(&info);
    rows->fields[rows->count++] = info;
}

/* Builds the schema of rows with links. The links come first, at offset 0, so they are copied in 8 or 16-byte units. */
static void store_links(gpur_ring_layout *s, const gpur_schema *schema)
{
    gpur_field_info links = {.size = sizeof links, .dtype = GPUR_INT32, .dims = 1};
    snprintf(links.name, sizeof links.name, "(links)"); /* not a caller's field; callers never see this schema */
    links.shape[0] = 2 * s->frame_layout.stack;
    links.bytes = links.shape[0] * (int64_t)sizeof(uint32_t);
    store(s, links, sizeof(uint32_t));
    for (int32_t f = 0; f < schema->count; f++) {
        const gpur_field_info *const info = &schema->fields[f];
        s->stored[f] = -1;
        if (strcmp(info->name, "obs") == 0 || strcmp(info->name, "next_obs") == 0)
            continue;
        s->stored[f] = s->rows.count;
        store(s, *info, gpur_dtype_bytes(info->dtype));
    }
    s->rows.pitch = gpur_round_up(s->rows.row_bytes, GPUR_LINK_ROW_GRANULE);
}

int64_t gpur_frames_per_env(const gpur_replay_config *c)
{
    return c->frame_stack + 2 * c->n_step;
}

/* Frames besides one per row. The default is enough for EXTRA_FRAMES_ENVS environments, however small the capacity. */
static int64_t extra_frames_of(const gpur_replay_config *c)
{
    return c->extra_frames > 0 ? c->extra_frames
                               : gpur_max(c->capacity / EXTRA_FRAMES_SHARE, EXTRA_FRAMES_ENVS * gpur_frames_per_env(c));
}

/* Rows are evicted in whole groups: a group's frames stay until its last row can go, and a group is evicted as soon as
 * one of its rows must go. So the ring of frames has room for two groups more than the kept rows and block_rows. */
static gpur_frame_layout frame_layout_of(const gpur_replay_config *c, const gpur_field_info *obs)
{
    gpur_frame_layout l = {
        .stack = c->frame_stack,
        .stack_is_last = c->stack_axis == GPUR_STACK_LAST && c->frame_stack > 1,
        .pad_repeats = c->stack_pad == GPUR_PAD_REPEAT,
        .frames_per_row = frames_of_row(c),
        .has_floats = obs->dtype == GPUR_FLOAT32 || obs->dtype == GPUR_FLOAT16,
        .element = gpur_dtype_bytes(obs->dtype),
        .frame_bytes = obs->bytes / c->frame_stack,
        .group_rows = gpur_min(GROUP_ROWS, c->block_rows),
    };
    const int64_t extra = extra_frames_of(c);
    l.pitch = gpur_round_up(l.frame_bytes, GPUR_FRAME_GRANULE);
    l.block_frames = c->block_rows + c->block_rows / EXTRA_FRAMES_SHARE + 2 * l.frames_per_row;
    l.reach = gpur_max(l.block_frames, extra);
    const int64_t rows = gpur_kept_rows(c) + c->block_rows + 2 * l.group_rows;
    l.frames = gpur_max(c->capacity + extra, rows * l.frames_per_row + l.reach);
    return l;
}

gpur_ring_layout gpur_ring_layout_of(const gpur_replay_config *c, const gpur_schema *schema)
{
    gpur_ring_layout s = {.links = -1, .guaranteed_rows = c->capacity};
    if (c->layout != GPUR_LAYOUT_FRAMES) {
        s.rows = *schema;
        for (int32_t f = 0; f < schema->count; f++)
            s.stored[f] = f;
        return s;
    }
    s.links = 0;
    s.frame_layout = frame_layout_of(c, &schema->fields[gpur_schema_find(schema, "obs")]);
    store_links(&s, schema);
    s.guaranteed_rows =
        gpur_min(c->capacity, (s.frame_layout.frames - s.frame_layout.reach) / s.frame_layout.frames_per_row -
                                  2 * s.frame_layout.group_rows);
    return s;
}

gpur_status gpur_ring_layout_check(const gpur_replay_config *checked, const gpur_schema *schema)
{
    const int64_t frames = gpur_ring_layout_of(checked, schema).frame_layout.frames;
    GPUR_REQUIRE(frames < UINT32_MAX,
                 "gpur_replay_config.capacity = %" PRId64 " and extra_frames = %" PRId64 " make %" PRId64
                 " frames; a link of 32 bits tells %" PRIu32 " apart",
                 checked->capacity, checked->extra_frames, frames, UINT32_MAX - 1);
    return GPUR_OK;
}
