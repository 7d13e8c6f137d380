/* SPDX-License-Identifier: MIT */
/* The progress of a training. */
#include "train/progress.h"

#include "base/clock.h"
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
    if (with_learner && h->replay)
        GPUR_TRY(gpur_learner_get_stats(h->learner, &sample->learner));
    sample->step =
        p->system->has_free_learner ? sample->run.env_steps : p->first_step + sample->run.env_steps - p->counted;
    return GPUR_OK;
}

/* The rates between two samples, and what is known at the second. */
static void find_rates(const gpur_progress *p, const gpur_train_sample *from, const gpur_train_sample *to,
                       gpur_row *rates)
{
    gpur_train_span span = p->span;
    span.from = from;
    span.to = to;
    span.seconds = to->seconds - from->seconds;
    rates->count = 0;
    gpur_row_add(rates, "seconds", to->seconds);
    gpur_row_add(rates, "step", (double)to->step);
    p->system->add_rates(rates, &span);
}

void gpur_progress_fill_columns(const gpur_progress *p, gpur_row *row)
{
    const gpur_train_sample none = {0};
    find_rates(p, &none, &none, row);
}

gpur_status gpur_progress_begin(gpur_progress *p)
{
    p->began = gpur_clock_seconds();
    GPUR_TRY(read_sample(p, 1, &p->last));
    p->counted = p->last.run.env_steps;
    p->last.step = p->first_step;
    p->first = p->last;
    find_rates(p, &p->first, &p->last, &p->rates);
    return GPUR_OK;
}

/* Once, when actors have acted by weights that are older than a target period. */
static void tell_of_old_weights(gpur_progress *p)
{
    char line[256];
    const gpur_train_settings *const s = p->span.settings;
    const int64_t period = !p->system->target_period
                               ? INT64_MAX
                               : *(const int64_t *)(const void *)((const char *)s + p->system->target_period);
    const double age = gpur_row_value(&p->rates, "weights_age");
    if (p->has_told_of_age || !(age > (double)period) || !p->say)
        return;
    p->has_told_of_age = 1;
    snprintf(line, sizeof line,
             "the weights that act are %.0f train steps old, more than a target period, %" PRId64
             ": fewer actors or %s samples_per_insert keep them newer",
             age, period, s->apex.samples_per_insert > 0.0 ? "a smaller" : "a");
    p->say(p->user, GPUR_SAY_INFO, line);
}

/* Once, when a game of an evaluation was cut off. */
static void warn_of_cut_games(gpur_progress *p)
{
    char line[256];
    if (p->has_warned_of_cut_games || p->last.run.eval_cut == 0 || !p->say)
        return;
    p->has_warned_of_cut_games = 1;
    snprintf(line, sizeof line,
             "a game of an evaluation was cut off after %d steps, as this environment tells no limit and the network "
             "may play without end; its return is that of those steps",
             GPUR_EVALUATION_STEPS);
    p->say(p->user, GPUR_SAY_WARNING, line);
}

gpur_status gpur_progress_look(gpur_progress *p, int is_last)
{
    const double waited = gpur_progress_seconds(p) - p->last.seconds;
    if (!is_last && waited < (p->rows == 0 ? first_seconds : row_seconds))
        return GPUR_OK;
    gpur_train_sample now;
    GPUR_TRY(read_sample(p, 1, &now));
    find_rates(p, &p->last, &now, &p->rates);
    p->last = now;
    p->rows++;
    GPUR_TRY(gpur_record_add_rates(p->record, &p->rates));
    tell_of_old_weights(p);
    warn_of_cut_games(p);
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

/* What is left is by the speed since the last row. */
static void add_position(const gpur_progress *p, const gpur_train_sample *now, gpur_text *line)
{
    const gpur_train_settings *const s = p->span.settings;
    const double speed = gpur_row_value(&p->rates, "env_steps_per_second");
    if (p->system->show_beginning && p->system->show_beginning(line, s, now))
        return;
    gpur_text_add(line, "%" PRId64 " of %" PRId64 " steps, %.1f%%", now->step, s->steps,
                  100.0 * (double)now->step / (double)s->steps);
    if (speed > 0.0 && now->step < s->steps) {
        gpur_text_add(line, ", ");
        add_time(line, (double)(s->steps - now->step) / speed);
        gpur_text_add(line, " left");
    }
    if (now->run.eval_episode > 0)
        gpur_text_add(line, ", evaluating: episode %" PRId64 " of %" PRId64, now->run.eval_episode,
                      s->all.eval_episodes);
}

gpur_status gpur_progress_add_line(const gpur_progress *p, gpur_text *line)
{
    gpur_train_sample now;
    GPUR_TRY(read_sample(p, 0, &now));
    add_position(p, &now, line);
    p->system->show_values(line, &p->rates, &now);
    return GPUR_OK;
}

gpur_status gpur_progress_add_summary(gpur_progress *p, gpur_text *text)
{
    find_rates(p, &p->first, &p->last, &p->rates);
    GPUR_TRY(gpur_progress_add_line(p, text));
    gpur_text_add(text, "\n");
    gpur_train_span span = p->span;
    span.from = &p->first;
    span.to = &p->last;
    span.seconds = p->last.seconds - p->first.seconds;
    if (p->system->add_summary)
        p->system->add_summary(text, &span, &p->rates);
    return GPUR_OK;
}
