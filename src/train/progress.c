/* SPDX-License-Identifier: MIT */
/* The progress of a training. */
#include "train/progress.h"

#include "base/clock.h"
#include "base/numbers.h"
#include "gpureplay/training.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const double row_seconds = 5.0;   /* between rows of rates.csv */
static const double first_seconds = 1.0; /* before the first one */

double gpur_progress_seconds(const gpur_progress *p)
{
    return p->first_seconds + gpur_clock_seconds() - p->began;
}

/* The learner's mean loss is over the time since the last call: `with_learner` 1 only for rows. */
static gpur_status read_sample(const gpur_progress *p, int with_learner, gpur_train_sample *sample)
{
    const gpur_train_handles *const h = p->handles;
    *sample = (gpur_train_sample){.seconds = gpur_progress_seconds(p)};
    sample->run.size = sizeof sample->run;
    sample->learner.size = sizeof sample->learner;
    GPUR_TRY(gpur_run_get_stats(h->run, &sample->run));
    return with_learner && h->replay ? gpur_learner_get_stats(h->learner, &sample->learner) : GPUR_OK;
}

static gpur_train_span span_of(const gpur_progress *p, const gpur_train_sample *from, const gpur_train_sample *to)
{
    return (gpur_train_span){p->settings, p->handles->learner, from, to, to->seconds - from->seconds};
}

static const char *rate_of(const gpur_train_system *system)
{
    return system->step_rate ? system->step_rate : "env_steps_per_second";
}

/* The rates in a span, and what is known at its end. */
static void find_rates(const gpur_progress *p, const gpur_train_span *span, gpur_row *rates)
{
    const gpur_run_stats *const from = &span->from->run, *const to = &span->to->run;
    rates->count = 0;
    gpur_row_add(rates, "seconds", span->to->seconds);
    gpur_row_add(rates, "step", (double)to->env_steps);
    gpur_row_add(rates, "train_steps", (double)to->train_steps);
    gpur_row_add(rates, "episodes", (double)to->episodes);
    gpur_row_add(rates, rate_of(p->system), gpur_ratio(GPUR_SINCE(env_steps), span->seconds));
    p->system->add_rates(rates, span);
}

void gpur_progress_fill_columns(const gpur_progress *p, gpur_row *row)
{
    const gpur_train_sample none = {0};
    const gpur_train_span span = span_of(p, &none, &none);
    find_rates(p, &span, row);
}

gpur_status gpur_progress_begin(gpur_progress *p)
{
    p->began = gpur_clock_seconds();
    GPUR_TRY(read_sample(p, 1, &p->last));
    p->first = p->last;
    gpur_progress_fill_columns(p, &p->rates);
    return GPUR_OK;
}

/* Each once: that actors have acted by weights older than a target period, and that a game of an evaluation was cut
 * off. */
static void tell_once(gpur_progress *p)
{
    char line[256];
    const size_t at = p->system->target_period;
    const int64_t period = at ? *(const int64_t *)gpur_train_member(p->settings, at) : INT64_MAX;
    const double age = gpur_row_value(&p->rates, "weights_age");
    if (!p->has_told_of_age && age > (double)period) {
        p->has_told_of_age = 1;
        snprintf(line, sizeof line,
                 "the weights that act are %.0f train steps old, more than a target period, %" PRId64
                 ": fewer actors or %s samples_per_insert keep them newer",
                 age, period, p->settings->apex.samples_per_insert > 0.0 ? "a smaller" : "a");
        p->say(p->user, GPUR_SAY_INFO, line);
    }
    if (!p->has_warned_of_cut_games && p->last.run.eval_cut > 0) {
        p->has_warned_of_cut_games = 1;
        snprintf(line, sizeof line,
                 "a game of an evaluation was cut off after %d steps, as this environment tells no limit and the "
                 "network may play without end; its return is that of those steps",
                 GPUR_EVALUATION_STEPS);
        p->say(p->user, GPUR_SAY_WARNING, line);
    }
}

gpur_status gpur_progress_look(gpur_progress *p, int is_last)
{
    const double waited = gpur_progress_seconds(p) - p->last.seconds;
    if (!is_last && waited < (p->rows == 0 ? first_seconds : row_seconds))
        return GPUR_OK;
    gpur_train_sample now;
    GPUR_TRY(read_sample(p, 1, &now));
    const gpur_train_span span = span_of(p, &p->last, &now);
    find_rates(p, &span, &p->rates);
    p->last = now;
    p->rows++;
    GPUR_TRY(gpur_record_add_rates(p->record, &p->rates));
    tell_once(p);
    return GPUR_OK;
}

/* A duration: "1:02:03". */
static void add_time(gpur_text *text, double seconds)
{
    const int64_t whole = (int64_t)(seconds + 0.5), hours = whole / 3600;
    const int minutes = (int)(whole / 60 % 60), rest = (int)(whole % 60);
    if (hours > 0)
        gpur_text_add(text, "%" PRId64 ":%02d:%02d", hours, minutes, rest);
    else
        gpur_text_add(text, "%d:%02d", minutes, rest);
}

/* What is left, to the end or to the checkpoint after which it stops, is by the speed since the last row. */
static void add_position(const gpur_progress *p, const gpur_run_stats *now, int is_stopping, gpur_text *line)
{
    const gpur_train_settings *const s = p->settings;
    const int64_t end = is_stopping ? gpur_min(s->steps, gpur_round_up(now->env_steps, s->granule)) : s->steps;
    const double speed = gpur_row_value(&p->rates, rate_of(p->system));
    gpur_text_add(line, "%" PRId64 " of %" PRId64 " steps, %.1f%%", now->env_steps, s->steps,
                  100.0 * (double)now->env_steps / (double)s->steps);
    if (is_stopping)
        gpur_text_add(line, ", stops at %" PRId64, end);
    if (speed > 0.0 && now->env_steps < end) {
        gpur_text_add(line, ", ");
        add_time(line, (double)(end - now->env_steps) / speed);
        gpur_text_add(line, " left");
    }
    if (now->eval_episode > 0)
        gpur_text_add(line, ", evaluating: episode %" PRId64 " of %" PRId64, now->eval_episode, s->all.eval_episodes);
}

/* Adds a value if there is one. */
static void show(gpur_text *line, const char *label, double value)
{
    if (isfinite(value))
        gpur_text_add(line, "  %s %.4g", label, value);
}

gpur_status gpur_progress_add_line(const gpur_progress *p, int is_stopping, gpur_text *line)
{
    gpur_train_sample now;
    GPUR_TRY(read_sample(p, 0, &now));
    if (!p->system->show_beginning || !p->system->show_beginning(line, p->settings, &now.run))
        add_position(p, &now.run, is_stopping, line);
    show(line, "return", now.run.recent_return);
    show(line, "evaluated", now.run.evaluated_return);
    show(line, "steps/s", gpur_row_value(&p->rates, rate_of(p->system)));
    for (const char *const *shown = p->system->shown; *shown; shown += 2)
        show(line, shown[0], gpur_row_value(&p->rates, shown[1]));
    return GPUR_OK;
}

gpur_status gpur_progress_add_summary(gpur_progress *p, gpur_text *text)
{
    const gpur_train_span span = span_of(p, &p->first, &p->last);
    find_rates(p, &span, &p->rates);
    GPUR_TRY(gpur_progress_add_line(p, 0, text));
    gpur_text_add(text, "\n");
    if (p->system->add_summary)
        p->system->add_summary(text, &span, &p->rates);
    return GPUR_OK;
}
