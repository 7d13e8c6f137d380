/* SPDX-License-Identifier: MIT */
/* What the options mean: the environment, and the settings of replay, learner, and run or Ape-X; or of an actor-critic
 * and its run. */
#pragma once

#include "options.h"

#include <gpureplay.h>
#include <gpureplay/run.h>

/* One of them is NULL: the environments step one at a time, or all at once. */
typedef struct env_type {
    const gpur_env_type *single;
    const gpur_vector_env_type *vector;
    const char *name, *options; /* of the type */
} env_type;

typedef struct settings {
    env_type type;
    gpur_env_info env;
    gpur_field fields[GPUR_APEX_FIELDS]; /* of the replay, which points to them */
    gpur_replay_config replay;
    gpur_dqn_config learner;
    gpur_dpg_config dpg; /* of Ape-X DPG, in the place of `learner` */
    system_id system;
    gpur_run_config all; /* settings of all runs */
    gpur_fast_dqn_config run;
    gpur_apex_config apex; /* of Ape-X, in the place of `run` */
    gpur_actor_critic_config actor_critic;
    gpur_ga3c_config ga3c;                /* of an actor-critic, which has no replay, and no other learner */
    float epsilons[GPUR_APEX_MAX_ACTORS]; /* those that `apex` points to */
    int64_t steps, checkpoint;            /* environment steps; checkpoint 0: no checkpoints */
    int32_t has_processes;                /* 1: the actors of Ape-X are processes */
} settings;

/* Finds the settings. Options without a value get that of the preset. */
int settings_find(settings *s, options *o);

/* Sets the arithmetic, and its option, to what the learner that was made computes with: a run that is resumed keeps
 * it. */
int settings_decide_math(settings *s, options *o, int32_t math);

/* 1: of GA3C, A3C or A2C. */
int is_actor_critic(const settings *s);

/* 1: of Ape-X, with either learner. */
int is_apex(const settings *s);

/* 1: this build of the library can save to files. */
int can_save_files(void);

/* Prints the environment `name`, or all games if it is NULL. */
int environments_print(const char *name, const char *env_options, FILE *file);

/* "float32", "uint8", ... */
const char *dtype_name(int32_t dtype);

/* Writes config.json: all that the run is made with. */
int config_write(const options *o, const settings *s, gpur_device *device, const char *folder);

/* Refuses a type of environment that is not named as the one in the folder's config.json. */
int config_check_env(const char *folder, const char *name);
