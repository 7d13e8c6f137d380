/* SPDX-License-Identifier: MIT */
#include "replay/checkpoint/describe.h"

#include "base/numbers.h"
#include "file/checkpoint_file.h"
#include "replay/config.h"
#include "replay/replay.h"
#include "replay/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const gpur_tensors *file, const char *key)
{
    const char *const text = gpur_tensors_find_metadata(file, key);
    return text ? text : "";
}

static float real_of(const gpur_tensors *file, const char *key, float otherwise)
{
    const char *const text = gpur_tensors_find_metadata(file, key);
    return text ? strtof(text, NULL) : otherwise;
}

static int32_t dtype_of(const char *name)
{
    int32_t dtype = GPUR_BOOL;
    while (dtype > 0 && strcmp(gpur_dtype_name(dtype), name) != 0)
        dtype--;
    return dtype;
}

/* "4 x 84 x 84". Returns 0 if it is no shape. */
static int read_shape(const char *text, int32_t shape[GPUR_MAX_DIMS])
{
    char *end = "";
    for (int32_t i = 0; i < GPUR_MAX_DIMS; i++) {
        const long length = strtol(text, &end, 10);
        if (length <= 0 || length > INT32_MAX)
            return 0;
        shape[i] = (int32_t)length;
        if (strncmp(end, " x ", 3) != 0)
            break;
        text = end + 3;
    }
    return !*end;
}

/* "obs float32 of 4", or "action int32". */
static gpur_status read_field(const gpur_tensors *file, int32_t index, gpur_replay_description *d)
{
    char key[32], text[GPUR_METADATA_VALUE];
    gpur_field *const field = &d->fields[index];
    snprintf(key, sizeof key, "field.%d", (int)index);
    snprintf(text, sizeof text, "%s", text_of(file, key));
    char *const of = strstr(text, " of "), *last = of;
    for (char *next = of; next; next = strstr(next + 1, " of "))
        last = next;
    *field = (gpur_field){.name = d->names[index]};
    if (last && read_shape(last + strlen(" of "), field->shape))
        *last = '\0';
    char *const space = strrchr(text, ' ');
    field->dtype = space ? dtype_of(space + 1) : 0;
    if (field->dtype == 0 || space - text >= GPUR_MAX_NAME)
        return gpur_fail(GPUR_FILE_ERROR, "its entry \"%s\" is \"%s\"; it must be a name, a type and a shape", key,
                         text_of(file, key));
    snprintf(d->names[index], GPUR_MAX_NAME, "%.*s", (int)(space - text), text);
    return GPUR_OK;
}

static gpur_status read_fields(const gpur_tensors *file, gpur_replay_description *d)
{
    const int64_t count = gpur_metadata_number(file, "fields", 0);
    if (count < 1 || count > GPUR_MAX_FIELDS)
        return gpur_fail(GPUR_FILE_ERROR, "it has %" PRId64 " fields; there must be 1 to %d", count, GPUR_MAX_FIELDS);
    for (int32_t i = 0; i < count; i++)
        GPUR_TRY(read_field(file, i, d));
    d->config.fields = d->fields;
    d->config.field_count = (int32_t)count;
    return GPUR_OK;
}

/* Whether a replay with these settings has the file's ring of frames, to whose slots the rows link. */
static int has_its_frames(const gpur_tensors *file, const gpur_replay_config *config)
{
    gpur_replay_config checked;
    gpur_schema schema;
    if (gpur_replay_config_check(config, &checked, &schema) != GPUR_OK)
        return 0;
    const gpur_frame_layout layout = gpur_ring_layout_of(&checked, &schema).frame_layout;
    return layout.frames == gpur_metadata_number(file, "frame_slots", -1) &&
           layout.reach == gpur_metadata_number(file, "frame_reach", -1) &&
           layout.group_rows == gpur_metadata_number(file, "group_rows", -1);
}

/* Files of before have no settings of the ring, but what follows from them: most often extra_frames alone was set. */
static gpur_status read_frames(const gpur_tensors *file, gpur_replay_config *config)
{
    config->layout = GPUR_LAYOUT_FRAMES;
    config->frame_stack = (int32_t)gpur_metadata_number(file, "frame_stack", 1);
    config->stack_axis = strcmp(text_of(file, "stack_axis"), "last") == 0 ? GPUR_STACK_LAST : GPUR_STACK_FIRST;
    config->stack_pad = strcmp(text_of(file, "stack_pad"), "repeat") == 0 ? GPUR_PAD_REPEAT : GPUR_PAD_ZERO;
    config->block_rows = gpur_metadata_number(file, "block_rows", 0);
    config->max_batch = gpur_metadata_number(file, "max_batch", 0);
    config->extra_frames = gpur_metadata_number(file, "extra_frames", 0);
    if (!has_its_frames(file, config))
        config->extra_frames = gpur_metadata_number(file, "frame_reach", 0);
    GPUR_REQUIRE(
        has_its_frames(file, config),
        "it has no block_rows, max_batch and extra_frames of its replay, and they are no defaults; a file that "
        "this version saves has them");
    return GPUR_OK;
}

static gpur_status read_settings(const gpur_tensors *file, gpur_replay_description *d)
{
    gpur_replay_config *const config = &d->config;
    const char *const layout = text_of(file, "layout");
    GPUR_REQUIRE(strcmp(layout, "lanes") != 0,
                 "it is of a replay with the layout \"lanes\"; it must be \"rows\" or \"frames\"");
    GPUR_TRY(read_fields(file, d));
    d->rows = gpur_metadata_number(file, "rows", 0);
    config->capacity = gpur_metadata_number(file, "capacity", 0);
    config->n_step = (int32_t)gpur_metadata_number(file, "n_step", 1);
    config->gamma = real_of(file, "gamma", config->gamma);
    config->reward_clip = real_of(file, "reward_clip", config->reward_clip);
    config->prioritized = gpur_metadata_number(file, "prioritized", 0) != 0;
    if (config->prioritized)
        config->priority_offset = real_of(file, "priority_offset", config->priority_offset);
    if (*text_of(file, "eviction"))
        config->eviction = GPUR_EVICT_BY_PRIORITY;
    return strcmp(layout, "frames") == 0 ? read_frames(file, config) : GPUR_OK;
}

gpur_status gpur_replay_describe_file(const char *path, gpur_replay_description *d)
{
    gpur_checkpoint file;
    *d = (gpur_replay_description){.rows = 0};
    GPUR_TRY(gpur_replay_config_init(&d->config, sizeof d->config));
    GPUR_TRY(gpur_checkpoint_open(&file, path));
    gpur_status status = gpur_checkpoint_check_kind(&file, "replay");
    if (status == GPUR_OK)
        status = gpur_checkpoint_add_path_to_error(&file, read_settings(&file.tensors, d));
    gpur_checkpoint_close(&file);
    return status;
}

gpur_status gpur_replay_describe(gpur_replay *replay, gpur_replay_description *d)
{
    const gpur_schema *const schema = gpur_replay_schema(replay);
    gpur_replay_stats stats = {.size = sizeof stats};
    GPUR_TRY(gpur_replay_get_stats(replay, &stats));
    *d = (gpur_replay_description){.config = *gpur_replay_settings(replay), .rows = stats.visible};
    d->config.fields = d->fields;
    d->config.field_count = schema->count;
    for (int32_t i = 0; i < schema->count; i++) {
        const gpur_field_info *const info = &schema->fields[i];
        snprintf(d->names[i], GPUR_MAX_NAME, "%s", info->name);
        d->fields[i] = (gpur_field){.name = d->names[i], .dtype = info->dtype};
        memcpy(d->fields[i].shape, info->shape, sizeof info->shape);
    }
    return GPUR_OK;
}
