/* SPDX-License-Identifier: MIT */
/* Trainings by fast DQN, DQN(lambda) and DQN with the Virtual Replay Cache, and by DPG in the same runs. */
#include "train/system.h"

#include "base/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The random steps that count as steps of exploration: with vrc-2021 and its small relative epsilon falls from the
 * first of them on. */
static int64_t explored_at_random(const gpur_train_settings *s)
{
    return strncmp(s->preset, "vrc-2021", 8) == 0 ? s->fast_dqn.prepopulation : 0;
}

static gpur_status fill(gpur_train_settings *s)
{
    GPUR_TRY(gpur_fast_dqn_config_init(&s->fast_dqn, sizeof s->fast_dqn));
    GPUR_TRY(gpur_fast_dqn_preset(s->preset, &s->all, s->fields, &s->replay, &s->dqn, &s->fast_dqn));
    s->exploration_steps = s->dqn.exploration.steps + explored_at_random(s);
    /* The papers on DQN(lambda) count the random steps, which `steps` does not. */
    if (strcmp(s->preset, "vrc-2021") == 0)
        s->steps = 5000000 - s->fast_dqn.prepopulation;
    if (strcmp(s->preset, "dqn-lambda-2019") == 0)
        s->steps = (s->replay.layout == GPUR_LAYOUT_FRAMES ? 10000000 : 500000) - s->fast_dqn.prepopulation;
    s->act = s->fast_dqn.act == GPUR_ACT_TARGET;
    return GPUR_OK;
}

/* Of two switches that exclude each other the one that is given decides, and not the preset. */
static void use_order(const gpur_options *o, gpur_train_settings *s)
{
    gpur_fast_dqn_config *const run = &s->fast_dqn;
    if (run->num_envs == 1 && !s->env.vector && !gpur_options_value(o, "synchronized"))
        run->synchronized = 0;
    if (run->burst && gpur_options_value(o, "burst") && !gpur_options_value(o, "concurrent"))
        run->concurrent = 0;
    if (run->concurrent && !gpur_options_value(o, "burst"))
        run->burst = 0;
}

/* With `concurrent` DQN acts by the target network, if there is one. */
static void use_act(gpur_train_settings *s)
{
    s->act |= s->fast_dqn.concurrent && s->dqn.returns.cache_size == 0;
    s->fast_dqn.act = s->act ? GPUR_ACT_TARGET : GPUR_ACT_LATEST;
}

static gpur_status check_run(const gpur_options *o, const gpur_train_settings *s)
{
    const gpur_fast_dqn_config *const run = &s->fast_dqn;
    if (run->threads > run->num_envs)
        return gpur_refuse(o, "{env_threads is} and {num_envs is}; the first must be 0 (as many) or 1 to the second");
    if (run->target_period % run->train_period != 0)
        return gpur_refuse(o, "{%s is} and {train_period is}; the first must be a multiple of the second",
                           gpur_train_period_name(o));
    if (run->synchronized && run->target_period % run->num_envs != 0)
        return gpur_refuse(o,
                           "{%s is} and {num_envs is}; with {synchronized} 1 the first must be a multiple of the "
                           "second: change one of them, or give {synchronized} 0",
                           gpur_train_period_name(o));
    if (s->env.vector && s->steps % run->num_envs != 0)
        return gpur_refuse(o, "{steps is} and {num_envs is}; a vector environment steps all at once, so the first must "
                              "be a multiple of the second");
    return GPUR_OK;
}

/* Epsilon falls in a line. The learner's schedule has what is left of the line after the random steps. */
static void use_exploration(gpur_train_settings *s)
{
    gpur_schedule *const epsilon = &s->dqn.exploration;
    const int64_t random = explored_at_random(s), steps = s->exploration_steps;
    const int is_left = steps > random;
    epsilon->first = is_left ? (float)(1.0 - 0.9 * (double)random / (double)steps) : epsilon->last;
    epsilon->steps = is_left ? steps - random : 0;
}

/* The cache of returns, which a preset has or has not. */
static gpur_status use_returns(const gpur_options *o, gpur_train_settings *s)
{
    gpur_returns_config *const returns = &s->dqn.returns;
    const int64_t period = s->dqn.target_period, batch = s->dqn.batch_size, most = INT32_MAX;
    if (returns->cache_size == 0)
        return GPUR_OK;
    if (s->cache_size == 0)
        s->cache_size = gpur_round_up(period > most / batch ? most : batch * period, returns->block_length);
    returns->cache_size = s->cache_size;
    returns->prioritization.last = returns->prioritization.steps > 0 ? 0.0f : returns->prioritization.first;
    if (returns->cache_size % returns->block_length != 0)
        return gpur_refuse(o, "{cache_size is} and {block_length is}; the first must be a multiple of the second");
    if (returns->prioritization.first > 0.0f && returns->draw == GPUR_CACHE_PERMUTATION)
        return gpur_refuse(o, "{prioritization is} and {draw is}; above 0 it needs {draw} replacement");
    return GPUR_OK;
}

/* `head`: the option that chose it. */
static gpur_status check_atoms(const gpur_options *o, const char *head, const gpur_network_config *network)
{
    if (network->head != GPUR_HEAD_CATEGORICAL)
        return GPUR_OK;
    if (network->atoms == 1)
        return gpur_refuse(o, "{atoms is} and {%s is}; the first must be 2 or more, or 0", head);
    if (network->v_min >= network->v_max && (network->v_min != 0.0f || network->v_max != 0.0f))
        return gpur_refuse(o, "{v_min is} and {v_max is}; the first must be below the second");
    return GPUR_OK;
}

/* The last check: help shows the other settings of a preset that leaves the choice. */
static gpur_status check_lambda(const gpur_options *o, const gpur_train_settings *s)
{
    if (s->dqn.returns.lambda >= 0.0f || !gpur_option_applies(gpur_option_find("lambda", o->system), s))
        return GPUR_OK;
    return gpur_refuse(
        o, "{lambda} is missing; {preset is} and {estimator is}, which need a number of 0 to 1: the paper states none");
}

static gpur_status complete(const gpur_options *o, gpur_train_settings *s)
{
    const gpur_fast_dqn_config *const run = &s->fast_dqn;
    use_order(o, s);
    use_act(s);
    GPUR_TRY(check_run(o, s));
    GPUR_TRY(check_atoms(o, "preset", &s->dqn.network));
    use_exploration(s);
    s->dqn.optimizer.learning_rate.last = s->dqn.optimizer.learning_rate.first;
    s->dqn.target_period = run->target_period / run->train_period * run->train_steps;
    s->dqn.seed = s->replay.seed = (uint64_t)s->seed;
    gpur_train_use_frame_stack(s);
    GPUR_TRY(use_returns(o, s));
    GPUR_TRY(gpur_train_use_batch(o, s->replay.capacity, s->dqn.batch_size, &s->replay));
    s->replay.min_size = gpur_min(s->replay.min_size, gpur_min(run->prepopulation, s->replay.capacity));
    GPUR_TRY(gpur_train_use_periods(o, run->target_period, s));
    return check_lambda(o, s);
}

static gpur_status open_all(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    GPUR_TRY(gpur_train_open_demonstrations(s, h));
    GPUR_TRY(gpur_dqn_create(h->replay, &s->dqn, &h->learner));
    return gpur_fast_dqn_create(h->learner, &s->all, &s->fast_dqn, &h->run);
}

/* Those of all learners. */
static void add_run_rates(gpur_row *row, const gpur_train_span *span)
{
    const gpur_run_stats *const from = &span->from->run, *const to = &span->to->run;
    const double seconds = span->seconds, inferences = GPUR_SINCE(fast_dqn.inferences);
    gpur_row_add(row, "inferences_per_second", gpur_ratio(inferences, seconds));
    gpur_row_add(row, "observations_per_inference", gpur_ratio(GPUR_SINCE(fast_dqn.inferred), inferences));
    gpur_row_add(row, "train_steps_per_second", gpur_ratio(GPUR_SINCE(train_steps), seconds));
    gpur_row_add(row, "env_share", gpur_ratio(GPUR_SINCE(env_seconds), seconds));
    gpur_row_add(row, "infer_share", gpur_ratio(GPUR_SINCE(fast_dqn.infer_seconds), seconds));
    gpur_row_add(row, "train_share", gpur_ratio(GPUR_SINCE(train_seconds), seconds));
    gpur_row_add(row, "publish_share", gpur_ratio(GPUR_SINCE(fast_dqn.flush_seconds), seconds));
    gpur_row_add(row, "copy_share", gpur_ratio(GPUR_SINCE(fast_dqn.copy_seconds), seconds));
    gpur_row_add(row, "eval_share", gpur_ratio(GPUR_SINCE(eval_seconds), seconds));
    gpur_row_add(row, "publish_seconds", GPUR_SINCE(fast_dqn.flush_seconds));
    gpur_row_add(row, "copy_seconds", GPUR_SINCE(fast_dqn.copy_seconds));
    gpur_row_add(row, "recent_return", to->recent_return);
}

static void add_rates(gpur_row *row, const gpur_train_span *span)
{
    const gpur_learner_stats *const learned = &span->to->learner, *const before = &span->from->learner;
    const gpur_dqn_config *const dqn = &span->settings->dqn;
    const int64_t batch = dqn->returns.cache_size > 0 ? dqn->batch_size : 0; /* drawn from the cache */
    add_run_rates(row, span);
    gpur_row_add(row, "epsilon", (double)gpur_learner_epsilon(span->learner, span->to->run.env_steps));
    gpur_train_add_learning(row, span);
    gpur_row_add(row, "missing_share",
                 gpur_ratio((double)(learned->missing_rows - before->missing_rows),
                            (double)((learned->steps - before->steps) * batch)));
}

static int show_beginning(gpur_text *line, const gpur_train_settings *s, const gpur_run_stats *now)
{
    if (now->env_steps > 0 || now->fast_dqn.prepopulated >= s->fast_dqn.prepopulation)
        return 0;
    gpur_text_add(line, "random steps before training: %" PRId64 " of %" PRId64, now->fast_dqn.prepopulated,
                  s->fast_dqn.prepopulation);
    return 1;
}

/* Learners of continuous actions. */

enum { MOST_UNITS = 65536 }; /* of a layer */

static void tell_hidden(gpur_train_settings *s, const gpur_network_config *network)
{
    s->hidden = s->hidden_text;
    snprintf(s->hidden_text, sizeof s->hidden_text, "%d,%d", (int)network->trunk[0].units,
             (int)network->trunk[1].units);
}

static gpur_status fill_dpg(gpur_train_settings *s)
{
    GPUR_TRY(gpur_fast_dqn_config_init(&s->fast_dqn, sizeof s->fast_dqn));
    GPUR_TRY(gpur_dpg_preset(s->preset, &s->all, s->fields, &s->replay, &s->dpg, &s->fast_dqn));
    /* Stable-Baselines3's zoo for Pendulum; the papers. */
    s->steps = gpur_train_is_small(s) ? 20000 : strcmp(s->preset, "ddpg") == 0 ? 2500000 : 1000000;
    tell_hidden(s, &s->dpg.actor);
    return GPUR_OK;
}

static gpur_status fill_sac(gpur_train_settings *s)
{
    GPUR_TRY(gpur_fast_dqn_config_init(&s->fast_dqn, sizeof s->fast_dqn));
    GPUR_TRY(gpur_sac_preset(s->preset, &s->all, s->fields, &s->replay, &s->sac, &s->fast_dqn));
    s->steps = gpur_train_is_small(s) ? 20000 : 1000000;
    tell_hidden(s, &s->sac.actor);
    return GPUR_OK;
}

/* Several environments take a step together, and then as many train steps follow as they have taken steps. */
static void use_lanes(const gpur_options *o, gpur_train_settings *s)
{
    gpur_fast_dqn_config *const run = &s->fast_dqn;
    const int64_t envs = run->num_envs;
    use_order(o, s);
    if (envs > 1 && !gpur_options_value(o, "synchronized"))
        run->synchronized = 1;
    if (envs > 1 && !gpur_options_value(o, "train_period") && !gpur_options_value(o, "train_steps"))
        run->train_period = run->train_steps = envs;
    if (!gpur_options_value(o, "period"))
        run->target_period = gpur_round_up(gpur_round_up(run->target_period, envs), run->train_period);
}

/* Layers of these units, with the activation of the preset's. */
static gpur_status use_hidden(const gpur_options *o, const char *list, gpur_network_config *network)
{
    int32_t count = 0;
    for (const char *at = list; *at;) {
        char *end;
        const long units = strtol(at, &end, 10);
        if (end == at || (*end && (*end != ',' || !end[1])) || units < 1 || units > MOST_UNITS ||
            count == GPUR_MAX_LAYERS)
            return gpur_refuse(o, "{hidden} is \"%s\"; it must be 1 to %d numbers of 1 to %d, with commas between them",
                               list, GPUR_MAX_LAYERS, MOST_UNITS);
        network->trunk[count] = network->trunk[0];
        network->trunk[count++].units = (int32_t)units;
        at = end + (*end == ',');
    }
    network->trunk_count = count;
    return GPUR_OK;
}

/* What all of these learners share. */
static gpur_status complete_vectors(const gpur_options *o, int64_t batch_size, gpur_network_config *actor,
                                    gpur_network_config *critic, gpur_train_settings *s)
{
    const gpur_fast_dqn_config *const run = &s->fast_dqn;
    critic->head = gpur_train_critic_head(s);
    GPUR_TRY(check_atoms(o, "critic_head", critic));
    use_lanes(o, s);
    GPUR_TRY(check_run(o, s));
    GPUR_TRY(use_hidden(o, s->hidden, actor));
    GPUR_TRY(use_hidden(o, s->hidden, critic));
    s->replay.seed = (uint64_t)s->seed;
    if (s->replay.n_step > 1) /* of which each transition may have fewer */
        s->fields[s->replay.field_count++] = (gpur_field){"discount", GPUR_FLOAT32, {0}};
    GPUR_TRY(gpur_train_use_batch(o, s->replay.capacity, batch_size, &s->replay));
    s->replay.min_size = gpur_min(s->replay.min_size, gpur_min(run->prepopulation, s->replay.capacity));
    return gpur_train_use_periods(o, run->target_period, s);
}

static gpur_status complete_dpg(const gpur_options *o, gpur_train_settings *s)
{
    gpur_dpg_config *const dpg = &s->dpg;
    dpg->actor_optimizer.learning_rate.last = dpg->actor_optimizer.learning_rate.first;
    dpg->critic_optimizer.learning_rate.last = dpg->critic_optimizer.learning_rate.first;
    dpg->critic_optimizer.weight_decay = dpg->actor_optimizer.weight_decay;
    dpg->seed = (uint64_t)s->seed;
    return complete_vectors(o, dpg->batch_size, &dpg->actor, &dpg->critic, s);
}

static gpur_status complete_sac(const gpur_options *o, gpur_train_settings *s)
{
    gpur_sac_config *const sac = &s->sac;
    sac->actor_optimizer.learning_rate.last = sac->actor_optimizer.learning_rate.first;
    sac->critic_optimizer.learning_rate = sac->temperature_optimizer.learning_rate = sac->actor_optimizer.learning_rate;
    sac->critic_optimizer.weight_decay = sac->actor_optimizer.weight_decay;
    sac->seed = (uint64_t)s->seed;
    return complete_vectors(o, sac->batch_size, &sac->actor, &sac->critic, s);
}

static gpur_status open_sac(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    GPUR_TRY(gpur_train_open_demonstrations(s, h));
    GPUR_TRY(gpur_sac_create(h->replay, &s->sac, &h->learner));
    return gpur_fast_dqn_create(h->learner, &s->all, &s->fast_dqn, &h->run);
}

static gpur_status open_dpg(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    GPUR_TRY(gpur_train_open_demonstrations(s, h));
    GPUR_TRY(gpur_dpg_create(h->replay, &s->dpg, &h->learner));
    return gpur_fast_dqn_create(h->learner, &s->all, &s->fast_dqn, &h->run);
}

static void add_dpg_rates(gpur_row *row, const gpur_train_span *span)
{
    add_run_rates(row, span);
    gpur_train_add_learning(row, span);
}

static const char *const shown_of_dpg[] = {"train/s", "train_steps_per_second", "loss", "loss", "Q", "mean_q", NULL};

#define VECTORS(kind)                                                                                                  \
    {                                                                                                                  \
        .run = {"run", gpur_fast_dqn_config_members, offsetof(gpur_train_settings, fast_dqn)},                         \
        .learner = {#kind, gpur_##kind##_config_members, offsetof(gpur_train_settings, kind)},                         \
        .count = offsetof(gpur_train_settings, fast_dqn.num_envs), .math = offsetof(gpur_train_settings, kind.math),   \
        .source = offsetof(gpur_train_settings, kind.index_source), .lane = "lane", .lanes = " at a time",             \
        .period = "period", .shown = shown_of_dpg, .fill = fill_##kind, .complete = complete_##kind,                   \
        .open = open_##kind, .add_rates = add_dpg_rates, .show_beginning = show_beginning, .takes_vector = 1           \
    }
const gpur_train_system gpur_train_dpg = VECTORS(dpg), gpur_train_sac = VECTORS(sac);

/* DQN. */

static const char *const shown[] = {"train/s", "train_steps_per_second", "epsilon", "epsilon", "loss", "loss",
                                    "missing", "missing_share",          NULL};

const gpur_train_system gpur_train_fast_dqn = {
    .run = {"run", gpur_fast_dqn_config_members, offsetof(gpur_train_settings, fast_dqn)},
    .learner = {"learner", gpur_dqn_config_members, offsetof(gpur_train_settings, dqn)},
    .count = offsetof(gpur_train_settings, fast_dqn.num_envs),
    .math = offsetof(gpur_train_settings, dqn.math),
    .source = offsetof(gpur_train_settings, dqn.index_source),
    .lane = "lane",
    .lanes = " at a time",
    .shown = shown,
    .fill = fill,
    .complete = complete,
    .open = open_all,
    .add_rates = add_rates,
    .show_beginning = show_beginning,
    .takes_vector = 1,
};
