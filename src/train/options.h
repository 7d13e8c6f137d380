/* SPDX-License-Identifier: MIT */
/*
 * The options of a training: one table of names, meanings, ranges, the systems that have them, and the settings that
 * they set. A value is given, or the file of the run that is resumed has it, or it is that of the preset.
 */
#pragma once

#include "train/settings.h"
#include "train/text.h"

#include <stddef.h>

enum { GPUR_MAX_OPTIONS = 96, GPUR_TRAIN_SYSTEMS = GPUR_PRESET_OFFLINE_SAC + 1 };

/* Sets of systems. */
enum {
    GPUR_IN_FAST_DQN = 1 << GPUR_PRESET_FAST_DQN,
    GPUR_IN_APEX_DQN = 1 << GPUR_PRESET_APEX_DQN,
    GPUR_IN_APEX_DPG = 1 << GPUR_PRESET_APEX_DPG,
    GPUR_IN_GA3C = 1 << GPUR_PRESET_GA3C,
    GPUR_IN_A3C = 1 << GPUR_PRESET_A3C,
    GPUR_IN_OFFLINE_DQN = 1 << GPUR_PRESET_OFFLINE_DQN,
    GPUR_IN_OFFLINE_DPG = 1 << GPUR_PRESET_OFFLINE_DPG,
    GPUR_IN_DPG = 1 << GPUR_PRESET_DPG,
    GPUR_IN_SAC = 1 << GPUR_PRESET_SAC,
    GPUR_IN_OFFLINE_SAC = 1 << GPUR_PRESET_OFFLINE_SAC,
    GPUR_IN_APEX = GPUR_IN_APEX_DQN | GPUR_IN_APEX_DPG,
    GPUR_IN_DQN = GPUR_IN_FAST_DQN | GPUR_IN_APEX_DQN,
    GPUR_IN_LANES = GPUR_IN_FAST_DQN | GPUR_IN_DPG | GPUR_IN_SAC, /* runs of fast_dqn.h */
    GPUR_IN_REPLAY = GPUR_IN_LANES | GPUR_IN_APEX,
    GPUR_IN_ACTOR_CRITIC = GPUR_IN_GA3C | GPUR_IN_A3C,
    GPUR_IN_OFFLINE = GPUR_IN_OFFLINE_DQN | GPUR_IN_OFFLINE_DPG | GPUR_IN_OFFLINE_SAC,
    GPUR_IN_ANY_DQN = GPUR_IN_DQN | GPUR_IN_OFFLINE_DQN,
    GPUR_IN_ANY_DPG = GPUR_IN_APEX_DPG | GPUR_IN_OFFLINE_DPG | GPUR_IN_DPG,
    GPUR_IN_ANY_SAC = GPUR_IN_SAC | GPUR_IN_OFFLINE_SAC,
    GPUR_IN_ALL = GPUR_IN_REPLAY | GPUR_IN_ACTOR_CRITIC | GPUR_IN_OFFLINE,
};

typedef enum gpur_option_kind {
    GPUR_OPTION_TEXT, /* const char *, NULL: it has no value */
    GPUR_OPTION_INT64,
    GPUR_OPTION_INT32,
    GPUR_OPTION_SWITCH, /* int32_t, 0 or 1 */
    GPUR_OPTION_WORD,   /* int32_t, the place of a word in `value` */
    GPUR_OPTION_FLOAT,
    GPUR_OPTION_DOUBLE,
} gpur_option_kind;

/* A row of the table. An option that means something else in another system has a row for each. */
typedef struct gpur_option {
    const char *name;  /* "num_envs" */
    const char *value; /* its placeholder in the help, "N", or the words that it may be, "0|1" */
    int32_t systems;   /* GPUR_IN_* */
    gpur_option_kind kind;
    size_t at; /* its member of gpur_train_settings */
    const char *meaning;
    int64_t low, high; /* of whole numbers; of others `high` alone. `high` 0: the largest that there is */

    /* Without these it has no meaning: stacks of frames, demonstrations, a cache of returns by one of a set of
     * estimators (0: none), Q values or critics with one of a set of heads (0: with any). */
    int32_t needs_stack, needs_demonstrations, estimators, heads;
    int32_t is_signed; /* 1: a number that may be below 0 */
} gpur_option;

typedef struct gpur_given {
    char *name, *value;
    int is_stored; /* 1: the file of the run that is resumed has it */
} gpur_given;

struct gpur_options {
    int32_t style; /* GPUR_OPTIONS_OF_* */
    gpur_given given[GPUR_MAX_OPTIONS];
    int32_t count;
    int32_t system; /* GPUR_PRESET_*, once the preset is known */
    const gpur_train_settings *settings;
    const char *folder;           /* of the run that is resumed */
    int has_other_env;            /* 1: the run that is resumed was begun with another value of `env`, or an object */
    int64_t stored_steps;         /* `steps` of the run that is resumed, as its file has it */
    const char *const *overrides; /* of gpur_training_config */
    int32_t plays;                /* 1: the run is played, by the learner's file, which has these settings */
};

void gpur_options_free(gpur_options *options);

/* The row of an option in a system; NULL: there is none. */
const gpur_option *gpur_option_find(const char *name, int32_t system);

/* Adds a value. Refuses names that no system has, and a second value. */
gpur_status gpur_options_add(gpur_options *options, const char *name, const char *value);

/* The value that was given or stored; NULL: there is none. */
const char *gpur_options_value(const gpur_options *options, const char *name);

/* Adds what the file of the run in a folder has. Refuses what was given with another value, but for the number of steps
 * and the environment. */
gpur_status gpur_options_resume(gpur_options *options, const char *folder);

/* Sets a value in the place of the one that was stored or given. */
gpur_status gpur_options_override(gpur_options *options, const char *name, const char *value);

/* Writes the values of all options of the system to that file. */
gpur_status gpur_options_write(const gpur_options *options, const gpur_train_settings *settings, const char *folder);

/* Sets the options of all systems: the environment, the preset, the device. */
gpur_status gpur_options_begin(gpur_options *options, gpur_train_settings *settings);

/* Finds the system of a preset. */
gpur_status gpur_options_find_system(gpur_options *options, const char *preset);

/* Refuses options that the system does not have, or that the run that is resumed has not. */
gpur_status gpur_options_check_system(const gpur_options *options, const char *preset);

/* Sets the members of all values, and refuses those that have no meaning then. */
gpur_status gpur_options_put(const gpur_options *options, gpur_train_settings *settings);

/* Adds the text of a setting to `text`. */
void gpur_option_add_value(const gpur_option *option, const gpur_train_settings *settings, gpur_text *text);

/* Option number `i` of a system, in the order of the file and the help; NULL: there are not so many. */
const gpur_option *gpur_option_at(int32_t system, int32_t i);

/* Whether it has a value with these settings. */
int gpur_option_applies(const gpur_option *option, const gpur_train_settings *settings);

/* Adds its name as a door writes it: "--num-envs", or "num_envs". */
void gpur_option_add_name(int32_t style, const char *name, gpur_text *text);

/* Whether the preset has it, maybe with other settings than these. */
int gpur_option_is_of_preset(const gpur_option *option, const gpur_train_settings *settings);

/* Refuses with GPUR_INVALID_ARGUMENT, as gpur_fail does. {num_envs} in the format becomes the option as its door writes
 * it, --num-envs or num_envs; {num_envs=}, before a value, "--num-envs " or num_envs=; and {num_envs is} also has the
 * value of the settings: --num-envs is 8. */
gpur_status gpur_refuse(const gpur_options *options, const char *format, ...) GPUR_PRINTF(2, 3);
