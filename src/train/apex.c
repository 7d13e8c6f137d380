/* SPDX-License-Identifier: MIT */
/* Trainings by Ape-X, of DQN and of DPG. */
#include "train/system.h"

#include "base/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_dpg(const gpur_train_settings *s)
{
    return strstr(s->preset, "-dpg") != NULL;
}

static gpur_status fill(gpur_train_settings *s)
{
    GPUR_TRY(gpur_apex_config_init(&s->apex, sizeof s->apex));
    GPUR_TRY(gpur_apex_preset(s->preset, &s->all, s->fields, &s->replay, &s->dqn, &s->dpg, &s->apex));
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
            return gpur_refuse(
                o, "{epsilons} is \"%s\"; it must be numbers of 0 to 1, at most %d, with commas between them",
                s->epsilons_text, GPUR_APEX_MAX_ACTORS);
        s->epsilons[count++] = (float)epsilon;
        if (*end == ',' && !end[1])
            return gpur_refuse(o, "{epsilons} is \"%s\"; it must not end with a comma", s->epsilons_text);
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
        return gpur_refuse(o, "{capacity is}; it must be at most %" PRId64, most);
    replay->capacity = soft + soft / 16;
    replay->extra_frames = gpur_round_up(replay->extra_frames * replay->capacity, preset) / preset;
    replay->seed = (uint64_t)s->seed;
    if (!gpur_options_value(o, "prepopulation"))
        replay->min_size = gpur_min(replay->min_size, soft);
    if (replay->min_size > soft)
        return gpur_refuse(o, "{prepopulation is} and {capacity is}; the first must be at most the second");
    return GPUR_OK;
}

/* Without priorities the oldest leave. */
static gpur_status use_eviction(const gpur_options *o, gpur_train_settings *s)
{
    if (s->prioritized)
        return GPUR_OK;
    if (gpur_options_value(o, "eviction") && s->replay.eviction == GPUR_EVICT_BY_PRIORITY)
        return gpur_refuse(o, "{eviction is} and {prioritized is}; it must be 1, or {eviction} oldest");
    s->replay.eviction = GPUR_EVICT_OLDEST;
    return GPUR_OK;
}

/* Of DPG both networks have the same rate and weight decay, and the same activation of the second layers. */
static void use_learner(gpur_train_settings *s)
{
    gpur_dpg_config *const dpg = &s->dpg;
    s->dqn.optimizer.learning_rate.last = s->dqn.optimizer.learning_rate.first;
    dpg->actor_optimizer.learning_rate.last = dpg->actor_optimizer.learning_rate.first;
    dpg->critic_optimizer.learning_rate = dpg->actor_optimizer.learning_rate;
    dpg->critic_optimizer.weight_decay = dpg->actor_optimizer.weight_decay;
    dpg->critic.trunk[1].activation = dpg->actor.trunk[1].activation;
    s->dqn.seed = dpg->seed = (uint64_t)s->seed;
    if (!s->prioritized)
        s->dqn.index_source = dpg->index_source = GPUR_UNIFORM;
}

static gpur_status complete(const gpur_options *o, gpur_train_settings *s)
{
    const int64_t batch = has_dpg(s) ? s->dpg.batch_size : s->dqn.batch_size;
    const int64_t target_period = has_dpg(s) ? s->dpg.target_period : s->dqn.target_period;
    const int64_t stack = s->fields[0].shape[0]; /* of the preset */
    GPUR_TRY(use_epsilons(o, s));
    use_learner(s);
    gpur_train_use_frame_stack(s);
    if (s->replay.layout == GPUR_LAYOUT_FRAMES) /* blocks repeat so many more frames as stacks are longer */
        s->replay.extra_frames += s->replay.capacity * (s->replay.frame_stack - stack) / s->apex.block_rows;
    /* What a remote actor must know, too, follows from the options of the learner. */
    s->apex.rows_under_way = gpur_apex_rows_under_way(s->apex.samples_per_insert, batch, target_period);
    GPUR_TRY(use_replay(o, batch, s));
    GPUR_TRY(use_eviction(o, s));
    return gpur_train_use_periods(o, 1, s);
}

static gpur_status open_all(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_replay_create(h->device, &s->replay, &h->replay));
    GPUR_TRY(gpur_train_open_demonstrations(s, h));
    GPUR_TRY(has_dpg(s) ? gpur_dpg_create(h->replay, &s->dpg, &h->learner)
                        : gpur_dqn_create(h->replay, &s->dqn, &h->learner));
    return gpur_apex_create(h->learner, &s->all, &s->apex, &h->run);
}

static void add_rates(gpur_row *row, const gpur_train_span *span)
{
    const gpur_apex_stats *const from = &span->from->run.apex, *const to = &span->to->run.apex;
    const gpur_run_stats *const before = &span->from->run, *const now = &span->to->run;
    const double seconds = span->seconds, lived = GPUR_SINCE(actor_seconds), learned = GPUR_SINCE(learned);
    gpur_row_add(row, "transitions_per_second", gpur_ratio(GPUR_SINCE(rows), seconds));
    gpur_row_add(row, "megabytes_per_second", gpur_ratio(1e-6 * GPUR_SINCE(bytes), seconds));
    gpur_row_add(row, "train_steps_per_second", gpur_ratio((double)(now->train_steps - before->train_steps), seconds));
    gpur_row_add(row, "learned_per_second", gpur_ratio(learned, seconds));
    gpur_row_add(row, "samples_per_insert", gpur_ratio(learned, GPUR_SINCE(inserted)));
    gpur_row_add(row, "weights_age", to->weights_age);
    gpur_row_add(row, "actors", (double)to->actors);
    gpur_row_add(row, "deaths", GPUR_SINCE(deaths));
    gpur_row_add(row, "lost_transitions", GPUR_SINCE(lost_rows));
    gpur_row_add(row, "refused_blocks", GPUR_SINCE(refused_blocks));
    gpur_row_add(row, "limiter_timeouts", GPUR_SINCE(limiter_timeouts));
    gpur_row_add(row, "train_share", gpur_ratio(now->train_seconds - before->train_seconds, seconds));
    gpur_row_add(row, "broadcast_share", gpur_ratio(GPUR_SINCE(broadcast_seconds), seconds));
    gpur_row_add(row, "receive_share", gpur_ratio(GPUR_SINCE(receive_seconds), seconds));
    gpur_row_add(row, "learner_wait_share", gpur_ratio(GPUR_SINCE(learner_wait_seconds), seconds));
    gpur_row_add(row, "actor_env_share", gpur_ratio(now->env_seconds - before->env_seconds, lived));
    gpur_row_add(row, "actor_infer_share", gpur_ratio(GPUR_SINCE(actor_infer_seconds), lived));
    gpur_row_add(row, "actor_wait_share", gpur_ratio(GPUR_SINCE(actor_wait_seconds), lived));
    gpur_row_add(row, "recent_return", now->recent_return);
    gpur_row_add(row, "evaluated_return", now->evaluated_return);
    gpur_train_add_learning(row, span);
}

static int show_beginning(gpur_text *line, const gpur_train_settings *s, const gpur_run_stats *now)
{
    if (now->train_steps > 0)
        return 0;
    gpur_text_add(line, "transitions before training: %" PRId64 " of %" PRId64, now->apex.rows, s->replay.min_size);
    return 1;
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
    return gpur_ratio(row->of_own_actors ? GPUR_SINCE(pulled) : GPUR_SINCE(broadcasts), span->seconds);
}

static void add_summary(gpur_text *text, const gpur_train_span *span, const gpur_row *rates)
{
    const int is_dpg = has_dpg(span->settings);
    gpur_text_add(text, "%-28s%12s  %-20s%10s%10s\n", "", "this run", "", "the paper", is_dpg ? "" : "RLlib");
    for (size_t i = 0; i < sizeof summary / sizeof *summary; i++) {
        const summary_row *const row = &summary[i];
        if (!row->of_own_actors || span->settings->apex.remote_actors == 0)
            gpur_train_add_line(text, row->name, value_of(row, span, rates), row->unit,
                                is_dpg ? row->paper_of_dpg : row->paper, is_dpg ? "" : row->rllib);
    }
}

static const char *const shown[] = {"in/s",      "transitions_per_second",
                                    "learned/s", "learned_per_second",
                                    "loss",      "loss",
                                    "age",       "weights_age",
                                    "actors",    "actors",
                                    NULL};

#define APEX(kind, learner_name)                                                                                       \
    .run = {"apex", gpur_apex_config_members, offsetof(gpur_train_settings, apex)},                                    \
    .learner = {learner_name, gpur_##kind##_config_members, offsetof(gpur_train_settings, kind)},                      \
    .count = offsetof(gpur_train_settings, apex.actors), .math = offsetof(gpur_train_settings, kind.math),             \
    .source = offsetof(gpur_train_settings, kind.index_source),                                                        \
    .target_period = offsetof(gpur_train_settings, kind.target_period), .lane = "actor", .lanes = " actors",           \
    .shown = shown, .fill = fill, .complete = complete, .open = open_all, .add_rates = add_rates,                      \
    .show_beginning = show_beginning, .add_summary = add_summary, .has_actors = 1

const gpur_train_system gpur_train_apex_dqn = {APEX(dqn, "learner"),
                                               .acting = offsetof(gpur_train_settings, dqn.network)};
const gpur_train_system gpur_train_apex_dpg = {APEX(dpg, "dpg"), .acting = offsetof(gpur_train_settings, dpg.actor),
                                               .critic = offsetof(gpur_train_settings, dpg.critic),
                                               .critics = offsetof(gpur_train_settings, dpg.critics)};
