/* SPDX-License-Identifier: MIT */
#include "replay/checkpoint/settings.h"

#include <stdio.h>

static gpur_status add_field(gpur_tensors *settings, int32_t index, const gpur_field_info *field)
{
    char key[32], shape[80] = "";
    int length = 0;
    for (int32_t i = 0; i < field->dims; i++)
        length +=
            snprintf(shape + length, sizeof shape - (size_t)length, "%s%d", i ? " x " : " of ", (int)field->shape[i]);
    snprintf(key, sizeof key, "field.%d", (int)index);
    return gpur_tensors_add_metadata(settings, key, "%s %s%s", field->name, gpur_dtype_name(field->dtype), shape);
}

/* The layout comes first: a file of another one lacks other settings, too. */
gpur_status gpur_replay_settings_add(const gpur_replay *replay, gpur_tensors *settings)
{
    static const char *const layouts[] = {"rows", "frames", "lanes"};
    const gpur_replay_config *const config = &replay->config;
    GPUR_TRY(gpur_tensors_add_metadata(settings, "layout", "%s", layouts[config->layout]));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "fields", "%d", (int)replay->schema.count));
    for (int32_t i = 0; i < replay->schema.count; i++)
        GPUR_TRY(add_field(settings, i, &replay->schema.fields[i]));
    GPUR_TRY(gpur_tensors_add_metadata(settings, "prioritized", "%d", (int)config->prioritized));
    if (config->prioritized)
        GPUR_TRY(gpur_settings_add_real(settings, "priority_offset", (double)config->priority_offset));
    return gpur_settings_add_real(settings, "reward_clip", (double)config->reward_clip);
}
