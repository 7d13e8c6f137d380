/* SPDX-License-Identifier: MIT */
/* config.json. */
#include "settings.h"

#include "failure.h"
#include "files.h"

#include <stdlib.h>
#include <string.h>

#ifndef TRAIN_COMMIT
#define TRAIN_COMMIT ""
#endif

/* A constant of the library by its name there, in small letters. */
#define NAMED(j, name, value, ...)                                                                                     \
    do {                                                                                                               \
        static const char *const names_[] = {__VA_ARGS__};                                                             \
        add_name(j, name, value, names_, sizeof names_ / sizeof *names_);                                              \
    } while (0)

static void add_name(json *j, const char *name, int32_t value, const char *const *names, size_t count)
{
    if (value >= 0 && (size_t)value < count)
        json_string(j, name, names[value]);
    else
        json_integer(j, name, value);
}

/* The lines "key: value" of gpur_build_info. */
static int add_build(json *j)
{
    char *const lines = strdup(gpur_build_info()), *rest = lines;
    if (!lines)
        return fail("there is no memory for config.json");
    json_begin(j, "build", '{');
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        char *const colon = strstr(line, ": ");
        if (colon) {
            *colon = '\0';
            json_string(j, line, colon + 2);
        }
    }
    if (*TRAIN_COMMIT)
        json_string(j, "commit", TRAIN_COMMIT);
    json_end(j, '}');
    free(lines);
    return 0;
}

static void add_options(json *j, const options *o)
{
    json_begin(j, "options", '{');
    for (int i = 0; i < OPTIONS_OF_A_RUN; i++) {
        const char *const name = option_name((option_id)i) + strlen("--");
        if (!o->value[i])
            continue;
        if (option_kind_of((option_id)i) == TEXT)
            json_string(j, name, o->value[i]);
        else if (option_kind_of((option_id)i) == NUMBER)
            json_float(j, name, (float)options_number(o, (option_id)i));
        else
            json_integer(j, name, options_integer(o, (option_id)i));
    }
    json_end(j, '}');
}

static int add_device(json *j, gpur_device *device)
{
    gpur_device_info info = {.size = sizeof info};
    TRY_LIBRARY(gpur_device_get_info(device, &info));
    json_begin(j, "device", '{');
    json_string(j, "name", info.name);
    json_string(j, "description", info.description);
    json_integer(j, "threads", info.threads);
    json_integer(j, "memory_total", info.memory_total);
    json_end(j, '}');
    return 0;
}

static void add_shape(json *j, const int32_t shape[GPUR_MAX_DIMS])
{
    int dims = 0;
    while (dims < GPUR_MAX_DIMS && shape[dims] > 0)
        dims++;
    json_integers(j, "shape", shape, dims);
}

/* Of action vectors: policies scale theirs by them. */
static void add_bounds(json *j, const gpur_space *action)
{
    int32_t count = 1;
    for (int i = 0; i < GPUR_MAX_DIMS && action->shape[i] > 0; i++)
        count *= action->shape[i];
    json_begin(j, "action", '{');
    add_shape(j, action->shape);
    json_begin(j, "low", '[');
    for (int32_t i = 0; i < count; i++)
        json_float(j, NULL, action->lows ? action->lows[i] : action->low);
    json_end(j, ']');
    json_begin(j, "high", '[');
    for (int32_t i = 0; i < count; i++)
        json_float(j, NULL, action->highs ? action->highs[i] : action->high);
    json_end(j, ']');
    json_end(j, '}');
}

static void add_environment(json *j, const options *o, const settings *s)
{
    const gpur_space *const obs = &s->env.obs;
    json_begin(j, "environment", '{');
    json_string(j, "name", s->type.name);
    json_string(j, "options", o->value[OPTION_ENV_OPTIONS]);
    json_begin(j, "observation", '{');
    json_string(j, "dtype", dtype_name(obs->dtype));
    add_shape(j, obs->shape);
    json_float(j, "low", obs->low);
    json_float(j, "high", obs->high);
    json_end(j, '}');
    json_integer(j, "num_actions", s->env.action.num_actions);
    if (s->env.action.num_actions == 0)
        add_bounds(j, &s->env.action);
    json_integer(j, "max_steps", s->env.max_steps);
    json_integer(j, "save_bytes", s->env.save_bytes);
    json_end(j, '}');
}

/* `act` is that by which the run acts: with `concurrent` the target network, if there is one. */
/* What all runs have. */
static void add_evaluations(json *j, const gpur_run_config *all)
{
    json_integer(j, "eval_period", all->eval_period);
    json_integer(j, "eval_episodes", all->eval_episodes);
    json_float(j, "eval_epsilon", all->eval_epsilon);
    json_integer(j, "eval_envs", all->eval_envs);
    json_integer(j, "seed", (int64_t)all->seed);
}

static void add_run(json *j, const gpur_run_config *all, const gpur_fast_dqn_config *run, int has_target)
{
    json_begin(j, "run", '{');
    json_integer(j, "num_envs", run->num_envs);
    json_integer(j, "threads", run->threads);
    json_integer(j, "concurrent", run->concurrent);
    json_integer(j, "synchronized", run->synchronized);
    json_integer(j, "burst", run->burst);
    NAMED(j, "act", run->concurrent && has_target ? GPUR_ACT_TARGET : run->act, "latest", "previous", "target");
    json_integer(j, "whole_episodes", run->whole_episodes);
    json_integer(j, "target_period", run->target_period);
    json_integer(j, "train_period", run->train_period);
    json_integer(j, "prepopulation", run->prepopulation);
    add_evaluations(j, all);
    json_end(j, '}');
}

static void add_apex(json *j, const gpur_run_config *all, const gpur_apex_config *apex)
{
    json_begin(j, "apex", '{');
    json_integer(j, "actors", apex->actors);
    json_integer(j, "remote_actors", apex->remote_actors);
    json_integer(j, "processes", apex->command != NULL);
    json_float(j, "epsilon_base", apex->epsilon_base);
    json_float(j, "epsilon_exponent", apex->epsilon_exponent);
    json_integer(j, "block_rows", apex->block_rows);
    json_integer(j, "compression", apex->compression);
    NAMED(j, "initial_priorities", apex->initial_priorities, "max", "td");
    json_integer(j, "replicate", apex->replicate);
    json_integer(j, "pull_period", apex->pull_period);
    json_integer(j, "max_episode_steps", apex->max_episode_steps);
    json_integer(j, "broadcast_period", apex->broadcast_period);
    json_integer(j, "soft_capacity", apex->soft_capacity);
    json_integer(j, "trim_period", apex->trim_period);
    json_float(j, "samples_per_insert", (float)apex->samples_per_insert);
    json_float(j, "limiter_band", (float)apex->limiter_band);
    json_float(j, "limiter_timeout", (float)apex->limiter_timeout);
    json_integer(j, "restarts", apex->restarts);
    add_evaluations(j, all);
    json_float(j, "sigma", apex->sigma);
    json_integer(j, "rows_under_way", apex->rows_under_way);
    json_end(j, '}');
}

static void add_schedule(json *j, const char *name, const gpur_schedule *schedule)
{
    json_begin(j, name, '{');
    json_float(j, "first", schedule->first);
    json_float(j, "last", schedule->last);
    json_integer(j, "begin", schedule->begin);
    json_integer(j, "steps", schedule->steps);
    json_end(j, '}');
}

/* How train steps sample. The default is written as what it is for this replay. */
static void add_source(json *j, int32_t source, const gpur_replay_config *replay)
{
    if (source == GPUR_SOURCE_AUTO)
        source = replay->index_source;
    if (source == GPUR_SOURCE_AUTO)
        source = replay->prioritized ? GPUR_PRIORITIZED_STRATIFIED : GPUR_UNIFORM;
    NAMED(j, "index_source", source, "auto", "uniform", "uniform_distinct", "prioritized_stratified",
          "prioritized_independent");
}

static void add_field(json *j, const char *name, const gpur_field *field)
{
    json_begin(j, name, '{');
    json_string(j, "name", field->name);
    json_string(j, "dtype", dtype_name(field->dtype));
    add_shape(j, field->shape);
    json_end(j, '}');
}

static void add_fields(json *j, const gpur_replay_config *replay)
{
    json_begin(j, "fields", '[');
    for (int32_t i = 0; i < replay->field_count; i++)
        add_field(j, NULL, &replay->fields[i]);
    json_end(j, ']');
}

static void add_replay(json *j, const gpur_replay_config *replay)
{
    json_begin(j, "replay", '{');
    json_integer(j, "capacity", replay->capacity);
    add_fields(j, replay);
    add_source(j, replay->index_source, replay);
    json_integer(j, "block_rows", replay->block_rows);
    json_integer(j, "staging_blocks", replay->staging_blocks);
    NAMED(j, "upload", replay->upload, "copy", "scatter");
    NAMED(j, "flush", replay->flush, "auto", "manual");
    NAMED(j, "when_full", replay->when_full, "wait", "error");
    json_integer(j, "min_size", replay->min_size);
    json_integer(j, "max_batch", replay->max_batch);
    json_float(j, "gamma", replay->gamma);
    json_float(j, "reward_clip", replay->reward_clip);
    json_integer(j, "seed", (int64_t)replay->seed);
    json_integer(j, "prioritized", replay->prioritized);
    NAMED(j, "weight_norm", replay->weight_norm, "batch", "memory", "none");
    json_float(j, "alpha", replay->alpha);
    json_float(j, "priority_offset", replay->priority_offset);
    add_schedule(j, "beta", &replay->beta);
    json_integer(j, "n_step", replay->n_step);
    NAMED(j, "layout", replay->layout, "rows", "frames");
    json_integer(j, "frame_stack", replay->frame_stack);
    NAMED(j, "stack_axis", replay->stack_axis, "first", "last");
    NAMED(j, "stack_pad", replay->stack_pad, "zero", "repeat");
    json_integer(j, "extra_frames", replay->extra_frames);
    NAMED(j, "first_priority", replay->first_priority, "window", "ever");
    NAMED(j, "eviction", replay->eviction, "oldest", "priority");
    json_float(j, "evict_alpha", replay->evict_alpha);
    json_integer(j, "check_finite", replay->check_finite);
    json_end(j, '}');
}

static void add_network(json *j, const char *name, const gpur_network_config *network)
{
    json_begin(j, name, '{');
    json_begin(j, "trunk", '[');
    for (int32_t i = 0; i < network->trunk_count; i++) {
        const gpur_layer *const layer = &network->trunk[i];
        json_begin(j, NULL, '{');
        NAMED(j, "kind", layer->kind, "dense", "conv");
        json_integer(j, "units", layer->units);
        NAMED(j, "activation", layer->activation, "linear", "relu", "tanh");
        json_integer(j, "kernel", layer->kernel);
        json_integer(j, "stride", layer->stride);
        if (layer->padding == GPUR_SAME)
            json_string(j, "padding", "same");
        else
            json_integer(j, "padding", layer->padding);
        json_end(j, '}');
    }
    json_end(j, ']');
    NAMED(j, "head", network->head, "q", "dueling", "softmax_value", "tanh_action");
    json_integer(j, "hidden", network->hidden);
    NAMED(j, "hidden_activation", network->hidden_activation, "linear", "relu", "tanh");
    json_integer(j, "num_actions", network->num_actions);
    NAMED(j, "init", network->init, "fan_in", "glorot", "normal");
    json_float(j, "init_scale", network->init_scale);
    NAMED(j, "input_layout", network->input_layout, "chw", "hwc", "auto");
    json_float(j, "input_scale", network->input_scale);
    json_float(j, "input_shift", network->input_shift);
    json_end(j, '}');
}

static void add_optimizer(json *j, const char *name, const gpur_optimizer_config *optimizer)
{
    json_begin(j, name, '{');
    NAMED(j, "kind", optimizer->kind, "adam", "rmsprop_tf", "rmsprop_keras2", "rmsprop_torch", "rmsprop_deepmind",
          "adam_tf");
    json_integer(j, "centered", optimizer->centered);
    add_schedule(j, "learning_rate", &optimizer->learning_rate);
    json_float(j, "beta1", optimizer->beta1);
    json_float(j, "beta2", optimizer->beta2);
    json_float(j, "decay", optimizer->decay);
    json_float(j, "momentum", optimizer->momentum);
    json_float(j, "epsilon", optimizer->epsilon);
    json_float(j, "clip_norm", optimizer->clip_norm);
    json_float(j, "clip_value", optimizer->clip_value);
    json_end(j, '}');
}

static void add_returns(json *j, const gpur_returns_config *returns)
{
    json_begin(j, "returns", '{');
    json_integer(j, "cache_size", returns->cache_size);
    json_integer(j, "block_length", returns->block_length);
    NAMED(j, "estimator", returns->estimator, "peng", "n-step", "watkins", "peng-median", "watkins-median",
          "peng-error-bound", "watkins-error-bound");
    json_float(j, "lambda", returns->lambda);
    json_integer(j, "n_step", returns->n_step);
    json_float(j, "error_bound", returns->error_bound);
    NAMED(j, "storage", returns->storage, "virtual", "physical");
    NAMED(j, "draw", returns->draw, "permutation", "replacement");
    add_schedule(j, "prioritization", &returns->prioritization);
    json_integer(j, "truncation_terminates", returns->truncation_terminates);
    json_end(j, '}');
}

static void add_learner(json *j, const gpur_dqn_config *learner, const gpur_replay_config *replay)
{
    json_begin(j, "learner", '{');
    add_network(j, "network", &learner->network);
    add_optimizer(j, "optimizer", &learner->optimizer);
    json_integer(j, "double_dqn", learner->double_dqn);
    NAMED(j, "loss", learner->loss, "huber", "squared");
    json_float(j, "huber_delta", learner->huber_delta);
    add_source(j, learner->index_source, replay);
    json_integer(j, "batch_size", learner->batch_size);
    json_integer(j, "target_period", learner->target_period);
    json_integer(j, "target_copy_first", learner->target_copy_first);
    NAMED(j, "act", learner->act, "latest", "previous", "target");
    NAMED(j, "math", learner->math, "fp32", "tf32", "bf16");
    NAMED(j, "step_kernel", learner->step_kernel, "auto", "libraries", "fused");
    add_schedule(j, "exploration", &learner->exploration);
    json_integer(j, "seed", (int64_t)learner->seed);
    json_integer(j, "host_batches", learner->host_batches);
    add_schedule(j, "beta", &learner->beta);
    add_returns(j, &learner->returns);
    json_end(j, '}');
}

static void add_dpg(json *j, const gpur_dpg_config *dpg, const gpur_replay_config *replay)
{
    json_begin(j, "dpg", '{');
    add_network(j, "actor", &dpg->actor);
    add_network(j, "critic", &dpg->critic);
    add_optimizer(j, "actor_optimizer", &dpg->actor_optimizer);
    add_optimizer(j, "critic_optimizer", &dpg->critic_optimizer);
    json_float(j, "action_gradient_clip", dpg->action_gradient_clip);
    json_float(j, "preactivation_penalty", dpg->preactivation_penalty);
    add_source(j, dpg->index_source, replay);
    add_schedule(j, "beta", &dpg->beta);
    json_integer(j, "batch_size", dpg->batch_size);
    json_integer(j, "target_period", dpg->target_period);
    NAMED(j, "math", dpg->math, "fp32", "tf32", "bf16");
    json_integer(j, "seed", (int64_t)dpg->seed);
    json_end(j, '}');
}

static void add_dqn(json *j, const settings *s)
{
    if (is_apex(s))
        add_apex(j, &s->all, &s->apex);
    else
        add_run(j, &s->all, &s->run, s->learner.returns.cache_size == 0);
    add_replay(j, &s->replay);
    if (s->system == SYSTEM_APEX_DPG)
        add_dpg(j, &s->dpg, &s->replay);
    else
        add_learner(j, &s->learner, &s->replay);
}

static void add_ga3c(json *j, const gpur_run_config *all, const gpur_ga3c_config *run)
{
    json_begin(j, "ga3c", '{');
    NAMED(j, "system", run->system, "ga3c", "a3c", "a2c");
    json_integer(j, "agents", run->agents);
    json_integer(j, "predictors", run->predictors);
    json_integer(j, "trainers", run->trainers);
    json_integer(j, "t_max", run->t_max);
    json_float(j, "discount", run->discount);
    json_float(j, "reward_clip", run->reward_clip);
    json_integer(j, "drop_terminal", run->drop_terminal);
    json_integer(j, "max_prediction_batch", run->max_prediction_batch);
    json_integer(j, "min_train_batch", run->min_train_batch);
    json_integer(j, "queue_room", run->queue_room);
    NAMED(j, "when_full", run->when_full, "wait", "refuse", "drop-oldest");
    NAMED(j, "tuner", run->tuner, "none", "paper", "code");
    json_float(j, "tuner_period", (float)run->tuner_period);
    json_float(j, "tuner_settling", (float)run->tuner_settling);
    json_integer(j, "max_agents", run->max_agents);
    add_evaluations(j, all);
    json_end(j, '}');
}

static void add_actor_critic(json *j, const gpur_actor_critic_config *learner)
{
    json_begin(j, "actor_critic", '{');
    add_network(j, "network", &learner->network);
    add_field(j, "obs", &learner->obs);
    add_optimizer(j, "optimizer", &learner->optimizer);
    json_integer(j, "dual_optimizer", learner->dual_optimizer);
    NAMED(j, "log", learner->log, "add", "max", "softmax");
    json_float(j, "log_epsilon", learner->log_epsilon);
    json_float(j, "policy_floor", learner->policy_floor);
    json_float(j, "value_coefficient", learner->value_coefficient);
    add_schedule(j, "entropy", &learner->entropy);
    json_integer(j, "max_batch", learner->max_batch);
    NAMED(j, "math", learner->math, "fp32", "tf32", "bf16");
    json_integer(j, "seed", (int64_t)learner->seed);
    json_integer(j, "check_finite", learner->check_finite);
    json_end(j, '}');
}

int config_write(const options *o, const settings *s, gpur_device *device, const char *folder)
{
    text document = {0};
    json j = {.out = &document};
    json_begin(&j, NULL, '{');
    json_string(&j, "program", "gpureplay-train");
    json_string(&j, "version", gpur_version());
    int result = add_build(&j);
    if (result == 0)
        result = add_device(&j, device);
    add_options(&j, o);
    add_environment(&j, o, s);
    if (is_actor_critic(s)) {
        add_ga3c(&j, &s->all, &s->ga3c);
        add_actor_critic(&j, &s->actor_critic);
    } else {
        add_dqn(&j, s);
    }
    json_end(&j, '}');
    if (result == 0)
        result = file_write(folder, "config.json", &document);
    text_free(&document);
    return result;
}

/* Compares names as JSON. */
static int check_env(char *document, const char *folder, const char *name)
{
    static const char before[] = "\n  \"environment\": {\n    \"name\": ";
    char *const found = strstr(document, before);
    if (!found)
        return fail("%s/config.json has no name of an environment; it must have one", folder);
    char *const stored = found + strlen(before);
    stored[strcspn(stored, "\n")] = '\0';
    if (*stored && stored[strlen(stored) - 1] == ',')
        stored[strlen(stored) - 1] = '\0';
    text given = {0};
    text_add_string(&given, name);
    const int result =
        text_is_whole(&given) && strcmp(stored, given.memory) == 0
            ? 0
            : fail("--env is of type \"%s\", and the run that is to be resumed has %s; the types must be the same",
                   name, stored);
    text_free(&given);
    return result;
}

int config_check_env(const char *folder, const char *name)
{
    char path[MAX_PATH];
    text document = {0};
    TRY(path_make(path, "%s/config.json", folder));
    int result = file_read(path, &document);
    if (result == 0)
        result = check_env(document.memory, folder, name);
    text_free(&document);
    return result;
}
