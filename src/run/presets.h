/* SPDX-License-Identifier: MIT */
/* What the presets of all systems share: their names, the environment that one is for, and settings that several have.
 * A preset is a row of the table of names, and a row of the table of its system that sets it. */
#pragma once

#include "base/status.h"
#include "gpureplay/dpg.h"
#include "gpureplay/dqn.h"
#include "gpureplay/env.h"
#include "gpureplay/network.h"
#include "gpureplay/run_handle.h"
#include "gpureplay/sac.h"

/* The fields that every system has: obs, action, reward, next_obs, terminated, truncated. */
enum { GPUR_PRESET_FIELDS = 6 };

/* A preset that is being set, for an environment. */
typedef struct gpur_preset {
    const char *name, *env_name;
    gpur_run_config run; /* a copy of the caller's */
    gpur_env_info info;
    int32_t dims;     /* axes of an observation */
    int32_t is_frame; /* 1: it is one image without channels, of which the network sees a stack */
} gpur_preset;

/* Sets of systems, 1 << GPUR_PRESET_*. Those that train in environments of continuous actions. */
enum {
    GPUR_PRESETS_OF_VECTORS = 1 << GPUR_PRESET_APEX_DPG | 1 << GPUR_PRESET_DPG | 1 << GPUR_PRESET_SAC,
    GPUR_PRESET_NAMES = 512
};

/* Lists the presets of a set of systems, with `quote` around each, and `last` before the last one. */
void gpur_preset_list(int32_t systems, const char *quote, const char *last, char names[GPUR_PRESET_NAMES]);

/* Refuses a name, and says which ones a set of systems has. */
gpur_status gpur_preset_refuse(const char *name, int32_t systems);

/* Sets what follows from the spaces of an environment. */
void gpur_preset_use_info(gpur_preset *preset, const char *name, const char *env_name, const gpur_env_info *info);

/* Reads the settings of the run, and asks an environment of these for its spaces. */
gpur_status gpur_preset_open(gpur_preset *preset, const char *name, const gpur_run_config *run);

/* Set the learner alone, for such spaces: that of a preset of fast DQN, with the epsilon of its evaluations, and those
 * of presets of Ape-X DPG, of DPG and of SAC. */
gpur_status gpur_fast_dqn_set_learner(const char *name, const char *env_name, const gpur_env_info *info,
                                      gpur_dqn_config *learner, float *eval_epsilon);
gpur_status gpur_apex_set_dpg(const char *name, const char *env_name, const gpur_env_info *info, gpur_dpg_config *dpg);
gpur_status gpur_dpg_set_learner(const char *name, const char *env_name, const gpur_env_info *info,
                                 gpur_dpg_config *learner);
gpur_status gpur_sac_set_learner(const char *name, const char *env_name, const gpur_env_info *info,
                                 gpur_sac_config *learner);

/* Refuses environments without discrete actions, and observations that are neither float32 nor uint8. */
gpur_status gpur_preset_check_env(const gpur_preset *preset);

/* Whether observations are frames of 84 x 84 bytes, as in the papers on Atari games. */
int gpur_preset_has_frames(const gpur_preset *preset);

/* Refuses observations that are not frames of 84 x 84 bytes, for a preset that has a relative for others. */
gpur_status gpur_preset_check_frames(const gpur_preset *preset);

/* The field of an observation: a frame gets the axis of its stack in front. */
gpur_field gpur_preset_obs_field(const gpur_preset *preset, const char *name);

/* Sets the first GPUR_PRESET_FIELDS fields, and of the replay the fields, layout and stack. */
void gpur_preset_set_layout(const gpur_preset *preset, gpur_field *fields, gpur_replay_config *replay);

/* The arithmetic, GPUR_MATH_*: float32 as in the papers, and what is fastest for the small relatives. */
int32_t gpur_preset_math(const gpur_preset *preset);

/* Bytes up to 255 become numbers up to 1. */
float gpur_preset_input_scale(const gpur_preset *preset);

/* The network of Young & Tian 2019, section 4 for images: a convolution of 16 filters of 3 x 3, and 128 units; for
 * other observations two layers of 128. */
void gpur_preset_set_small_network(const gpur_preset *preset, gpur_network_config *network);
