/* SPDX-License-Identifier: MIT */
#include "ga3c.h"

#include "failure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double ratio(double a, double b)
{
    return b > 0.0 ? a / b : NAN;
}

static void find_learning(const gpur_run_stats *from, const gpur_run_stats *to, double *rates)
{
    const int has_trained = to->train_steps > from->train_steps;
    rates[GA3C_ENTROPY] = has_trained ? to->ga3c.entropy : NAN;
    rates[GA3C_VALUE_LOSS] = has_trained ? to->ga3c.value_loss : NAN;
    rates[GA3C_LEARNING_RATE] = has_trained ? to->ga3c.learning_rate : NAN;
    rates[GA3C_GRADIENT_NORM] = has_trained ? to->ga3c.gradient_norm : NAN;
}

/* Of the time that agents spend in environments, and wait for replies and for room. */
static void find_shares(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, double *rates)
{
    const double env = to->env_seconds - from->env_seconds, wait = to->ga3c.wait_seconds - from->ga3c.wait_seconds;
    const double lived = env + wait + to->ga3c.queue_seconds - from->ga3c.queue_seconds;
    rates[GA3C_ENV_SHARE] = ratio(env, lived);
    rates[GA3C_WAIT_SHARE] = ratio(wait, lived);
    rates[GA3C_PREDICT_SHARE] = ratio(to->ga3c.predict_seconds - from->ga3c.predict_seconds, seconds);
    rates[GA3C_TRAIN_SHARE] = ratio(to->train_seconds - from->train_seconds, seconds);
}

static double lag_sum(const gpur_run_stats *stats)
{
    return stats->ga3c.mean_lag * (double)stats->ga3c.trained_rows;
}

void ga3c_find_rates(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, double *rates)
{
    const double predictions = (double)(to->ga3c.predictions - from->ga3c.predictions);
    const double rollouts = (double)(to->ga3c.training_batches - from->ga3c.training_batches);
    rates[GA3C_TRAIN_STEPS] = (double)to->train_steps;
    rates[GA3C_EPISODES] = (double)to->episodes;
    rates[GA3C_ENV_STEPS_PER_SECOND] = ratio((double)(to->env_steps - from->env_steps), seconds);
    rates[GA3C_PREDICTIONS_PER_SECOND] = ratio(predictions, seconds);
    rates[GA3C_ROLLOUTS_PER_SECOND] = ratio(rollouts, seconds);
    rates[GA3C_PREDICTIONS_PER_ROLLOUT] = ratio(predictions, rollouts);
    rates[GA3C_TRAIN_STEPS_PER_SECOND] = ratio((double)(to->train_steps - from->train_steps), seconds);
    rates[GA3C_PREDICTION_BATCH] =
        ratio(predictions, (double)(to->ga3c.prediction_batches - from->ga3c.prediction_batches));
    rates[GA3C_PREDICTION_QUEUE] = to->ga3c.prediction_queue;
    rates[GA3C_TRAINING_QUEUE] = to->ga3c.training_queue;
    rates[GA3C_MEAN_LAG] =
        ratio(lag_sum(to) - lag_sum(from), (double)(to->ga3c.trained_rows - from->ga3c.trained_rows));
    rates[GA3C_LARGEST_LAG] = (double)to->ga3c.largest_lag;
    rates[GA3C_QUEUE_LAG] = (double)to->ga3c.queue_lag;
    rates[GA3C_QUEUE_LAG_BOUND] = (double)to->ga3c.queue_lag_bound;
    rates[GA3C_AGENTS] = (double)to->ga3c.agents;
    rates[GA3C_PREDICTORS] = (double)to->ga3c.predictors;
    rates[GA3C_TRAINERS] = (double)to->ga3c.trainers;
    find_shares(from, to, seconds, rates);
    rates[GA3C_RECENT_RETURN] = to->recent_return;
    find_learning(from, to, rates);
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

static void print_rate(const char *name, double value, const char *unit, const char *paper)
{
    char number[32] = "-";
    if (isfinite(value))
        snprintf(number, sizeof number, value >= 1000.0 ? "%.0f" : "%.4g", value);
    printf("%-28s%12s  %-20s%10s\n", name, number, unit, paper);
}

/* The share of trained steps in a few bins. */
static void print_lags(const gpur_run_stats *from, const gpur_run_stats *to)
{
    static const int ends[] = {1, 2, 4, 8, 16, 32, GPUR_GA3C_LAGS - 1, GPUR_GA3C_LAGS};
    const double rows = (double)(to->ga3c.trained_rows - from->ga3c.trained_rows);
    int lag = 0;
    if (to->ga3c.trained_rows == from->ga3c.trained_rows)
        return;
    printf("policy lag, of trained steps");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const int first = lag;
        int64_t count = 0;
        for (; lag < ends[i]; lag++)
            count += to->ga3c.lags[lag] - from->ga3c.lags[lag];
        printf(i ? ", " : ": ");
        printf(ends[i] == GPUR_GA3C_LAGS ? "%d or more" : lag - first > 1 ? "%d-%d" : "%d", first, lag - 1);
        printf(" %.3g%%", 100.0 * ratio((double)count, rows));
    }
    printf("\n");
    if (to->ga3c.queue_lag_bound > 0)
        printf("longest in the training queue: %" PRId64 " updates, of at most %" PRId64 " if agents wait\n",
               to->ga3c.queue_lag, to->ga3c.queue_lag_bound);
}

void ga3c_print_rates(const gpur_run_stats *from, const gpur_run_stats *to, const char *preset, const double *rates)
{
    static const char agents[] = "% of agents' time";
    printf("%-28s%12s  %-20s%10s\n", "", "this run", "", "the paper");
    print_rate("environment steps (PPS)", rates[GA3C_ENV_STEPS_PER_SECOND], "/s", paper_steps(preset));
    print_rate("predictions", rates[GA3C_PREDICTIONS_PER_SECOND], "/s", "");
    print_rate("rollouts trained on (TPS)", rates[GA3C_ROLLOUTS_PER_SECOND], "/s", "");
    print_rate("predictions for each rollout", rates[GA3C_PREDICTIONS_PER_ROLLOUT], "", "");
    print_rate("train steps", rates[GA3C_TRAIN_STEPS_PER_SECOND], "/s", "");
    print_rate("requests of a forward pass", rates[GA3C_PREDICTION_BATCH], "", "");
    print_rate("rollouts in training queue", rates[GA3C_TRAINING_QUEUE], "", "");
    print_rate("agents step", 100.0 * rates[GA3C_ENV_SHARE], agents, "");
    print_rate("agents wait, or act alone", 100.0 * rates[GA3C_WAIT_SHARE], agents, "");
    print_rate("predictors predict", 100.0 * rates[GA3C_PREDICT_SHARE], "% of the time", "");
    print_rate("trainers train", 100.0 * rates[GA3C_TRAIN_SHARE], "% of the time", "");
    print_rate("rollouts refused, replaced",
               (double)(to->ga3c.refused_rollouts - from->ga3c.refused_rollouts + to->ga3c.overwritten_rollouts -
                        from->ga3c.overwritten_rollouts),
               "", "");
    print_rate("mean policy lag", rates[GA3C_MEAN_LAG], "updates", "");
    print_lags(from, to);
}
