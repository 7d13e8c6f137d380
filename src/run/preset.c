/* SPDX-License-Identifier: MIT */
/* The settings of whole systems: replay, learner and run, for an environment. */
#include "gpureplay/run.h"

#include "base/status.h"
#include "run/lane.h"

#include <string.h>

/* What an environment's observations are to a network. */
typedef struct obs_kind {
    int32_t dims;
    int32_t is_frame; /* 1: one image without channels, of which the network sees a stack */
    int32_t stack;
} obs_kind;

/* An environment, and the configs that get its settings. */
typedef struct preset {
    const char *env_name, *options;
    gpur_env_info info;
    gpur_field *fields;
    gpur_replay_config *replay;
    gpur_learner_config *learner;
    gpur_run_config *run;
} preset;

static gpur_status check_info(const char *name, const gpur_env_info *info)
{
    GPUR_REQUIRE(info->action.num_actions > 0, "%s: its actions are not discrete; a Q network needs discrete actions",
                 name);
    GPUR_REQUIRE(info->obs.dtype == GPUR_FLOAT32 || info->obs.dtype == GPUR_UINT8,
                 "%s: the dtype of its observations is %d; it must be GPUR_FLOAT32 (%d) or GPUR_UINT8 (%d)", name,
                 (int)info->obs.dtype, (int)GPUR_FLOAT32, (int)GPUR_UINT8);
    return GPUR_OK;
}

static obs_kind kind_of(const gpur_space *obs)
{
    obs_kind kind = {.stack = 4};
    while (kind.dims < GPUR_MAX_DIMS && obs->shape[kind.dims] > 0)
        kind.dims++;
    kind.is_frame = kind.dims == 2;
    return kind;
}

/* "obs" as the replay stores it: a frame gets the axis of its stack in front. */
static void set_fields(const gpur_space *obs, const obs_kind *kind, gpur_field fields[GPUR_RUN_FIELDS])
{
    static const gpur_field others[] = {{"action", GPUR_INT32, {0}},
                                        {"reward", GPUR_FLOAT32, {0}},
                                        {"terminated", GPUR_BOOL, {0}},
                                        {"truncated", GPUR_BOOL, {0}}};
    gpur_field field = {.name = "obs", .dtype = obs->dtype};
    for (int32_t i = 0; i < kind->dims; i++)
        field.shape[i + kind->is_frame] = obs->shape[i];
    if (kind->is_frame)
        field.shape[0] = kind->stack;
    fields[0] = field;
    fields[1] = others[0];
    fields[2] = others[1];
    fields[3] = field;
    fields[3].name = "next_obs";
    fields[4] = others[2];
    fields[5] = others[3];
}

/* Bytes up to 255 become numbers up to 1. */
static float scale_of(const gpur_space *obs)
{
    return obs->dtype == GPUR_UINT8 && obs->high > 1.0f ? 1.0f / 255.0f : 1.0f;
}

static gpur_status set_replay(const gpur_env_info *info, const obs_kind *kind, gpur_field *fields,
                              gpur_replay_config *replay)
{
    set_fields(&info->obs, kind, fields);
    replay->fields = fields;
    replay->field_count = GPUR_RUN_FIELDS;
    replay->layout = kind->is_frame ? GPUR_LAYOUT_FRAMES : GPUR_LAYOUT_ROWS;
    if (kind->is_frame) {
        replay->frame_stack = kind->stack;
        replay->stack_axis = GPUR_STACK_FIRST;
    }
    return GPUR_OK;
}

static gpur_status check_frames(const char *env_name, const gpur_env_info *info, const obs_kind *kind)
{
    GPUR_REQUIRE(
        kind->is_frame && info->obs.dtype == GPUR_UINT8 && info->obs.shape[0] == 84 && info->obs.shape[1] == 84,
        "%s: preset \"fast-dqn\" needs frames of 84 x 84 bytes; \"fast-dqn-small\" takes other observations", env_name);
    return GPUR_OK;
}

static gpur_status set_paper(gpur_replay_config *replay, gpur_learner_config *learner)
{
    GPUR_TRY(gpur_replay_config_preset(replay, "nature-dqn"));
    return gpur_learner_config_preset(learner, "nature-dqn");
}

/* A run's defaults are the constants of Daley & Amato 2021. */
static gpur_status set_run(gpur_run_config *run)
{
    gpur_run_config paper;
    GPUR_TRY(gpur_run_config_init(&paper, sizeof paper));
    run->num_envs = paper.num_envs;
    run->concurrent = paper.concurrent;
    run->synchronized = paper.synchronized;
    run->act = paper.act;
    run->whole_episodes = paper.whole_episodes;
    run->target_period = paper.target_period;
    run->train_period = paper.train_period;
    run->prepopulation = paper.prepopulation;
    run->eval_period = paper.eval_period;
    run->eval_episodes = paper.eval_episodes;
    run->eval_epsilon = paper.eval_epsilon;
    return GPUR_OK;
}

/* The network of Young & Tian 2019, section 4 for images: a convolution of 16 filters of 3 x 3, and 128 units; for
 * other observations two layers of 128. The optimizer and the constants are this library's own. */
static void set_small_network(const gpur_env_info *info, const obs_kind *kind, gpur_network_config *network)
{
    const gpur_layer dense = {.kind = GPUR_DENSE, .units = 128, .activation = GPUR_RELU};
    const gpur_layer conv = {.kind = GPUR_CONV, .units = 16, .activation = GPUR_RELU, .kernel = 3, .stride = 1};
    network->trunk[0] = kind->dims >= 2 ? conv : dense;
    network->trunk[1] = dense;
    network->trunk_count = 2;
    network->head = GPUR_HEAD_Q;
    network->hidden = 0;
    network->init = GPUR_INIT_FAN_IN;
    network->input_scale = scale_of(&info->obs);
    network->input_layout = kind->is_frame ? GPUR_CHW : GPUR_HWC;
}

static void set_small(const gpur_env_info *info, const obs_kind *kind, gpur_replay_config *replay,
                      gpur_learner_config *learner, gpur_run_config *run)
{
    run->target_period = 1000;
    run->prepopulation = 5000;
    run->eval_period = 50000;
    replay->capacity = 100000;
    replay->min_size = run->prepopulation;
    replay->gamma = 0.99f;
    set_small_network(info, kind, &learner->network);
    learner->optimizer.kind = GPUR_ADAM;
    learner->optimizer.learning_rate = (gpur_schedule){.first = 2.5e-4f, .last = 2.5e-4f};
    learner->optimizer.clip_norm = 10.0f;
    learner->double_dqn = 0;
    learner->loss = GPUR_LOSS_HUBER;
    learner->batch_size = 32;
    learner->target_period = run->target_period / run->train_period;
    learner->exploration = (gpur_schedule){.first = 1.0f, .last = 0.1f, .steps = 100000};
}

static gpur_status set_all(const char *name, const preset *p)
{
    const int is_small = strcmp(name, "fast-dqn-small") == 0;
    GPUR_TRY(check_info(p->env_name, &p->info));
    const obs_kind kind = kind_of(&p->info.obs);
    if (!is_small)
        GPUR_TRY(check_frames(p->env_name, &p->info, &kind));
    GPUR_TRY(set_run(p->run));
    if (is_small)
        set_small(&p->info, &kind, p->replay, p->learner, p->run);
    else
        GPUR_TRY(set_paper(p->replay, p->learner));
    p->learner->network.num_actions = p->info.action.num_actions;
    p->run->env_options = p->options;
    return set_replay(&p->info, &kind, p->fields, p->replay);
}

static gpur_status check_arguments(const char *name, const void *type, const preset *p)
{
    GPUR_REQUIRE(name && type && p->options && p->fields && p->replay && p->learner && p->run,
                 "an argument is NULL; none may be");
    GPUR_REQUIRE(strcmp(name, "fast-dqn-small") == 0 || strcmp(name, "fast-dqn") == 0,
                 "preset is \"%s\"; it must be \"fast-dqn\" or \"fast-dqn-small\"", name);
    return GPUR_OK;
}

/* Makes an environment, or a vector of one, for its spaces. No other function of its type is called. */
static gpur_status read_info(preset *p, const gpur_env_type *type, const gpur_vector_env_type *vector)
{
    void (*const close)(void *) = type ? type->close : vector->close;
    void *env = NULL;
    GPUR_REQUIRE(p->env_name && (type ? type->init != NULL : vector->init != NULL) && close,
                 "the type has no name, init or close; it must have all three");
    const char *const refusal =
        type ? type->init(p->options, 0, &p->info, &env) : vector->init(p->options, 0, 1, &p->info, &env);
    GPUR_TRY(gpur_prefix_error(gpur_env_error(refusal), "%s", p->env_name));
    GPUR_REQUIRE(env, "init of %s returned no environment", p->env_name);
    close(env);
    return GPUR_OK;
}

gpur_status gpur_run_preset(const char *name, const gpur_env_type *type, const char *options,
                            gpur_field fields[GPUR_RUN_FIELDS], gpur_replay_config *replay,
                            gpur_learner_config *learner, gpur_run_config *run)
{
    preset p = {type ? type->name : NULL, options, {.size = sizeof p.info}, fields, replay, learner, run};
    GPUR_TRY(check_arguments(name, type, &p));
    GPUR_TRY(read_info(&p, type, NULL));
    return set_all(name, &p);
}

gpur_status gpur_run_preset_vector(const char *name, const gpur_vector_env_type *type, const char *options,
                                   gpur_field fields[GPUR_RUN_FIELDS], gpur_replay_config *replay,
                                   gpur_learner_config *learner, gpur_run_config *run)
{
    preset p = {type ? type->name : NULL, options, {.size = sizeof p.info}, fields, replay, learner, run};
    GPUR_TRY(check_arguments(name, type, &p));
    GPUR_TRY(read_info(&p, NULL, type));
    return set_all(name, &p);
}
