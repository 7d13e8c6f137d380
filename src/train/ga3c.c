/* SPDX-License-Identifier: MIT */
/* Trainings of an actor-critic by GA3C, A3C and A2C. */
#include "train/system.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static gpur_status fill(gpur_train_settings *s)
{
    gpur_ga3c_config *const run = &s->ga3c;
    GPUR_TRY(gpur_actor_critic_config_init(&s->actor_critic, sizeof s->actor_critic));
    GPUR_TRY(gpur_ga3c_config_init(run, sizeof *run));
    GPUR_TRY(gpur_ga3c_preset(s->preset, &s->all, &s->actor_critic, run));
    if (run->system == GPUR_A3C || (run->system == GPUR_GA3C && gpur_train_is_small(s)))
        run->agents = 16;
    return GPUR_OK;
}

static gpur_status complete(const gpur_options *o, gpur_train_settings *s)
{
    const gpur_ga3c_config *const run = &s->ga3c;
    gpur_actor_critic_config *const learner = &s->actor_critic;
    const int64_t rows = run->system == GPUR_A2C   ? (int64_t)run->agents * run->t_max
                         : run->system == GPUR_A3C ? run->t_max
                                                   : run->min_train_batch + run->t_max; /* of the largest train step */
    if (rows > GPUR_MAX_ACTOR_CRITIC_BATCH)
        return gpur_refuse(o, "{agents is} and {t_max is}; their product must be at most %d",
                           GPUR_MAX_ACTOR_CRITIC_BATCH);
    learner->max_batch = rows > 8 ? (int32_t)rows : 8;
    learner->optimizer.learning_rate.last = learner->optimizer.learning_rate.first;
    learner->entropy.last = learner->entropy.first;
    learner->seed = (uint64_t)s->seed;
    return gpur_train_use_periods(o, 1, s);
}

static gpur_status open_all(gpur_train_settings *s, gpur_train_handles *h)
{
    GPUR_TRY(gpur_actor_critic_create(h->device, &s->actor_critic, &h->learner));
    return gpur_ga3c_create(h->learner, &s->all, &s->ga3c, &h->run);
}

/* Shares of agents are of the time that they spend in environments, and wait for replies and for room. */
static void add_rates(gpur_row *row, const gpur_train_span *span)
{
    const gpur_ga3c_stats *const from = &span->from->run.ga3c, *const to = &span->to->run.ga3c;
    const gpur_run_stats *const before = &span->from->run, *const now = &span->to->run;
    const double seconds = span->seconds, predictions = GPUR_SINCE(predictions);
    const double rollouts = GPUR_SINCE(training_batches), wait = GPUR_SINCE(wait_seconds);
    const double env = now->env_seconds - before->env_seconds, lived = env + wait + GPUR_SINCE(queue_seconds);
    const double train_steps = (double)(now->train_steps - before->train_steps);
    gpur_row_add(row, "predictions_per_second", gpur_ratio(predictions, seconds));
    gpur_row_add(row, "rollouts_per_second", gpur_ratio(rollouts, seconds));
    gpur_row_add(row, "predictions_per_rollout", gpur_ratio(predictions, rollouts));
    gpur_row_add(row, "train_steps_per_second", gpur_ratio(train_steps, seconds));
    gpur_row_add(row, "prediction_batch", gpur_ratio(predictions, GPUR_SINCE(prediction_batches)));
    gpur_row_add(row, "prediction_queue", to->prediction_queue);
    gpur_row_add(row, "training_queue", to->training_queue);
    gpur_row_add(row, "mean_lag", gpur_ratio(GPUR_SINCE(lag_sum), GPUR_SINCE(trained_rows)));
    gpur_row_add(row, "largest_lag", (double)to->largest_lag);
    gpur_row_add(row, "queue_lag", (double)to->queue_lag);
    gpur_row_add(row, "queue_lag_bound", (double)to->queue_lag_bound);
    gpur_row_add(row, "agents", to->agents);
    gpur_row_add(row, "predictors", to->predictors);
    gpur_row_add(row, "trainers", to->trainers);
    gpur_row_add(row, "env_share", gpur_ratio(env, lived));
    gpur_row_add(row, "wait_share", gpur_ratio(wait, lived));
    gpur_row_add(row, "predict_share", gpur_ratio(GPUR_SINCE(predict_seconds), seconds));
    gpur_row_add(row, "train_share", gpur_ratio(now->train_seconds - before->train_seconds, seconds));
    gpur_row_add(row, "recent_return", now->recent_return);
    gpur_row_add(row, "entropy", train_steps > 0.0 ? to->entropy : NAN);
    gpur_row_add(row, "value_loss", train_steps > 0.0 ? to->value_loss : NAN);
    gpur_row_add(row, "learning_rate", train_steps > 0.0 ? to->learning_rate : NAN);
    gpur_row_add(row, "gradient_norm", train_steps > 0.0 ? to->gradient_norm : NAN);
}

/* Steps a second on System I, "PPS" [Babaeizadeh et al. 2017, table 2]; "" if it has none of this preset. */
static const char *paper_steps(const char *preset)
{
    static const char *const rates[][2] = {{"ga3c", "1,361"},         {"ga3c-large-4", "1,271"},
                                           {"ga3c-large-3", "1,206"}, {"ga3c-large-2", "874"},
                                           {"ga3c-large-1", "490"},   {"a3c-cpu", "352"}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (strcmp(preset, rates[i][0]) == 0)
            return rates[i][1];
    return "";
}

/* The share of trained steps in a few bins of the policy lag. */
static void add_lags(gpur_text *text, const gpur_ga3c_stats *old, const gpur_ga3c_stats *new)
{
    static const int ends[] = {1, 2, 4, 8, 16, 32, GPUR_GA3C_LAGS - 1, GPUR_GA3C_LAGS};
    const double rows = (double)(new->trained_rows - old->trained_rows);
    int lag = 0;
    if (new->trained_rows == old->trained_rows)
        return;
    gpur_text_add(text, "policy lag, of trained steps");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const int first = lag;
        int64_t count = 0;
        for (; lag < ends[i]; lag++)
            count += new->lags[lag] - old->lags[lag];
        gpur_text_add(text, i ? ", %d" : ": %d", first);
        if (ends[i] == GPUR_GA3C_LAGS)
            gpur_text_add(text, " or more");
        else if (lag - first > 1)
            gpur_text_add(text, "-%d", lag - 1);
        gpur_text_add(text, " %.3g%%", 100.0 * gpur_ratio((double)count, rows));
    }
    gpur_text_add(text, "\n");
    if (new->queue_lag_bound > 0)
        gpur_text_add(text,
                      "longest in the training queue: %" PRId64 " updates, of at most %" PRId64 " if agents wait\n",
                      new->queue_lag, new->queue_lag_bound);
}

static void add_summary(gpur_text *text, const gpur_train_span *span, const gpur_row *rates)
{
    static const struct {
        const char *name, *column;
        double scale;
        const char *unit;
    } rows[] = {
        {"predictions", "predictions_per_second", 1, "/s"},
        {"rollouts trained on (TPS)", "rollouts_per_second", 1, "/s"},
        {"predictions for each rollout", "predictions_per_rollout", 1, ""},
        {"train steps", "train_steps_per_second", 1, "/s"},
        {"requests of a forward pass", "prediction_batch", 1, ""},
        {"rollouts in training queue", "training_queue", 1, ""},
        {"agents step", "env_share", 100, "% of agents' time"},
        {"agents wait, or act alone", "wait_share", 100, "% of agents' time"},
        {"predictors predict", "predict_share", 100, "% of the time"},
        {"trainers train", "train_share", 100, "% of the time"},
        {"mean policy lag", "mean_lag", 1, "updates"},
    };
    const gpur_ga3c_stats *const from = &span->from->run.ga3c, *const to = &span->to->run.ga3c;
    gpur_text_add(text, "%-28s%12s  %-20s%10s\n", "", "this run", "", "the paper");
    gpur_train_add_line(text, "environment steps (PPS)", gpur_row_value(rates, "env_steps_per_second"), "/s",
                        paper_steps(span->settings->preset), "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        gpur_train_add_line(text, rows[i].name, rows[i].scale * gpur_row_value(rates, rows[i].column), rows[i].unit, "",
                            "");
    gpur_train_add_line(text, "rollouts refused, replaced",
                        GPUR_SINCE(refused_rollouts) + GPUR_SINCE(overwritten_rollouts), "", "", "");
    add_lags(text, from, to);
}

static const char *const shown[] = {
    "rollouts/s", "rollouts_per_second", "entropy", "entropy", "lag", "mean_lag", "agents", "agents", NULL};

#define ACTOR_CRITIC                                                                                                   \
    .run = {"ga3c", gpur_ga3c_config_members, offsetof(gpur_train_settings, ga3c)},                                    \
    .learner = {"actor_critic", gpur_actor_critic_config_members, offsetof(gpur_train_settings, actor_critic)},        \
    .count = offsetof(gpur_train_settings, ga3c.agents), .math = offsetof(gpur_train_settings, actor_critic.math),     \
    .lane = "agent", .lanes = " agents", .shown = shown, .fill = fill, .complete = complete, .open = open_all,         \
    .add_rates = add_rates, .add_summary = add_summary, .lacks_eval_length = 1
const gpur_train_system gpur_train_ga3c = {ACTOR_CRITIC, .has_tuner = 1}, gpur_train_a3c = {ACTOR_CRITIC};
