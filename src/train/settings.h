/* SPDX-License-Identifier: MIT */
/* What a training is made of: its environment, and the configs of its device, replay, learner and run. Options
 * (options.h) set members of it. */
#pragma once

#include "base/status.h"
#include "gpureplay.h"
#include "gpureplay/run.h"
#include "replay/checkpoint/describe.h"
#include "train/files.h"

/* `type` steps one environment, `vector` all at once. One of them may be NULL. */
typedef struct gpur_train_env {
    const gpur_env_type *type;
    const gpur_vector_env_type *vector;
    const char *name, *options; /* of the type */
    gpur_env_info info;
} gpur_train_env;

typedef struct gpur_options gpur_options; /* options.h */

typedef struct gpur_train_settings {
    const char *env_name, *env_options, *preset, *device; /* texts are memory of the options */
    int32_t threads, deterministic;                       /* of the device */
    int64_t seed;
    int64_t steps;      /* environment steps, offline train steps */
    int64_t checkpoint; /* steps between checkpoints; 0: there are none */
    int64_t granule;    /* checkpoints are at multiples of so many steps */

    gpur_train_env env;
    gpur_run_config all;
    gpur_field fields[GPUR_APEX_FIELDS]; /* of the replay, which points to them */
    gpur_replay_config replay;
    gpur_dqn_config dqn;
    gpur_dpg_config dpg; /* DPG has it in the place of `dqn` */
    gpur_sac_config sac;
    gpur_actor_critic_config actor_critic;
    gpur_fast_dqn_config fast_dqn;
    gpur_apex_config apex;
    gpur_ga3c_config ga3c;

    int64_t exploration_steps;  /* in which epsilon falls */
    const char *hidden;         /* the units of the layers of DPG's networks, with commas between them */
    char hidden_text[64];       /* of the preset */
    int32_t critic_head;        /* the place of a critic's head among those of the option */
    int32_t act;                /* 1: by the target network */
    int64_t cache_size;         /* of the cache of returns; 0: as many as train steps draw */
    int32_t prioritized;        /* 0: an Ape-X learner draws uniformly */
    int32_t processes;          /* 1: the actors of Ape-X are processes */
    const char *demonstrations; /* the file of a replay; NULL: there are none */
    const char *epsilons_text;
    float epsilons[GPUR_APEX_MAX_ACTORS]; /* those that `apex` points to */

    /* Offline. */
    const char *data;              /* the option: a file, or for a person what it is */
    gpur_replay *given;            /* the caller's, which has the rows; NULL: they come from a file */
    gpur_replay_description rows;  /* `replay` points to its fields */
    char rows_path[GPUR_MAX_PATH]; /* of the file */
    int32_t goes_on;               /* 1: it is in a checkpoint, which the run loads */
    int32_t describes_env;         /* 1: there are no rows, as for the help: they are as the environment's would be */
} gpur_train_settings;

/* A member of it, by its offset. */
static inline void *gpur_train_member(const gpur_train_settings *settings, size_t at)
{
    return (char *)settings + at;
}

/* The head of critics of continuous actions, GPUR_HEAD_*. */
int32_t gpur_train_critic_head(const gpur_train_settings *settings);

/* Whether this build of the library can save to files. */
int gpur_can_save_files(void);

/* Finds an environment by its name, unless its type is set. A plug-in that has a type of each kind gives the one that
 * steps one at a time. */
gpur_status gpur_train_find_type(const char *name, gpur_train_env *env);

/* Fills in what it shows and takes. */
gpur_status gpur_train_ask_env(const char *env_options, gpur_train_env *env);

/* Finds the environment and the system, and sets all settings. */
gpur_status gpur_train_find_settings(gpur_options *options, gpur_train_settings *settings);
