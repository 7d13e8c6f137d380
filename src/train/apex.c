/* SPDX-License-Identifier: MIT */
/* Trainings by Ape-X, of DQN and of DPG. */
#include "train/system.h"

#include "base/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gpur_status fill(const gpur_options *o, gpur_train_settings *s)
{
    GPUR_TRY(gpur_train_check_single(o, s, "actors"));
    GPUR_TRY(gpur_apex_config_init(&s->apex, sizeof s->apex));
    GPUR_TRY(gpur_apex_preset(s->preset, &s->all, s->fields, &s->replay, &s->dqn, &s->dpg, &s->apex));
    s->steps = gpur_train_is_small(s) ? 1000000 : 50000000;
    s->prioritized = 1;
    return GPUR_OK;
}

static gpur_status use_epsilons(const gpur_options *o, gpur_train_settings *s)
{
    const char *at = s->epsilons_text;
    int32_t count = 0;
    for (char *end; at && *at; at = end) {
        const double epsilon = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(epsilon >= 0.0 && epsilon <= 1.0) || count == GPUR_APEX_MAX_ACTORS)
            return gpur_options_refuse(o,
                                       "{epsilons} is \"%s\"; it must be numbers of 0 to 1, at most %d, with commas "
                                       "between them",
                                       s->epsilons_text, GPUR_APEX_MAX_ACTORS);
        s->epsilons[count++] = (float)epsilon;
        if (*end == ',' && !end[1])
            return gpur_options_refuse(o, "{epsilons} is \"%s\"; it must not end with a comma", s->epsilons_text);
        end += *end == ',';
    }
    s->apex.epsilons = count > 0 ? s->epsilons : NULL;
    s->apex.epsilon_count = count;
    return GPUR_OK;
}

/* The ring is 1/16 above the soft capacity, and has room for as large a part of frames that blocks repeat. */
static gpur_status use_replay(const gpur_options *o, int64_t batch_size, gpur_train_settings *s)
{
    gpur_replay_config *const replay = &s->replay;
    const int64_t preset = replay->capacity, soft = s->apex.soft_capacity;
    const int64_t most = INT64_MAX / 2 / (replay->extra_frames + 1); /* so that the product below is a number */
    GPUR_TRY(gpur_train_use_batch(o, soft, batch_size, replay));
    if (soft > most)
        return gpur_options_refuse(o, "{capacity} is %" PRId64 "; it must be at most %" PRId64, soft, most);
    replay->capacity = soft + soft / 16;
    replay->extra_frames = gpur_round_up(replay->extra_frames * replay->capacity, preset) / preset;
    replay->seed = (uint64_t)s->seed;
    if (!gpur_options_value(o, "prepopulation"))
        replay->min_size = gpur_min(replay->min_size, soft);
    if (replay->min_size > soft)
        return gpur_options_refuse(
            o, "{prepopulation} is %" PRId64 " and {capacity} is %" PRId64 "; the first must be at most the second",
            replay->min_size, soft);
    return GPUR_OK;
}

/* What a remote actor must know, too, follows from the options of the learner. */
static void set_rows_under_way(gpur_train_settings *s, int64_t batch_size, int64_t target_period)
{
    s->apex.rows_under_way = gpur_apex_rows_under_way(s->apex.samples_per_insert, batch_size, target_period);
}

static gpur_status complete_dqn(const gpur_options *o, gpur_train_settings *s)
{
    gpur_dqn_config *const learner = &s->dqn;
    const gpur_field *const obs = &s->fields[0];
    const int64_t stack = obs->shape[0]; /* of the preset */
    gpur_train_use_evaluations(o, 1, s);
    GPUR_TRY(use_epsilons(o, s));
    if (!s->prioritized)
        learner->index_source = GPUR_UNIFORM;
    learner->optimizer.learning_rate.last = learner->optimizer.learning_rate.first;
    learner->seed = (uint64_t)s->seed;
    GPUR_TRY(gpur_train_use_frame_stack(o, s));
    if (s->replay.layout == GPUR_LAYOUT_FRAMES) /* blocks repeat so many more frames as stacks are longer */
        s->replay.extra_frames += s->replay.capacity * (s->replay.frame_stack - stack) / s->apex.block_rows;
    set_rows_under_way(s, learner->batch_size, learner->target_period);
    GPUR_TRY(use_replay(o, learner->batch_size, s));
    return gpur_train_use_checkpoint(o, 1, s);
}

/* Without priorities the oldest leave. */
static gpur_status use_eviction(const gpur_options *o, gpur_train_settings *s)
{
    if (s->prioritized)
        return GPUR_OK;
    if (gpur_options_value(o, "eviction") && s->replay.eviction == GPUR_EVICT_BY_PRIORITY)
        return gpur_options_refuse(o, "{eviction} is priority and {prioritized} is 0; it must be 1, or {eviction} "
                                      "oldest");
    s->replay.eviction = GPUR_EVICT_OLDEST;
    return GPUR_OK;
}

/* Both networks learn at the same rate. */
static gpur_status complete_dpg(const gpur_options *o, gpur_train_settings *s)
{
    gpur_dpg_config *const dpg = &s->dpg;
    const float rate = dpg->actor_optimizer.learning_rate.first;
    gpur_train_use_evaluations(o, 1, s);
    if (!s->prioritized)
        dpg->index_source = GPUR_UNIFORM;
    dpg->actor_optimizer.learning_rate = (gpur_schedule){.first = rate, .last = rate};
    dpg->critic_optimizer.learning_rate = dpg->actor_optimizer.learning_rate;
    dpg->critic.trunk[1].activation = dpg->actor.trunk[1].activation;
    dpg->seed = (uint64_t)s->seed;
    set_rows_under_way(s, dpg->batch_size, dpg->target_period);
    GPUR_TRY(use_replay(o, dpg->batch_size, s));
    GPUR_TRY(use_eviction(o, s));
    return gpur_train_use_checkpoint(o, 1, s);
}

static void describe(gpur_text *text, const gpur_train_settings *s)
{
    const char *const where = s->apex.remote_actors > 0 ? "elsewhere" : s->processes ? "in processes" : "in threads";
    gpur_text_add(text, "%s, %d actors %s, by %s", s->env.name, (int)s->apex.actors, where, s->preset);
}

static gpur_apex_networks networks_dqn(const gpur_train_settings *s)
{
    return (gpur_apex_networks){.size = sizeof(gpur_apex_networks), .acting = &s->dqn.network};
}

static gpur_apex_networks networks_dpg(const gpur_train_settings *s)
{
    return (gpur_apex_networks){.size = sizeof(gpur_apex_networks), .acting = &s->dpg.actor, .critic = &s->dpg.critic};
}

static gpur_status open_dqn(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    GPUR_TRY(gpur_dqn_create(h->replay, &s->dqn, &h->learner));
    return gpur_apex_create(h->learner, &s->all, &s->apex, &h->run);
}

static gpur_status open_dpg(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    GPUR_TRY(gpur_dpg_create(h->replay, &s->dpg, &h->learner));
    return gpur_apex_create(h->learner, &s->all, &s->apex, &h->run);
}

static void settle_dqn(gpur_train_settings *s)
{
    gpur_train_settle_source(&s->replay, &s->dqn.index_source);
}

static void settle_dpg(gpur_train_settings *s)
{
    gpur_train_settle_source(&s->replay, &s->dpg.index_source);
}

static void add_episode(gpur_row *row, const gpur_run_event *event)
{
    gpur_row_add(row, "epsilon", gpur_text_shortest(event->epsilon));
}

static void add_rates(gpur_row *row, const gpur_train_span *span)
{
    const gpur_run_stats *const from = &span->from->run, *const to = &span->to->run;
    const double seconds = span->seconds, lived = to->apex.actor_seconds - from->apex.actor_seconds;
    const double learned = (double)(to->apex.learned - from->apex.learned);
    gpur_row_add(row, "train_steps", (double)to->train_steps);
    gpur_row_add(row, "episodes", (double)to->episodes);
    gpur_row_add(row, "env_steps_per_second", gpur_train_ratio((double)(to->env_steps - from->env_steps), seconds));
    gpur_row_add(row, "transitions_per_second", gpur_train_ratio((double)(to->apex.rows - from->apex.rows), seconds));
    gpur_row_add(row, "megabytes_per_second",
                 gpur_train_ratio(1e-6 * (double)(to->apex.bytes - from->apex.bytes), seconds));
    gpur_row_add(row, "train_steps_per_second",
                 gpur_train_ratio((double)(to->train_steps - from->train_steps), seconds));
    gpur_row_add(row, "learned_per_second", gpur_train_ratio(learned, seconds));
    gpur_row_add(row, "samples_per_insert",
                 gpur_train_ratio(learned, (double)(to->apex.inserted - from->apex.inserted)));
    gpur_row_add(row, "weights_age", to->apex.weights_age);
    gpur_row_add(row, "actors", (double)to->apex.actors);
    gpur_row_add(row, "deaths", (double)(to->apex.deaths - from->apex.deaths));
    gpur_row_add(row, "lost_transitions", (double)(to->apex.lost_rows - from->apex.lost_rows));
    gpur_row_add(row, "refused_blocks", (double)(to->apex.refused_blocks - from->apex.refused_blocks));
    gpur_row_add(row, "limiter_timeouts", (double)(to->apex.limiter_timeouts - from->apex.limiter_timeouts));
    gpur_row_add(row, "train_share", gpur_train_ratio(to->train_seconds - from->train_seconds, seconds));
    gpur_row_add(row, "broadcast_share",
                 gpur_train_ratio(to->apex.broadcast_seconds - from->apex.broadcast_seconds, seconds));
    gpur_row_add(row, "receive_share",
                 gpur_train_ratio(to->apex.receive_seconds - from->apex.receive_seconds, seconds));
    gpur_row_add(row, "learner_wait_share",
                 gpur_train_ratio(to->apex.learner_wait_seconds - from->apex.learner_wait_seconds, seconds));
    gpur_row_add(row, "actor_env_share", gpur_train_ratio(to->env_seconds - from->env_seconds, lived));
    gpur_row_add(row, "actor_infer_share",
                 gpur_train_ratio(to->apex.actor_infer_seconds - from->apex.actor_infer_seconds, lived));
    gpur_row_add(row, "actor_wait_share",
                 gpur_train_ratio(to->apex.actor_wait_seconds - from->apex.actor_wait_seconds, lived));
    gpur_row_add(row, "recent_return", to->recent_return);
    gpur_row_add(row, "evaluated_return", to->evaluated_return);
    gpur_train_add_learning(row, span);
}

static int show_beginning(gpur_text *line, const gpur_train_settings *s, const gpur_train_sample *now)
{
    if (now->run.train_steps > 0)
        return 0;
    gpur_text_add(line, "transitions before training: %" PRId64 " of %" PRId64, now->run.apex.rows, s->replay.min_size);
    return 1;
}

static void show_values(gpur_text *line, const gpur_row *rates, const gpur_train_sample *now)
{
    gpur_train_show(line, "steps/s", gpur_row_value(rates, "env_steps_per_second"));
    gpur_train_show(line, "in/s", gpur_row_value(rates, "transitions_per_second"));
    gpur_train_show(line, "learned/s", gpur_row_value(rates, "learned_per_second"));
    gpur_train_show(line, "return", now->run.recent_return);
    gpur_train_show(line, "evaluated", now->run.evaluated_return);
    gpur_train_show(line, "loss", gpur_row_value(rates, "loss"));
    gpur_train_show(line, "age", gpur_row_value(rates, "weights_age"));
    gpur_train_show(line, "actors", (double)now->run.apex.actors);
}

/* The table of rates: a row for each, beside those of Horgan et al. 2018, sections 4.1 and 4.2, and of RLlib's Ape-X
 * with 32 workers of 8 environments. */
typedef struct summary_row {
    const char *name, *column;
    double scale;
    const char *unit;
    int of_own_actors; /* 1: not known of remote ones */
    const char *paper, *rllib, *paper_of_dpg;
} summary_row;

static const char share[] = "% of the time", actor_share[] = "% of its time";
static const summary_row summary[] = {
    {"environment steps", "env_steps_per_second", 1, "/s", 0, "", "", ""},
    {"transitions received", "transitions_per_second", 1, "/s", 0, "12,500", "5,134", "14,000"},
    {"data received", "megabytes_per_second", 1, "MB/s", 0, "", "", ""},
    {"train steps", "train_steps_per_second", 1, "/s", 0, "", "", ""},
    {"transitions learned", "learned_per_second", 1, "/s", 0, "9,700", "4,081", "22,000"},
    {"learned for each received", "samples_per_insert", 1, "", 0, "", "", ""},
    {"weights broadcast", NULL, 1, "/s", 0, "", "", ""},
    {"weights taken by actors", NULL, 1, "/s", 1, "", "", ""},
    {"age of weights that acted", "weights_age", 1, "train steps", 0, "", "", ""},
    {"learner trains", "train_share", 100, share, 0, "", "", ""},
    {"learner broadcasts weights", "broadcast_share", 100, share, 0, "", "", ""},
    {"learner waits", "learner_wait_share", 100, share, 0, "", "", ""},
    {"blocks are received", "receive_share", 100, share, 0, "", "", ""},
    {"an actor steps", "actor_env_share", 100, actor_share, 1, "", "", ""},
    {"an actor infers", "actor_infer_share", 100, actor_share, 1, "", "", ""},
    {"an actor waits", "actor_wait_share", 100, actor_share, 1, "", "", ""},
    {"actors that died", "deaths", 1, "", 0, "", "", ""},
    {"transitions lost", "lost_transitions", 1, "", 1, "", "", ""},
    {"blocks refused", "refused_blocks", 1, "", 0, "", "", ""},
};

/* Two of the rates are no columns of the record. */
static double value_of(const summary_row *row, const gpur_train_span *span, const gpur_row *rates)
{
    const gpur_apex_stats *const from = &span->from->run.apex, *const to = &span->to->run.apex;
    if (row->column)
        return row->scale * gpur_row_value(rates, row->column);
    return row->of_own_actors ? gpur_train_ratio((double)(to->pulled - from->pulled), span->seconds)
                              : gpur_train_ratio((double)(to->broadcasts - from->broadcasts), span->seconds);
}

static void add_summary(gpur_text *text, const gpur_train_span *span, const gpur_row *rates)
{
    const int has_dpg = strstr(span->settings->preset, "-dpg") != NULL;
    gpur_text_add(text, "%-28s%12s  %-14s%10s%10s\n", "", "this run", "", "the paper", has_dpg ? "" : "RLlib");
    for (size_t i = 0; i < sizeof summary / sizeof *summary; i++) {
        const summary_row *const row = &summary[i];
        if (row->of_own_actors && span->settings->apex.remote_actors > 0)
            continue;
        gpur_text_add(text, "%-28s", row->name);
        gpur_text_add_short(text, value_of(row, span, rates), 12);
        gpur_text_add(text, "  %-14s%10s%10s\n", row->unit, has_dpg ? row->paper_of_dpg : row->paper,
                      has_dpg ? "" : row->rllib);
    }
}

#define APEX(kind, learner_name)                                                                                       \
    {                                                                                                                  \
        .run = {"apex", gpur_apex_config_members, offsetof(gpur_train_settings, apex)},                                \
        .learner = {learner_name, gpur_##kind##_config_members, offsetof(gpur_train_settings, kind)},                  \
        .math = offsetof(gpur_train_settings, kind.math),                                                              \
        .target_period = offsetof(gpur_train_settings, kind.target_period), .fill = fill, .complete = complete_##kind, \
        .describe = describe, .open = open_##kind, .settle = settle_##kind, .networks = networks_##kind,               \
        .add_episode = add_episode, .add_rates = add_rates, .show_beginning = show_beginning,                          \
        .show_values = show_values, .add_summary = add_summary, .has_free_learner = 1, .has_actors_file = 1,           \
        .lane = "actor",                                                                                               \
    }
const gpur_train_system gpur_train_apex_dqn = APEX(dqn, "learner"), gpur_train_apex_dpg = APEX(dpg, "dpg");
