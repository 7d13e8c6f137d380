/* SPDX-License-Identifier: MIT */
/* The observations of an environment as a network and a replay see them, for the presets of all systems. */
#pragma once

#include "base/status.h"
#include "gpureplay/env.h"
#include "gpureplay/network.h"
#include "gpureplay/run_handle.h"

/* The fields that every system has: obs, action, reward, next_obs, terminated, truncated. */
enum { GPUR_PRESET_FIELDS = 6 };

typedef struct gpur_obs_kind {
    int32_t dims;
    int32_t is_frame; /* 1: one image without channels; the network sees a stack of them */
    int32_t stack;
} gpur_obs_kind;

/* How many axes a shape has; 0 stands after the last one. */
int32_t gpur_shape_dims(const int32_t *shape);

/* Asks an environment of these settings, which gpur_run_read_config has read, for its spaces. *env_name: the type's. */
gpur_status gpur_preset_ask_env(const gpur_run_config *run, gpur_env_info *info, const char **env_name);

gpur_obs_kind gpur_obs_kind_of(const gpur_space *obs);

/* The field of an observation: a frame gets the axis of its stack in front. */
gpur_field gpur_obs_field(const char *name, const gpur_space *obs, const gpur_obs_kind *kind);

/* Refuses environments without discrete actions, and observations that are neither float32 nor uint8. */
gpur_status gpur_preset_check_env(const char *preset, const char *env_name, const gpur_env_info *info);

/* Refuses observations that are not frames of 84 x 84 bytes, for a preset that has a relative for others. */
gpur_status gpur_preset_check_frames(const char *preset, const char *env_name, const gpur_env_info *info,
                                     const gpur_obs_kind *kind);

/* Sets the first GPUR_PRESET_FIELDS fields, and of the replay the fields, layout and stack. */
void gpur_preset_set_layout(const gpur_space *obs, const gpur_obs_kind *kind, gpur_field *fields,
                            gpur_replay_config *replay);

/* The arithmetic of a preset, GPUR_MATH_*: float32 as in the papers, and what is fastest for the small relatives. */
int32_t gpur_preset_math(const char *preset);

/* Bytes up to 255 become numbers up to 1. */
float gpur_obs_input_scale(const gpur_space *obs);

/* The network of Young & Tian 2019, section 4 for images: a convolution of 16 filters of 3 x 3, and 128 units; for
 * other observations two layers of 128. */
void gpur_preset_set_small_network(const gpur_env_info *info, const gpur_obs_kind *kind, gpur_network_config *network);
