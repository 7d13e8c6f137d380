/* SPDX-License-Identifier: MIT */
/* Observations as a network and a replay see them. */
#include "run/spaces.h"

#include "gpureplay/math.h"

#include <string.h>

int32_t gpur_shape_dims(const int32_t *shape)
{
    int32_t dims = 0;
    while (dims < GPUR_MAX_DIMS && shape[dims] > 0)
        dims++;
    return dims;
}

gpur_status gpur_preset_ask_env(const gpur_run_config *run, gpur_env_info *info, const char **env_name)
{
    *info = (gpur_env_info){.size = sizeof *info};
    *env_name = run->vector ? run->vector->name : run->type->name;
    return run->vector ? gpur_vector_env_get_info(run->vector, run->env_options, info)
                       : gpur_env_get_info(run->type, run->env_options, info);
}

gpur_obs_kind gpur_obs_kind_of(const gpur_space *obs)
{
    const int32_t dims = gpur_shape_dims(obs->shape);
    return (gpur_obs_kind){.dims = dims, .is_frame = dims == 2, .stack = 4};
}

gpur_status gpur_preset_check_env(const char *preset, const char *env_name, const gpur_env_info *info)
{
    GPUR_REQUIRE(info->action.num_actions > 0,
                 "%s: its actions are vectors; preset \"%s\" needs discrete actions, and \"apex-dpg\" and "
                 "\"apex-dpg-small\" take vectors",
                 env_name, preset);
    GPUR_REQUIRE(info->obs.dtype == GPUR_FLOAT32 || info->obs.dtype == GPUR_UINT8,
                 "%s: the dtype of its observations is %d; it must be GPUR_FLOAT32 (%d) or GPUR_UINT8 (%d)", env_name,
                 (int)info->obs.dtype, (int)GPUR_FLOAT32, (int)GPUR_UINT8);
    return GPUR_OK;
}

gpur_status gpur_preset_check_frames(const char *preset, const char *env_name, const gpur_env_info *info,
                                     const gpur_obs_kind *kind)
{
    GPUR_REQUIRE(kind->is_frame && info->obs.dtype == GPUR_UINT8 && info->obs.shape[0] == 84 &&
                     info->obs.shape[1] == 84,
                 "%s: preset \"%s\" needs frames of 84 x 84 bytes; \"%s-small\" takes other observations", env_name,
                 preset, preset);
    return GPUR_OK;
}

gpur_field gpur_obs_field(const char *name, const gpur_space *obs, const gpur_obs_kind *kind)
{
    gpur_field field = {.name = name, .dtype = obs->dtype};
    for (int32_t i = 0; i < kind->dims; i++)
        field.shape[i + kind->is_frame] = obs->shape[i];
    if (kind->is_frame)
        field.shape[0] = kind->stack;
    return field;
}

void gpur_preset_set_layout(const gpur_space *obs, const gpur_obs_kind *kind, gpur_field *fields,
                            gpur_replay_config *replay)
{
    const gpur_field all[GPUR_PRESET_FIELDS] = {gpur_obs_field("obs", obs, kind), {"action", GPUR_INT32, {0}},
                                                {"reward", GPUR_FLOAT32, {0}},    gpur_obs_field("next_obs", obs, kind),
                                                {"terminated", GPUR_BOOL, {0}},   {"truncated", GPUR_BOOL, {0}}};
    memcpy(fields, all, sizeof all);
    replay->fields = fields;
    replay->field_count = GPUR_PRESET_FIELDS;
    replay->layout = kind->is_frame ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS;
    replay->frame_stack = kind->is_frame ? kind->stack : 1;
    if (kind->is_frame)
        replay->stack_axis = GPUR_STACK_FIRST;
}

int32_t gpur_preset_math(const char *preset)
{
    return strstr(preset, "-small") ? GPUR_MATH_AUTO : GPUR_MATH_FP32;
}

float gpur_obs_input_scale(const gpur_space *obs)
{
    return obs->dtype == GPUR_UINT8 && obs->high > 1.0f ? 1.0f / 255.0f : 1.0f;
}

/* The axes of an image are (height, width, channels), unless its shape tells that channels come first. */
static int32_t image_layout(const gpur_space *obs, const gpur_obs_kind *kind)
{
    const int32_t *const shape = obs->shape;
    const int is_chw = kind->dims == 3 && gpur_image_layout(shape[0], shape[1], shape[2]) == GPUR_CHW;
    return is_chw ? GPUR_CHW : GPUR_HWC;
}

void gpur_preset_set_small_network(const gpur_env_info *info, const gpur_obs_kind *kind, gpur_network_config *network)
{
    const gpur_layer dense = {.kind = GPUR_DENSE, .units = 128, .activation = GPUR_RELU};
    const gpur_layer conv = {.kind = GPUR_CONV, .units = 16, .activation = GPUR_RELU, .kernel = 3, .stride = 1};
    network->trunk[0] = kind->dims >= 2 ? conv : dense;
    network->trunk[1] = dense;
    network->trunk_count = 2;
    network->head = GPUR_HEAD_Q;
    network->hidden = 0;
    network->init = GPUR_INIT_FAN_IN;
    network->input_scale = gpur_obs_input_scale(&info->obs);
    network->input_layout = kind->is_frame ? GPUR_CHW : image_layout(&info->obs, kind);
}
