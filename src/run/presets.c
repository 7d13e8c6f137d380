/* SPDX-License-Identifier: MIT */
/* The names of presets, and what presets share. */
#include "run/presets.h"

#include "gpureplay/math.h"
#include "run/core.h"

#include <stdio.h>
#include <string.h>

/* In the order in which messages list them. */
static const struct {
    const char *name;
    int32_t system;
} presets[] = {
    {"fast-dqn", GPUR_PRESET_FAST_DQN},
    {"dqn-lambda-2019", GPUR_PRESET_FAST_DQN},
    {"vrc-2021", GPUR_PRESET_FAST_DQN},
    {"fast-dqn-small", GPUR_PRESET_FAST_DQN},
    {"fast-dqn-small-vectors", GPUR_PRESET_FAST_DQN},
    {"dqn-lambda-2019-small", GPUR_PRESET_FAST_DQN},
    {"vrc-2021-small", GPUR_PRESET_FAST_DQN},
    {"qr-dqn", GPUR_PRESET_FAST_DQN},
    {"c51", GPUR_PRESET_FAST_DQN},
    {"ddpg", GPUR_PRESET_DPG},
    {"ddpg-small", GPUR_PRESET_DPG},
    {"td3", GPUR_PRESET_DPG},
    {"td3-small", GPUR_PRESET_DPG},
    {"sac", GPUR_PRESET_SAC},
    {"sac-small", GPUR_PRESET_SAC},
    {"apex-dqn", GPUR_PRESET_APEX_DQN},
    {"apex-dqn-small", GPUR_PRESET_APEX_DQN},
    {"apex-dpg", GPUR_PRESET_APEX_DPG},
    {"apex-dpg-small", GPUR_PRESET_APEX_DPG},
    {"ga3c", GPUR_PRESET_GA3C},
    {"ga3c-small", GPUR_PRESET_GA3C},
    {"ga3c-large-4", GPUR_PRESET_GA3C},
    {"ga3c-large-3", GPUR_PRESET_GA3C},
    {"ga3c-large-2", GPUR_PRESET_GA3C},
    {"ga3c-large-1", GPUR_PRESET_GA3C},
    {"a3c-cpu", GPUR_PRESET_A3C},
    {"a3c-small", GPUR_PRESET_A3C},
    {"a2c", GPUR_PRESET_A3C},
    {"a2c-small", GPUR_PRESET_A3C},
    {"offline-dqn", GPUR_PRESET_OFFLINE_DQN},
    {"offline-qr-dqn", GPUR_PRESET_OFFLINE_DQN},
    {"offline-c51", GPUR_PRESET_OFFLINE_DQN},
    {"offline-dpg", GPUR_PRESET_OFFLINE_DPG},
    {"offline-td3", GPUR_PRESET_OFFLINE_DPG},
    {"offline-sac", GPUR_PRESET_OFFLINE_SAC},
};
enum { PRESETS = sizeof presets / sizeof *presets };

const char *gpur_preset_name(int32_t index, int32_t *system)
{
    if (index < 0 || index >= PRESETS)
        return NULL;
    if (system)
        *system = presets[index].system;
    return presets[index].name;
}

void gpur_preset_list(int32_t systems, const char *quote, const char *last, char names[GPUR_PRESET_NAMES])
{
    int32_t left = 0;
    for (int32_t i = 0; i < PRESETS; i++)
        left += systems >> presets[i].system & 1;
    names[0] = 0;
    for (int32_t i = 0; i < PRESETS; i++) {
        const size_t used = strlen(names);
        if (systems >> presets[i].system & 1)
            snprintf(names + used, GPUR_PRESET_NAMES - used, "%s%s%s%s",
                     used == 0   ? ""
                     : left == 1 ? last
                                 : ", ",
                     quote, presets[i].name, quote);
        left -= systems >> presets[i].system & 1;
    }
}

gpur_status gpur_preset_refuse(const char *name, int32_t systems)
{
    char names[GPUR_PRESET_NAMES];
    gpur_preset_list(systems, "\"", " or ", names);
    return gpur_fail(GPUR_INVALID_ARGUMENT, "preset is \"%s\"; it must be %s", name, names);
}

enum { STACK = 4 }; /* frames that the network sees */

void gpur_preset_use_info(gpur_preset *p, const char *name, const char *env_name, const gpur_env_info *info)
{
    p->name = name;
    p->env_name = env_name;
    p->info = *info;
    p->dims = gpur_shape_dims(info->obs.shape);
    p->is_frame = p->dims == 2;
}

gpur_status gpur_preset_open(gpur_preset *p, const char *name, const gpur_run_config *given)
{
    gpur_run_config *const run = &p->run;
    gpur_env_info info = {.size = sizeof info};
    GPUR_TRY(gpur_run_read_config(given, run));
    GPUR_TRY(run->vector ? gpur_vector_env_get_info(run->vector, run->env_options, &info)
                         : gpur_env_get_info(run->type, run->env_options, &info));
    gpur_preset_use_info(p, name, run->vector ? run->vector->name : run->type->name, &info);
    return GPUR_OK;
}

gpur_status gpur_preset_check_env(const gpur_preset *p)
{
    const gpur_env_info *const info = &p->info;
    char names[GPUR_PRESET_NAMES];
    gpur_preset_list(GPUR_PRESETS_OF_VECTORS, "\"", " and ", names);
    GPUR_REQUIRE(info->action.num_actions > 0,
                 "%s: its actions are vectors; preset \"%s\" needs discrete actions, and %s take vectors", p->env_name,
                 p->name, names);
    GPUR_REQUIRE(info->obs.dtype == GPUR_FLOAT32 || info->obs.dtype == GPUR_UINT8,
                 "%s: the dtype of its observations is %d; it must be GPUR_FLOAT32 (%d) or GPUR_UINT8 (%d)",
                 p->env_name, (int)info->obs.dtype, (int)GPUR_FLOAT32, (int)GPUR_UINT8);
    return GPUR_OK;
}

int gpur_preset_has_frames(const gpur_preset *p)
{
    const gpur_space *const obs = &p->info.obs;
    return p->is_frame && obs->dtype == GPUR_UINT8 && obs->shape[0] == 84 && obs->shape[1] == 84;
}

gpur_status gpur_preset_check_frames(const gpur_preset *p)
{
    GPUR_REQUIRE(gpur_preset_has_frames(p),
                 "%s: preset \"%s\" needs frames of 84 x 84 bytes; \"%s-small\" takes other observations", p->env_name,
                 p->name, p->name);
    return GPUR_OK;
}

gpur_field gpur_preset_obs_field(const gpur_preset *p, const char *name)
{
    gpur_field field = {.name = name, .dtype = p->info.obs.dtype};
    for (int32_t i = 0; i < p->dims; i++)
        field.shape[i + p->is_frame] = p->info.obs.shape[i];
    if (p->is_frame)
        field.shape[0] = STACK;
    return field;
}

void gpur_preset_set_layout(const gpur_preset *p, gpur_field *fields, gpur_replay_config *replay)
{
    const gpur_field all[GPUR_PRESET_FIELDS] = {gpur_preset_obs_field(p, "obs"), {"action", GPUR_INT32, {0}},
                                                {"reward", GPUR_FLOAT32, {0}},   gpur_preset_obs_field(p, "next_obs"),
                                                {"terminated", GPUR_BOOL, {0}},  {"truncated", GPUR_BOOL, {0}}};
    memcpy(fields, all, sizeof all);
    replay->fields = fields;
    replay->field_count = GPUR_PRESET_FIELDS;
    replay->layout = p->is_frame ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS;
    replay->frame_stack = p->is_frame ? STACK : 1;
    if (p->is_frame)
        replay->stack_axis = GPUR_STACK_FIRST;
}

int32_t gpur_preset_math(const gpur_preset *p)
{
    return strstr(p->name, "-small") ? GPUR_MATH_AUTO : GPUR_MATH_FP32;
}

float gpur_preset_input_scale(const gpur_preset *p)
{
    return p->info.obs.dtype == GPUR_UINT8 && p->info.obs.high > 1.0f ? 1.0f / 255.0f : 1.0f;
}

/* The axes of an image are (height, width, channels), unless its shape tells that channels come first. */
void gpur_preset_set_small_network(const gpur_preset *p, gpur_network_config *network)
{
    const int32_t *const shape = p->info.obs.shape;
    const int is_chw = p->dims == 3 && gpur_image_layout(shape[0], shape[1], shape[2]) == GPUR_CHW;
    const gpur_layer dense = {.kind = GPUR_DENSE, .units = 128, .activation = GPUR_RELU};
    const gpur_layer conv = {.kind = GPUR_CONV, .units = 16, .activation = GPUR_RELU, .kernel = 3, .stride = 1};
    network->trunk[0] = p->dims >= 2 ? conv : dense;
    network->trunk[1] = dense;
    network->trunk_count = 2;
    network->head = GPUR_HEAD_Q;
    network->hidden = 0;
    network->atoms = 0;
    network->v_min = network->v_max = 0.0f;
    network->init = GPUR_INIT_FAN_IN;
    network->input_scale = gpur_preset_input_scale(p);
    network->input_layout = p->is_frame || is_chw ? GPUR_CHW : GPUR_HWC;
}
