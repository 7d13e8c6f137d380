/* SPDX-License-Identifier: MIT */
#include "bench/json.h"
#include "bench/training/training.h"

#include <math.h>

static void put_counts(FILE *file, const char *name, const int64_t *x, int32_t count)
{
    fprintf(file, ", \"%s\": [", name);
    for (int32_t i = 0; i < count; i++)
        fprintf(file, "%s%lld", i ? ", " : "", (long long)x[i]);
    fprintf(file, "]");
}

static void put_numbers(FILE *file, const char *name, const double *x, int32_t count)
{
    fprintf(file, ", \"%s\": [", name);
    for (int32_t i = 0; i < count; i++)
        fprintf(file, "%s%.6g", i ? ", " : "", x[i]);
    fprintf(file, "]");
}

static void put_names(FILE *file, const training_curve *curve)
{
    char label[64];
    snprintf(label, sizeof label, "%s, batch %lld", curve->contestant, (long long)curve->batch);
    fprintf(file, "{\"label\": ");
    json_string(file, label);
    fprintf(file, ", \"contestant\": ");
    json_string(file, curve->contestant);
    fprintf(file, ", \"batch\": %lld", (long long)curve->batch);
}

static void put_curve(FILE *file, const training_curve *curve)
{
    put_names(file, curve);
    put_counts(file, "steps", curve->steps, curve->points);
    put_counts(file, "train_steps", curve->train_steps, curve->points);
    put_numbers(file, "seconds", curve->seconds, curve->points);
    put_numbers(file, "return", curve->returns, curve->points);
    fprintf(file, "}");
}

/* Too few slices for an interval make no claim. */
static void put_slices(FILE *file, bench_summary slices)
{
    if (slices.runs < BENCH_FEWEST_ROUNDS)
        fprintf(file, ", \"faster_by_slices\": null}");
    else
        fprintf(file, ", \"faster_by_slices\": {\"median\": %.2f, \"low\": %.2f, \"high\": %.2f, \"slices\": %d}}",
                slices.median, slices.low, slices.high, slices.runs);
}

/* At the last point that all have come to. JSON has no NaN. */
static void put_total(FILE *file, const training_contest *contest, int32_t contestant)
{
    const training_curve *const curve = &contest->curves[contestant];
    const int32_t last = contest->points - 1;
    const double faster = training_percent_faster(contest, contestant);
    put_names(file, curve);
    fprintf(file, ", \"steps\": %lld, \"train_steps\": %lld, \"seconds\": %.6g, \"return\": %.6g, \"percent_faster\": ",
            (long long)curve->steps[last], (long long)curve->train_steps[last], curve->seconds[last],
            curve->returns[last]);
    if (isnan(faster))
        fprintf(file, "null");
    else
        fprintf(file, "%.2f", faster);
    put_slices(file, training_slices_faster(contest, contestant));
}

/* The head of every result, with an empty list of cases; then what is this one's own. */
static void put_head(FILE *file, const training_report *report)
{
    const training_options *const options = report->options;
    char settings[1024];
    snprintf(settings, sizeof settings,
             "%s; dodge, melee-gpu, %d environments, %lld steps, a train step for each after %lld, seed %lld",
             report->machine, TRAINING_ENVS, (long long)options->steps, (long long)training_burn_in(options),
             (long long)options->seed);
    json_head(file, "whole training", options->device, settings);
    fprintf(file, "],\n\"name\": \"bench_training\",\n\"quick\": %d,\n\"interrupted\": %d,\n", options->quick,
            report->is_interrupted);
    fprintf(file, "\"return_by_chance\": %.6g,\n\"return_by_hand\": %.6g", report->reference.chance,
            report->reference.hand);
}

void training_write_json(FILE *file, const training_report *report)
{
    put_head(file, report);
    for (int totals = 0; totals < 2; totals++) {
        fprintf(file, ",\n\"%s\": [", totals ? "totals" : "curves");
        for (int32_t i = 0; i < report->contests * TRAINING_CONTESTANTS; i++) {
            const training_contest *const contest = &report->contest[i / TRAINING_CONTESTANTS];
            fprintf(file, i ? ",\n" : "\n");
            if (totals)
                put_total(file, contest, i % TRAINING_CONTESTANTS);
            else
                put_curve(file, &contest->curves[i % TRAINING_CONTESTANTS]);
        }
        fprintf(file, "\n]");
    }
    fprintf(file, "}\n");
}
