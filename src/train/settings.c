/* SPDX-License-Identifier: MIT */
/* The settings of a training, from its environment and its options. */
#include "train/settings.h"

#include "run/presets.h"
#include "train/config_document.h"
#include "train/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int gpur_can_save_files(void)
{
    return strstr(gpur_build_info(), "files: none") == NULL;
}

static gpur_status find_type(const char *name, gpur_train_env *env)
{
    const gpur_status status = gpur_env_find(name, &env->type);
    if (status == GPUR_OK || gpur_vector_env_find(name, &env->vector) == GPUR_OK)
        return GPUR_OK;
    /* It may have types that step one at a time, and then the message is about them. */
    return status == GPUR_UNAVAILABLE ? GPUR_INVALID_ARGUMENT : gpur_env_find(name, &env->type);
}

gpur_status gpur_train_find_type(const char *name, gpur_train_env *env)
{
    if (!env->type && !env->vector && *name == '(') /* as Python writes what has no name */
        return gpur_fail(GPUR_INVALID_ARGUMENT,
                         "the run had an environment that was an object of Python; gpureplay.train in Python goes on "
                         "with it, and it is played or evaluated in an environment like it, whose name must be given");
    if (!env->type && !env->vector)
        GPUR_TRY(find_type(name, env));
    env->name = env->vector ? env->vector->name : env->type->name;
    env->options = env->vector ? env->vector->options : env->type->options;
    return GPUR_OK;
}

gpur_status gpur_train_ask_env(const char *env_options, gpur_train_env *env)
{
    env->info = (gpur_env_info){.size = sizeof env->info};
    return env->type ? gpur_env_get_info(env->type, env_options, &env->info)
                     : gpur_vector_env_get_info(env->vector, env_options, &env->info);
}

static gpur_status refuse_vectors(const gpur_options *o, const gpur_train_settings *s)
{
    char names[GPUR_PRESET_NAMES];
    gpur_preset_list(GPUR_PRESETS_OF_VECTORS, "", " or ", names);
    return gpur_refuse(o, "%s has continuous actions and {preset} is missing; it must be %s", s->env.name, names);
}

/* The presets' networks are made for images of at most 84 x 84: one that is larger has to be asked for. */
static gpur_status choose_preset(const gpur_options *o, gpur_train_settings *s)
{
    const gpur_space *const obs = &s->env.info.obs;
    const int dims = !obs->shape[0] ? 0 : !obs->shape[1] ? 1 : !obs->shape[2] ? 2 : 3;
    const int is_chw =
        dims == 3 && !obs->shape[3] && gpur_image_layout(obs->shape[0], obs->shape[1], obs->shape[2]) == GPUR_CHW;
    const int64_t height = obs->shape[is_chw], width = obs->shape[is_chw + 1];
    const int is_frame = obs->dtype == GPUR_UINT8 && dims == 2 && height == 84 && width == 84;
    /* A door that makes the learner itself may give it layers that read them. */
    if (dims == 3 && obs->shape[3] && s->env.info.action.num_actions > 0 && !o->overrides)
        return gpur_refuse(
            o,
            "%s shows observations of more than three axes, (%d, %d, %d, %d ...); images have two or three, and other "
            "observations one: the environment must put a stack of images into one with more channels",
            s->env.name, (int)obs->shape[0], (int)obs->shape[1], (int)obs->shape[2], (int)obs->shape[3]);
    if (s->preset)
        return GPUR_OK;
    if (height * width > (int64_t)84 * 84)
        return gpur_refuse(
            o,
            "%s shows images of %d x %d and {preset} is missing; without it they must be at most 84 x 84. A game of "
            "Atari has such frames in the plug-in of docs/atari.md: {env} build/atari/atari.so:Pong",
            s->env.name, (int)height, (int)width);
    if (s->env.info.action.num_actions == 0)
        return refuse_vectors(o, s);
    s->preset = is_frame ? "fast-dqn" : dims < 2 ? "fast-dqn-small-vectors" : "fast-dqn-small";
    return GPUR_OK;
}

/* The plug-in of a run that is resumed may have moved. */
static gpur_status find_type_of_run(const gpur_options *o, gpur_train_settings *s)
{
    char error[1024];
    const gpur_status status = gpur_train_find_type(s->env_name, &s->env);
    snprintf(error, sizeof error, "%s", gpur_last_error());
    if (status == GPUR_OK || !o->folder || o->has_other_env || strncmp(error, "plug-in ", strlen("plug-in ")) != 0)
        return status;
    return gpur_refuse(o, "%s; {env=}FILE names the file to which it was moved", error);
}

static gpur_status find_env(const gpur_options *o, gpur_train_settings *s, int32_t *eval_envs)
{
    GPUR_TRY(find_type_of_run(o, s));
    if (o->has_other_env)
        GPUR_TRY(gpur_config_document_check_env(o, o->folder, s->env.name, eval_envs));
    return gpur_train_ask_env(s->env_options, &s->env);
}

int32_t gpur_train_critic_head(const gpur_train_settings *s)
{
    static const int32_t heads[] = {GPUR_HEAD_Q, GPUR_HEAD_QUANTILES, GPUR_HEAD_CATEGORICAL};
    return heads[s->critic_head];
}

gpur_status gpur_train_find_settings(gpur_options *o, gpur_train_settings *s)
{
    GPUR_TRY(gpur_options_begin(o, s));
    const int has_env = s->env_name || s->env.type || s->env.vector;
    const gpur_train_system *const offline = s->preset && gpur_train_system_of(o->system)->find_rows
                                                 ? gpur_train_system_of(o->system)
                                                 : NULL; /* it needs rows, and no environment */
    int32_t eval_envs = 0;
    if (has_env)
        GPUR_TRY(find_env(o, s, &eval_envs));
    else if (!offline)
        return gpur_refuse(o, "{env} is missing; it must be a game of --list or a plug-in's file");
    if (offline)
        GPUR_TRY(offline->find_rows(o, s));
    GPUR_TRY(choose_preset(o, s));
    GPUR_TRY(gpur_options_find_system(o, s->preset));
    GPUR_TRY(gpur_options_check_system(o, s->preset));
    GPUR_TRY(gpur_run_config_init(&s->all, sizeof s->all));
    s->all.type = s->env.type;
    s->all.vector = s->env.vector;
    s->all.env_options = s->env_options;
    s->all.seed = (uint64_t)s->seed;
    s->all.eval_envs = eval_envs;
    GPUR_TRY(gpur_replay_config_init(&s->replay, sizeof s->replay));
    GPUR_TRY(gpur_dqn_config_init(&s->dqn, sizeof s->dqn));
    GPUR_TRY(gpur_dpg_config_init(&s->dpg, sizeof s->dpg));
    GPUR_TRY(gpur_sac_config_init(&s->sac, sizeof s->sac));
    const gpur_train_system *const system = gpur_train_system_of(o->system);
    if (s->env.vector && !system->takes_vector)
        return gpur_refuse(o,
                           "%s steps all environments at once, and {preset is}, whose%s step one each; it must be a "
                           "type that steps one at a time",
                           s->env.name, system->lanes);
    s->steps = gpur_train_is_small(s) ? 1000000 : 50000000; /* how long the papers train */
    GPUR_TRY(system->fill(s));
    GPUR_TRY(gpur_options_put(o, s));
    return system->complete(o, s);
}
