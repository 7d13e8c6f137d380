/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include "failure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *dtype_name(int32_t dtype)
{
    static const char *const names[] = {"unknown", "float32", "float16", "uint8", "int32", "int64", "bool"};
    return dtype >= GPUR_FLOAT32 && dtype <= GPUR_BOOL ? names[dtype] : names[0];
}

int is_actor_critic(const settings *s)
{
    return s->system == SYSTEM_GA3C || s->system == SYSTEM_A3C;
}

int is_apex(const settings *s)
{
    return s->system == SYSTEM_APEX || s->system == SYSTEM_APEX_DPG;
}

int can_save_files(void)
{
    return strstr(gpur_build_info(), "files: none") == NULL;
}

/* A plug-in that has a type of each kind gives the one that steps one at a time. */
static int find_type(const char *name, env_type *type)
{
    *type = (env_type){0};
    const gpur_status status = gpur_env_find(name, &type->single);
    if (status != GPUR_OK && gpur_vector_env_find(name, &type->vector) != GPUR_OK) {
        if (status != GPUR_UNAVAILABLE) /* it may have types that step one at a time, and the message is about them */
            (void)gpur_env_find(name, &type->single);
        return fail("%s", gpur_last_error());
    }
    type->name = type->single ? type->single->name : type->vector->name;
    type->options = type->single ? type->single->options : type->vector->options;
    return 0;
}

static int find_info(const env_type *type, const char *env_options, gpur_env_info *info)
{
    *info = (gpur_env_info){.size = sizeof *info};
    TRY_LIBRARY(type->single ? gpur_env_get_info(type->single, env_options, info)
                             : gpur_vector_env_get_info(type->vector, env_options, info));
    return 0;
}

static void print_bound(float bound, FILE *file)
{
    if (isfinite(bound))
        fprintf(file, "%g", (double)bound);
    else
        fprintf(file, "any");
}

static void print_space(const gpur_space *space, FILE *file)
{
    if (space->num_actions > 0) {
        fprintf(file, "%d, discrete\n", (int)space->num_actions);
        return;
    }
    fprintf(file, "%s (", dtype_name(space->dtype));
    for (int i = 0; i < GPUR_MAX_DIMS && space->shape[i] > 0; i++)
        fprintf(file, i ? ", %d" : "%d", (int)space->shape[i]);
    if (space->lows) {
        fprintf(file, "), each number with bounds of its own\n");
        return;
    }
    fprintf(file, "), from ");
    print_bound(space->low, file);
    fprintf(file, " to ");
    print_bound(space->high, file);
    fprintf(file, "\n");
}

static int print_environment(const char *name, const char *env_options, FILE *file)
{
    env_type type;
    gpur_env_info info;
    TRY(find_type(name, &type));
    TRY(find_info(&type, env_options, &info));
    fprintf(file, "%s\n  observation  ", type.name);
    print_space(&info.obs, file);
    fprintf(file, "  actions      ");
    print_space(&info.action, file);
    if (info.max_steps > 0)
        fprintf(file, "  episodes     of at most %" PRId64 " steps\n", info.max_steps);
    fprintf(file, "  a resumed run %s\n",
            info.save_bytes > 0 ? "goes on bit for bit"
                                : "begins new episodes: this environment cannot save its state");
    for (const char *line = type.options; line && *line;) {
        const size_t length = strcspn(line, "\n");
        fprintf(file, "  option       %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    return 0;
}

int environments_print(const char *name, const char *env_options, FILE *file)
{
    if (name)
        return print_environment(name, env_options ? env_options : "", file);
    for (int32_t i = 0; gpur_env_name(i); i++)
        TRY(print_environment(gpur_env_name(i), "", file));
    return 0;
}

static int64_t round_up(int64_t value, int64_t multiple_of)
{
    return (value + multiple_of - 1) / multiple_of * multiple_of;
}

static const char *const maths[] = {"fp32", "tf32", "bf16", "auto"};
enum { MATHS = sizeof maths / sizeof *maths };

static int use_math(options *o, int32_t *math)
{
    int32_t i = 0;
    TRY(use_text(o, OPTION_MATH, maths[*math]));
    while (i < MATHS && strcmp(maths[i], o->value[OPTION_MATH]) != 0)
        i++;
    if (i == MATHS)
        return fail("--math is \"%s\"; it must be fp32, tf32, bf16 or auto", o->value[OPTION_MATH]);
    *math = i;
    return 0;
}

int settings_decide_math(settings *s, options *o, int32_t math)
{
    *(is_actor_critic(s)             ? &s->actor_critic.math
      : s->system == SYSTEM_APEX_DPG ? &s->dpg.math
                                     : &s->learner.math) = math;
    return options_set(o, OPTION_MATH, "%s", maths[math]);
}

static int use_act(options *o, int32_t *act)
{
    TRY(use_text(o, OPTION_ACT, *act == GPUR_ACT_TARGET ? "target" : "latest"));
    const char *const value = o->value[OPTION_ACT];
    const int is_target = strcmp(value, "target") == 0;
    if (!is_target && strcmp(value, "latest") != 0)
        return fail("--act is \"%s\"; it must be latest or target", value);
    *act = is_target ? GPUR_ACT_TARGET : GPUR_ACT_LATEST;
    return 0;
}

/* Of two switches that exclude each other the one that is given decides, and not the preset. */
static int use_order(options *o, int is_vector, gpur_fast_dqn_config *run)
{
    if (run->num_envs == 1 && !is_vector)
        run->synchronized = 0; /* unless it is given */
    if (o->value[OPTION_BURST] && options_integer(o, OPTION_BURST) == 1)
        run->concurrent = 0;
    TRY(use_int32(o, OPTION_CONCURRENT, &run->concurrent));
    if (run->concurrent)
        run->burst = 0;
    TRY(use_int32(o, OPTION_SYNCHRONIZED, &run->synchronized));
    return use_int32(o, OPTION_BURST, &run->burst);
}

static int use_run(options *o, int is_vector, gpur_fast_dqn_config *run)
{
    TRY(use_int32(o, OPTION_NUM_ENVS, &run->num_envs));
    TRY(use_int32(o, OPTION_ENV_THREADS, &run->threads));
    if (run->threads > run->num_envs)
        return fail("--env-threads is %d and --num-envs is %d; the first must be 0 (as many) or 1 to the second",
                    (int)run->threads, (int)run->num_envs);
    TRY(use_order(o, is_vector, run));
    TRY(use_act(o, &run->act));
    TRY(use_int32(o, OPTION_WHOLE_EPISODES, &run->whole_episodes));
    TRY(use_integer(o, OPTION_TARGET_PERIOD, &run->target_period));
    TRY(use_integer(o, OPTION_TRAIN_PERIOD, &run->train_period));
    if (run->synchronized && run->target_period % run->num_envs != 0 && run->target_period % run->train_period == 0)
        return fail("--target-period is %" PRId64 " and --num-envs is %d; with --synchronized 1 the first must be a "
                    "multiple of the second: change one of them, or give --synchronized 0",
                    run->target_period, (int)run->num_envs);
    TRY(use_integer(o, OPTION_PREPOPULATION, &run->prepopulation));
    return 0;
}

static int use_evaluations(options *o, int64_t multiple_of, gpur_run_config *all)
{
    TRY(use_integer(o, OPTION_EVAL_EPISODES, &all->eval_episodes));
    all->eval_period = all->eval_episodes > 0 ? round_up(all->eval_period, multiple_of) : 0;
    return use_integer(o, OPTION_EVAL_PERIOD, &all->eval_period);
}

/* Stacks of other frames than the preset's. fields[0] is obs, fields[3] next_obs. */
static int use_frame_stack(options *o, settings *s)
{
    if (s->replay.layout != GPUR_LAYOUT_FRAMES)
        return !o->value[OPTION_FRAME_STACK]
                   ? 0
                   : fail("--frame-stack is %s, and %s does not show one image without channels; leave the option out",
                          o->value[OPTION_FRAME_STACK], s->type.name);
    TRY(use_int32(o, OPTION_FRAME_STACK, &s->replay.frame_stack));
    s->fields[0].shape[0] = s->fields[3].shape[0] = s->replay.frame_stack;
    return 0;
}

/* By the values of GPUR_ESTIMATOR_*: their names, and the option that says more. OPTIONS: none does. */
static const struct {
    const char *name;
    option_id setting;
} estimators[] = {
    {"peng", OPTION_LAMBDA},
    {"n-step", OPTION_N_STEP},
    {"watkins", OPTION_LAMBDA},
    {"peng-median", OPTIONS},
    {"watkins-median", OPTIONS},
    {"peng-error-bound", OPTION_ERROR_BOUND},
    {"watkins-error-bound", OPTION_ERROR_BOUND},
};
enum { ESTIMATORS = sizeof estimators / sizeof *estimators };

static int use_estimator(options *o, gpur_returns_config *returns)
{
    int32_t i = 0;
    TRY(use_text(o, OPTION_ESTIMATOR, estimators[returns->estimator].name));
    while (i < ESTIMATORS && strcmp(estimators[i].name, o->value[OPTION_ESTIMATOR]) != 0)
        i++;
    if (i == ESTIMATORS)
        return fail("--estimator is \"%s\"; it must be peng, watkins, n-step, peng-median, watkins-median, "
                    "peng-error-bound or watkins-error-bound",
                    o->value[OPTION_ESTIMATOR]);
    returns->estimator = i;
    for (option_id id = OPTION_LAMBDA; id <= OPTION_ERROR_BOUND; id++)
        if (o->value[id] && id != estimators[i].setting)
            return fail("%s is %s and --estimator is %s, which does not have it; leave one of them out",
                        option_name(id), o->value[id], estimators[i].name);
    return 0;
}

/* The cache of returns, which a preset has or has not. It has as many entries as the train steps between two refreshes
 * draw, in whole blocks. */
static int use_returns(options *o, const settings *s, gpur_returns_config *returns)
{
    const int64_t period = s->learner.target_period, batch = s->learner.batch_size, most = INT32_MAX;
    if (returns->cache_size == 0) {
        for (option_id id = OPTION_ESTIMATOR; id <= OPTION_ERROR_BOUND; id++)
            if (o->value[id])
                return fail("%s is %s and --preset is %s, which has no returns to estimate; leave the option out, or "
                            "take dqn-lambda-2019, vrc-2021, dqn-lambda-2019-small or vrc-2021-small",
                            option_name(id), o->value[id], o->value[OPTION_PRESET]);
        return 0;
    }
    returns->cache_size = round_up(period > most / batch ? most : batch * period, returns->block_length);
    TRY(use_estimator(o, returns));
    const option_id setting = estimators[returns->estimator].setting;
    if (setting == OPTION_LAMBDA && !o->value[OPTION_LAMBDA] && returns->lambda < 0.0f)
        return fail("--lambda is missing; --preset %s needs a number of 0 to 1 for --estimator %s: the paper states "
                    "none",
                    o->value[OPTION_PRESET], o->value[OPTION_ESTIMATOR]);
    return setting == OPTION_LAMBDA        ? use_float(o, setting, &returns->lambda)
           : setting == OPTION_N_STEP      ? use_int32(o, setting, &returns->n_step)
           : setting == OPTION_ERROR_BOUND ? use_float(o, setting, &returns->error_bound)
                                           : 0;
}

/* By default the replay's largest batch has 4,096 transitions. A larger batch has to be set. */
static int use_batch(int64_t capacity, int64_t batch_size, gpur_replay_config *replay)
{
    if (capacity / 2 < batch_size)
        return fail("--capacity is %" PRId64 " and --batch is %" PRId64 "; the first must be at least twice the second",
                    capacity, batch_size);
    if (batch_size > 4096)
        replay->max_batch = batch_size;
    return 0;
}

static int use_replay(options *o, const gpur_fast_dqn_config *run, int64_t batch_size, gpur_replay_config *replay)
{
    TRY(use_integer(o, OPTION_CAPACITY, &replay->capacity));
    TRY(use_batch(replay->capacity, batch_size, replay));
    if (replay->min_size > run->prepopulation)
        replay->min_size = run->prepopulation;
    if (replay->min_size > replay->capacity)
        replay->min_size = replay->capacity;
    replay->seed = (uint64_t)options_integer(o, OPTION_SEED);
    return 0;
}

/* The random steps that count as steps of exploration: with vrc-2021 and its small relative epsilon falls from the
 * first of them on. */
static int64_t explored_at_random(const options *o, const gpur_fast_dqn_config *run)
{
    return strncmp(o->value[OPTION_PRESET], "vrc-2021", 8) == 0 ? run->prepopulation : 0;
}

/* Epsilon falls in a line from 1 to 0.1. The learner's schedule has what is left of the line after the random steps. */
static int use_exploration(options *o, int64_t random, gpur_schedule *epsilon)
{
    int64_t steps = epsilon->steps;
    TRY(use_integer(o, OPTION_EXPLORATION_STEPS, &steps));
    const int is_left = steps > random;
    epsilon->first = is_left ? (float)(1.0 - 0.9 * (double)random / (double)steps) : epsilon->last;
    epsilon->steps = is_left ? steps - random : 0;
    return 0;
}

static int use_learner(options *o, const gpur_fast_dqn_config *run, gpur_dqn_config *learner)
{
    TRY(use_integer(o, OPTION_BATCH, &learner->batch_size));
    TRY(use_exploration(o, explored_at_random(o, run), &learner->exploration));
    TRY(use_math(o, &learner->math));
    TRY(use_text(o, OPTION_DETERMINISTIC, "0"));
    TRY(use_float(o, OPTION_LEARNING_RATE, &learner->optimizer.learning_rate.first));
    learner->optimizer.learning_rate.last = learner->optimizer.learning_rate.first;
    /* The run refuses periods of which one is no multiple of the other. */
    learner->target_period = run->target_period < run->train_period ? 1 : run->target_period / run->train_period;
    learner->seed = (uint64_t)options_integer(o, OPTION_SEED);
    return 0;
}

static int use_checkpoint(options *o, int64_t multiple_of, int is_small, int64_t *checkpoint)
{
    *checkpoint = can_save_files() ? round_up(is_small ? 50000 : 1000000, multiple_of) : 0;
    TRY(use_integer(o, OPTION_CHECKPOINT, checkpoint));
    if (*checkpoint > 0 && !can_save_files())
        return fail("--checkpoint is %" PRId64 ", and this build of the library cannot save to files; it must be 0, or "
                    "the library built with libcjson-dev and libxxhash-dev",
                    *checkpoint);
    if (*checkpoint % multiple_of != 0)
        return fail("--checkpoint is %" PRId64 " and --target-period is %" PRId64
                    "; the first must be a multiple of the second, or 0",
                    *checkpoint, multiple_of);
    return 0;
}

static int shows_atari_frames(const gpur_space *obs)
{
    return obs->dtype == GPUR_UINT8 && obs->shape[0] == 84 && obs->shape[1] == 84 && obs->shape[2] == 0;
}

/* The presets' networks are made for images of at most 84 x 84: one that is larger has to be asked for. */
static int choose_preset(options *o, const settings *s)
{
    const gpur_space *const obs = &s->env.obs;
    const int dims = !obs->shape[0] ? 0 : !obs->shape[1] ? 1 : !obs->shape[2] ? 2 : 3;
    const int is_chw = dims == 3 && gpur_image_layout(obs->shape[0], obs->shape[1], obs->shape[2]) == GPUR_CHW;
    const int64_t height = obs->shape[is_chw], width = obs->shape[is_chw + 1];
    if (dims == 3 && obs->shape[3] && s->env.action.num_actions > 0)
        return fail("%s shows observations of more than three axes, (%d, %d, %d, %d ...); images have two or three, "
                    "and other observations one: the environment must put a stack of images into one with more "
                    "channels",
                    s->type.name, (int)obs->shape[0], (int)obs->shape[1], (int)obs->shape[2], (int)obs->shape[3]);
    if (!o->value[OPTION_PRESET] && height * width > (int64_t)84 * 84)
        return fail(
            "%s shows images of %d x %d and --preset is missing; without it they must be at most 84 x 84. A game "
            "of Atari has such frames in the plug-in of docs/atari.md: --env build/atari/atari.so:Pong",
            s->type.name, (int)height, (int)width);
    if (!o->value[OPTION_PRESET] && s->env.action.num_actions == 0)
        return fail("%s has continuous actions and --preset is missing; it must be apex-dpg or apex-dpg-small",
                    s->type.name);
    return use_text(o, OPTION_PRESET,
                    shows_atari_frames(obs) ? "fast-dqn"
                    : dims < 2              ? "fast-dqn-small-vectors"
                                            : "fast-dqn-small");
}

/* How long the papers train. Those on DQN(lambda) count the random steps, which --steps does not. */
static int64_t steps_of(const settings *s, const char *preset, int is_small)
{
    if (is_small)
        return 1000000;
    if (strcmp(preset, "vrc-2021") == 0)
        return 5000000 - s->run.prepopulation;
    if (strcmp(preset, "dqn-lambda-2019") == 0)
        return (s->replay.layout == GPUR_LAYOUT_FRAMES ? 10000000 : 500000) - s->run.prepopulation;
    return 50000000;
}

static int find_run(settings *s, options *o, int is_small)
{
    TRY_LIBRARY(gpur_fast_dqn_config_init(&s->run, sizeof s->run));
    TRY_LIBRARY(gpur_fast_dqn_preset(o->value[OPTION_PRESET], &s->all, s->fields, &s->replay, &s->learner, &s->run));
    s->learner.exploration.steps += explored_at_random(o, &s->run); /* of the whole line, as the option */
    s->steps = steps_of(s, o->value[OPTION_PRESET], is_small);
    TRY(use_integer(o, OPTION_STEPS, &s->steps));
    TRY(use_run(o, s->type.single == NULL, &s->run));
    TRY(use_evaluations(o, s->run.target_period, &s->all));
    if (s->type.vector && s->steps % s->run.num_envs != 0)
        return fail("--steps is %" PRId64 " and --num-envs is %d; a vector environment steps all at once, so the first "
                    "must be a multiple of the second",
                    s->steps, (int)s->run.num_envs);
    TRY(use_learner(o, &s->run, &s->learner));
    TRY(use_frame_stack(o, s));
    TRY(use_returns(o, s, &s->learner.returns));
    TRY(use_replay(o, &s->run, s->learner.batch_size, &s->replay));
    return use_checkpoint(o, s->run.target_period, is_small, &s->checkpoint);
}

/* Ape-X. */

static int use_epsilons(const options *o, settings *s)
{
    const char *at = o->value[OPTION_EPSILONS];
    int32_t count = 0;
    for (char *end; at && *at; at = end) {
        const double epsilon = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(epsilon >= 0.0 && epsilon <= 1.0) || count == GPUR_APEX_MAX_ACTORS)
            return fail("--epsilons is \"%s\"; it must be numbers of 0 to 1, at most %d, with commas between them",
                        o->value[OPTION_EPSILONS], GPUR_APEX_MAX_ACTORS);
        s->epsilons[count++] = (float)epsilon;
        if (*end == ',' && !end[1])
            return fail("--epsilons is \"%s\"; it must not end with a comma", o->value[OPTION_EPSILONS]);
        end += *end == ',';
    }
    s->apex.epsilons = count > 0 ? s->epsilons : NULL;
    s->apex.epsilon_count = count;
    return 0;
}

static int use_initial_priorities(options *o, int32_t *are_td)
{
    TRY(use_text(o, OPTION_INITIAL_PRIORITIES, *are_td ? "td" : "max"));
    const char *const value = o->value[OPTION_INITIAL_PRIORITIES];
    *are_td = strcmp(value, "td") == 0;
    return *are_td || strcmp(value, "max") == 0 ? 0
                                                : fail("--initial-priorities is \"%s\"; it must be td or max", value);
}

static int use_actors(options *o, settings *s)
{
    gpur_apex_config *const apex = &s->apex;
    TRY(use_int32(o, OPTION_ACTORS, &apex->actors));
    TRY(use_int32(o, OPTION_PROCESSES, &s->has_processes));
    TRY(use_double(o, OPTION_SAMPLES_PER_INSERT, &apex->samples_per_insert));
    TRY(use_initial_priorities(o, &apex->initial_priorities));
    TRY(use_int32(o, OPTION_REPLICATE, &apex->replicate));
    TRY(s->system == SYSTEM_APEX ? use_epsilons(o, s) : use_float(o, OPTION_SIGMA, &apex->sigma));
    TRY(use_evaluations(o, 1, &s->all));
    TRY(use_int32(o, OPTION_COMPRESSION, &apex->compression));
    TRY(use_integer(o, OPTION_PULL_PERIOD, &apex->pull_period));
    apex->folder = o->value[OPTION_FOLDER];
    return 0;
}

static int use_apex_learner(options *o, gpur_dqn_config *learner)
{
    int32_t is_prioritized = 1;
    TRY(use_int32(o, OPTION_PRIORITIZED, &is_prioritized));
    if (!is_prioritized)
        learner->index_source = GPUR_UNIFORM;
    TRY(use_math(o, &learner->math));
    TRY(use_integer(o, OPTION_TARGET_PERIOD, &learner->target_period));
    TRY(use_integer(o, OPTION_BATCH, &learner->batch_size));
    TRY(use_float(o, OPTION_LEARNING_RATE, &learner->optimizer.learning_rate.first));
    learner->optimizer.learning_rate.last = learner->optimizer.learning_rate.first;
    learner->seed = (uint64_t)options_integer(o, OPTION_SEED);
    return 0;
}

/* Of the second layers of both networks, which the paper names no activation for. */
static int use_second_activation(options *o, gpur_dpg_config *dpg)
{
    static const char *const words[] = {[GPUR_LINEAR] = "none", [GPUR_RELU] = "relu", [GPUR_TANH] = "tanh"};
    enum { COUNT = sizeof words / sizeof *words };
    int32_t activation = 0;
    TRY(use_text(o, OPTION_SECOND_ACTIVATION, words[dpg->actor.trunk[1].activation]));
    const char *const value = o->value[OPTION_SECOND_ACTIVATION];
    while (activation < COUNT && strcmp(value, words[activation]) != 0)
        activation++;
    if (activation == COUNT)
        return fail("--second-activation is \"%s\"; it must be none, tanh or relu", value);
    dpg->actor.trunk[1].activation = dpg->critic.trunk[1].activation = activation;
    return 0;
}

/* Both networks learn at the same rate. */
static int use_dpg(options *o, gpur_dpg_config *dpg)
{
    int32_t is_prioritized = 1;
    float rate = dpg->actor_optimizer.learning_rate.first;
    TRY(use_int32(o, OPTION_PRIORITIZED, &is_prioritized));
    if (!is_prioritized)
        dpg->index_source = GPUR_UNIFORM;
    TRY(use_math(o, &dpg->math));
    TRY(use_integer(o, OPTION_TARGET_PERIOD, &dpg->target_period));
    TRY(use_integer(o, OPTION_BATCH, &dpg->batch_size));
    TRY(use_float(o, OPTION_LEARNING_RATE, &rate));
    dpg->actor_optimizer.learning_rate = (gpur_schedule){.first = rate, .last = rate};
    dpg->critic_optimizer.learning_rate = dpg->actor_optimizer.learning_rate;
    dpg->seed = (uint64_t)options_integer(o, OPTION_SEED);
    return use_second_activation(o, dpg);
}

/* By the options of the learner, which a remote actor has, too. */
static void set_rows_under_way(settings *s)
{
    const int has_dpg = s->system == SYSTEM_APEX_DPG;
    s->apex.rows_under_way =
        gpur_apex_rows_under_way(s->apex.samples_per_insert, has_dpg ? s->dpg.batch_size : s->learner.batch_size,
                                 has_dpg ? s->dpg.target_period : s->learner.target_period);
}

/* Blocks repeat so many more frames as stacks are longer. */
static int use_apex_frames(options *o, settings *s)
{
    gpur_replay_config *const replay = &s->replay;
    const int64_t before = replay->frame_stack;
    TRY(use_frame_stack(o, s));
    replay->extra_frames += replay->capacity * (replay->frame_stack - before) / s->apex.block_rows;
    return 0;
}

/* Without priorities the oldest leave. */
static int use_eviction(options *o, int is_prioritized, int32_t *eviction)
{
    const char *const otherwise = is_prioritized && *eviction == GPUR_EVICT_BY_PRIORITY ? "priority" : "oldest";
    TRY(use_text(o, OPTION_EVICTION, otherwise));
    const char *const value = o->value[OPTION_EVICTION];
    const int is_by_priority = strcmp(value, "priority") == 0;
    if (!is_by_priority && strcmp(value, "oldest") != 0)
        return fail("--eviction is \"%s\"; it must be oldest or priority", value);
    if (is_by_priority && !is_prioritized)
        return fail("--eviction is priority and --prioritized is 0; it must be 1, or --eviction oldest");
    *eviction = is_by_priority ? GPUR_EVICT_BY_PRIORITY : GPUR_EVICT_OLDEST;
    return 0;
}

/* The ring is 1/16 above the soft capacity, and has room for as large a part of frames that blocks repeat. */
static int use_apex_replay(options *o, settings *s)
{
    gpur_replay_config *const replay = &s->replay;
    const int64_t preset = replay->capacity;
    const int64_t batch = s->system == SYSTEM_APEX ? s->learner.batch_size : s->dpg.batch_size;
    int64_t *const soft = &s->apex.soft_capacity;
    TRY(use_integer(o, OPTION_CAPACITY, soft));
    TRY(use_batch(*soft, batch, replay));
    const int64_t most = INT64_MAX / 2 / (replay->extra_frames + 1); /* so that the product below is a number */
    if (*soft > most)
        return fail("--capacity is %" PRId64 "; it must be at most %" PRId64, *soft, most);
    replay->capacity = *soft + *soft / 16;
    replay->extra_frames = round_up(replay->extra_frames * replay->capacity, preset) / preset;
    if (replay->min_size > *soft)
        replay->min_size = *soft;
    TRY(use_integer(o, OPTION_PREPOPULATION, &replay->min_size));
    if (replay->min_size > *soft)
        return fail("--prepopulation is %" PRId64 " and --capacity is %" PRId64
                    "; the first must be at most the second",
                    replay->min_size, *soft);
    replay->seed = (uint64_t)options_integer(o, OPTION_SEED);
    return s->system == SYSTEM_APEX_DPG ? use_eviction(o, s->dpg.index_source != GPUR_UNIFORM, &replay->eviction) : 0;
}

/* Actors and agents have an environment each. */
static int check_single(const settings *s, const options *o)
{
    return s->type.single ? 0
                          : fail("%s steps all environments at once, and --preset is %s, whose %s step one each; it "
                                 "must be a type that steps one at a time",
                                 s->type.name, o->value[OPTION_PRESET], is_apex(s) ? "actors" : "agents");
}

static int find_apex(settings *s, options *o, int is_small)
{
    TRY(check_single(s, o));
    TRY_LIBRARY(gpur_apex_config_init(&s->apex, sizeof s->apex));
    TRY_LIBRARY(
        gpur_apex_preset(o->value[OPTION_PRESET], &s->all, s->fields, &s->replay, &s->learner, &s->dpg, &s->apex));
    s->steps = is_small ? 1000000 : 50000000;
    TRY(use_integer(o, OPTION_STEPS, &s->steps));
    TRY(use_actors(o, s));
    if (s->system == SYSTEM_APEX) {
        TRY(use_apex_learner(o, &s->learner));
        TRY(use_apex_frames(o, s));
    } else {
        TRY(use_dpg(o, &s->dpg));
    }
    set_rows_under_way(s);
    TRY(use_apex_replay(o, s));
    return use_checkpoint(o, 1, is_small, &s->checkpoint);
}

/* GA3C, A3C and A2C. */

/* An option whose values are three words, by the values of the setting. */
static int use_word(options *o, option_id id, const char *const words[3], int32_t *setting)
{
    int32_t i = 0;
    TRY(use_text(o, id, words[*setting]));
    while (i < 3 && strcmp(words[i], o->value[id]) != 0)
        i++;
    if (i == 3)
        return fail("%s is \"%s\"; it must be %s, %s or %s", option_name(id), o->value[id], words[0], words[1],
                    words[2]);
    *setting = i;
    return 0;
}

/* What A3C and A2C do not have. */
static int use_queues(options *o, gpur_ga3c_config *run)
{
    static const char *const when_full[] = {"wait", "refuse", "drop-oldest"}, *const tuners[] = {"none", "paper",
                                                                                                 "code"};
    TRY(use_int32(o, OPTION_PREDICTORS, &run->predictors));
    TRY(use_int32(o, OPTION_TRAINERS, &run->trainers));
    TRY(use_int32(o, OPTION_MIN_TRAIN_BATCH, &run->min_train_batch));
    TRY(use_int32(o, OPTION_QUEUE_ROOM, &run->queue_room));
    TRY(use_word(o, OPTION_WHEN_FULL, when_full, &run->when_full));
    TRY(use_word(o, OPTION_TUNER, tuners, &run->tuner));
    return use_double(o, OPTION_TUNER_PERIOD, &run->tuner_period);
}

/* The rows of the largest train step. */
static int use_largest_batch(const gpur_ga3c_config *run, int32_t *max_batch)
{
    const int64_t rows = run->system == GPUR_A2C   ? (int64_t)run->agents * run->t_max
                         : run->system == GPUR_A3C ? run->t_max
                                                   : run->min_train_batch + run->t_max;
    if (rows > GPUR_MAX_ACTOR_CRITIC_BATCH)
        return fail("--agents is %d and --t-max is %d; their product must be at most %d", (int)run->agents,
                    (int)run->t_max, GPUR_MAX_ACTOR_CRITIC_BATCH);
    *max_batch = rows > 8 ? (int32_t)rows : 8;
    return 0;
}

static int use_actor_critic(options *o, gpur_actor_critic_config *learner)
{
    TRY(use_float(o, OPTION_LEARNING_RATE, &learner->optimizer.learning_rate.first));
    learner->optimizer.learning_rate.last = learner->optimizer.learning_rate.first;
    TRY(use_float(o, OPTION_ENTROPY, &learner->entropy.first));
    learner->entropy.last = learner->entropy.first;
    TRY(use_math(o, &learner->math));
    TRY(use_text(o, OPTION_DETERMINISTIC, "0"));
    learner->seed = (uint64_t)options_integer(o, OPTION_SEED);
    return 0;
}

static int find_ga3c(settings *s, options *o, int is_small)
{
    gpur_ga3c_config *const run = &s->ga3c;
    TRY(check_single(s, o));
    TRY_LIBRARY(gpur_actor_critic_config_init(&s->actor_critic, sizeof s->actor_critic));
    TRY_LIBRARY(gpur_ga3c_config_init(run, sizeof *run));
    TRY_LIBRARY(gpur_ga3c_preset(o->value[OPTION_PRESET], &s->all, &s->actor_critic, run));
    if (run->system == GPUR_A3C || (run->system == GPUR_GA3C && is_small))
        run->agents = 16;
    s->steps = is_small ? 1000000 : 50000000;
    TRY(use_integer(o, OPTION_STEPS, &s->steps));
    TRY(use_int32(o, OPTION_AGENTS, &run->agents));
    TRY(use_int32(o, OPTION_T_MAX, &run->t_max));
    if (s->system == SYSTEM_GA3C)
        TRY(use_queues(o, run));
    TRY(use_largest_batch(run, &s->actor_critic.max_batch));
    TRY(use_actor_critic(o, &s->actor_critic));
    TRY(use_integer(o, OPTION_EVAL_EPISODES, &s->all.eval_episodes));
    return use_checkpoint(o, 1, is_small, &s->checkpoint);
}

int settings_find(settings *s, options *o)
{
    if (!o->value[OPTION_ENV])
        return fail("--env is missing; it must be a game of --list or a plug-in's file");
    TRY(use_text(o, OPTION_ENV_OPTIONS, ""));
    TRY(use_text(o, OPTION_DEVICE, "auto"));
    TRY(use_text(o, OPTION_SEED, "1"));
    TRY(use_text(o, OPTION_THREADS, "0"));
    TRY(find_type(o->value[OPTION_ENV], &s->type));
    if (o->has_other_env)
        TRY(config_check_env(o->value[OPTION_RESUME], s->type.name));
    TRY(find_info(&s->type, o->value[OPTION_ENV_OPTIONS], &s->env));
    TRY(choose_preset(o, s));
    TRY(options_check_system(o));
    TRY_LIBRARY(gpur_run_config_init(&s->all, sizeof s->all));
    s->all.type = s->type.single, s->all.vector = s->type.vector;
    s->all.env_options = o->value[OPTION_ENV_OPTIONS];
    s->all.seed = (uint64_t)options_integer(o, OPTION_SEED);
    TRY_LIBRARY(gpur_replay_config_init(&s->replay, sizeof s->replay));
    TRY_LIBRARY(gpur_dqn_config_init(&s->learner, sizeof s->learner));
    TRY_LIBRARY(gpur_dpg_config_init(&s->dpg, sizeof s->dpg));
    const int is_small = strstr(o->value[OPTION_PRESET], "-small") != NULL;
    s->system = options_system(o);
    return s->system == SYSTEM_RUN ? find_run(s, o, is_small)
           : is_apex(s)            ? find_apex(s, o, is_small)
                                   : find_ga3c(s, o, is_small);
}
