/* SPDX-License-Identifier: MIT */
/* The program's options: their names, their ranges, and the values that were given, found in a preset, or read from the
 * folder of a run that is resumed. */
#pragma once

#include "text.h"

#include <stdio.h>

typedef enum option_id {
    OPTION_ENV,
    OPTION_ENV_OPTIONS,
    OPTION_PRESET,
    OPTION_DEVICE,
    OPTION_THREADS,
    OPTION_MATH,
    OPTION_DETERMINISTIC,
    OPTION_SEED,
    OPTION_STEPS,
    OPTION_NUM_ENVS,
    OPTION_ENV_THREADS,
    OPTION_CONCURRENT,
    OPTION_SYNCHRONIZED,
    OPTION_BURST,
    OPTION_ACT,
    OPTION_WHOLE_EPISODES,
    OPTION_TARGET_PERIOD,
    OPTION_TRAIN_PERIOD,
    OPTION_PREPOPULATION,
    OPTION_EVAL_PERIOD,
    OPTION_EVAL_EPISODES,
    OPTION_CAPACITY,
    OPTION_FRAME_STACK,
    OPTION_BATCH,
    OPTION_LEARNING_RATE,
    OPTION_EXPLORATION_STEPS,
    OPTION_ESTIMATOR,
    OPTION_LAMBDA,
    OPTION_N_STEP,
    OPTION_ERROR_BOUND,
    OPTION_CHECKPOINT,
    OPTION_ACTORS,
    OPTION_PROCESSES,
    OPTION_SAMPLES_PER_INSERT,
    OPTION_INITIAL_PRIORITIES,
    OPTION_PRIORITIZED,
    OPTION_REPLICATE,
    OPTION_EPSILONS,
    OPTION_SIGMA,
    OPTION_EVICTION,
    OPTION_SECOND_ACTIVATION,
    OPTION_COMPRESSION,
    OPTION_PULL_PERIOD,
    OPTION_FOLDER,
    OPTION_AGENTS,
    OPTION_PREDICTORS,
    OPTION_TRAINERS,
    OPTION_T_MAX,
    OPTION_MIN_TRAIN_BATCH,
    OPTION_QUEUE_ROOM,
    OPTION_WHEN_FULL,
    OPTION_TUNER,
    OPTION_TUNER_PERIOD,
    OPTION_ENTROPY,
    OPTIONS_OF_A_RUN, /* all above belong to the run, and are saved in its folder */
    OPTION_OUT = OPTIONS_OF_A_RUN,
    OPTION_RESUME,
    OPTION_REFILL,
    OPTION_WORK,
    OPTION_QUIET,
    OPTION_LIST,
    OPTION_HELP,
    OPTION_SERVE, /* what an actor's process is started with; not for users */
    OPTIONS
} option_id;

/* The systems, by the preset: those of fast_dqn.h, Ape-X with a learner of DQN or of DPG, and the actor-critics. A2C is
 * one of SYSTEM_A3C, too: both have no queues. */
typedef enum system_id { SYSTEM_RUN, SYSTEM_APEX, SYSTEM_APEX_DPG, SYSTEM_GA3C, SYSTEM_A3C } system_id;

/* Values as text, NULL where there is none. They have been checked: a number is one, and in its range. */
typedef struct options {
    char *value[OPTIONS];
    int has_other_env;    /* 1: the run that is resumed was begun with another value of --env */
    int64_t stored_steps; /* --steps of the run that is resumed, as its file has it */
} options;

void options_free(options *o);

/* Reads the command line. */
int options_parse(options *o, int argc, char **argv);

/* Sets the options of a run from the file that options_write made, and refuses options that were given with another
 * value there. The number of steps and the environment may be given: they replace those in the file. */
int options_resume(options *o, const char *folder);
int options_write(const options *o, const char *folder);

system_id options_system(const options *o);

/* Refuses options that were given and that the preset's system does not have. */
int options_check_system(const options *o);

/* Sets a value that was not given. */
int options_set(options *o, option_id id, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Of an option that has a value. */
int64_t options_integer(const options *o, option_id id);
double options_number(const options *o, option_id id);

/* A value that was given goes to the setting; otherwise the setting becomes the option's value. */
int use_integer(options *o, option_id id, int64_t *setting);
int use_int32(options *o, option_id id, int32_t *setting);
int use_float(options *o, option_id id, float *setting);
int use_double(options *o, option_id id, double *setting);

/* The same for text, whose setting is the value itself. */
int use_text(options *o, option_id id, const char *otherwise);

typedef enum option_kind { TEXT, INTEGER, NUMBER, SWITCH, FLAG } option_kind;

const char *option_name(option_id id); /* "--steps" */
option_kind option_kind_of(option_id id);
void options_print_help(FILE *file);
