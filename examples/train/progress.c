/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include "apex.h"
#include "failure.h"
#include "ga3c.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const double row_seconds = 5.0;    /* between rows of rates.csv; before the first one it is draw_seconds */
static const double draw_seconds = 1.0;   /* between two looks at the statistics */
static const double print_seconds = 30.0; /* between progress lines where there is no terminal */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double progress_seconds(const progress *p)
{
    return p->first_seconds + now() - p->began;
}

/* A duration: "1:02:03". */
static void print_time(char *words, size_t bytes, double seconds)
{
    const int64_t whole = (int64_t)(seconds + 0.5), hours = whole / 3600;
    const int minutes = (int)(whole / 60 % 60), rest = (int)(whole % 60);
    if (hours > 0)
        snprintf(words, bytes, "%" PRId64 ":%02d:%02d", hours, minutes, rest);
    else
        snprintf(words, bytes, "%d:%02d", minutes, rest);
}

/* The learner's mean loss is over the time since the last call: `with_learner` 1 only for rows. */
static int read_sample(const progress *p, int with_learner, progress_sample *sample)
{
    const agent *const a = p->agent;
    *sample = (progress_sample){.seconds = progress_seconds(p)};
    sample->run.size = sizeof sample->run;
    sample->learner.size = sizeof sample->learner;
    TRY_LIBRARY(gpur_run_get_stats(a->run, &sample->run));
    if (with_learner && a->learner)
        TRY_LIBRARY(gpur_learner_get_stats(a->learner, &sample->learner));
    sample->step = a->is_apex ? sample->run.env_steps : p->first_step + sample->run.env_steps - p->counted;
    return 0;
}

/* 0 / 0 is NaN, which is no value. */
static double ratio(double a, double b)
{
    return b > 0.0 ? a / b : NAN;
}

static void find_shares(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, double *rates)
{
    rates[RATES_ENV_SHARE] = ratio(to->env_seconds - from->env_seconds, seconds);
    rates[RATES_INFER_SHARE] = ratio(to->fast_dqn.infer_seconds - from->fast_dqn.infer_seconds, seconds);
    rates[RATES_TRAIN_SHARE] = ratio(to->train_seconds - from->train_seconds, seconds);
    rates[RATES_PUBLISH_SHARE] = ratio(to->fast_dqn.flush_seconds - from->fast_dqn.flush_seconds, seconds);
    rates[RATES_COPY_SHARE] = ratio(to->fast_dqn.copy_seconds - from->fast_dqn.copy_seconds, seconds);
    rates[RATES_EVAL_SHARE] = ratio(to->eval_seconds - from->eval_seconds, seconds);
    rates[RATES_PUBLISH_SECONDS] = to->fast_dqn.flush_seconds - from->fast_dqn.flush_seconds;
    rates[RATES_COPY_SECONDS] = to->fast_dqn.copy_seconds - from->fast_dqn.copy_seconds;
}

static void find_learning(const progress_sample *from, const progress_sample *to, double *rates)
{
    const int has_trained = to->learner.steps > from->learner.steps;
    rates[0] = has_trained ? (double)to->learner.learning_rate : NAN;
    rates[1] = has_trained ? (double)to->learner.mean_loss : NAN;
    rates[2] = has_trained ? (double)to->learner.mean_q : NAN;
    rates[3] = has_trained ? (double)to->learner.gradient_norm : NAN;
}

static void find_run_rates(const progress *p, const progress_sample *from, const progress_sample *to, double *rates)
{
    const double seconds = to->seconds - from->seconds;
    const double inferences = (double)(to->run.fast_dqn.inferences - from->run.fast_dqn.inferences);
    const double trained = (double)(to->run.train_steps - from->run.train_steps);
    rates[RATES_TRAIN_STEPS] = (double)to->learner.steps;
    rates[RATES_EPISODES] = (double)to->run.episodes;
    rates[RATES_ENV_STEPS_PER_SECOND] = ratio((double)(to->step - from->step), seconds);
    rates[RATES_INFERENCES_PER_SECOND] = ratio(inferences, seconds);
    rates[RATES_OBSERVATIONS_PER_INFERENCE] =
        ratio((double)(to->run.fast_dqn.inferred - from->run.fast_dqn.inferred), inferences);
    rates[RATES_TRAIN_STEPS_PER_SECOND] = ratio(trained, seconds);
    find_shares(&from->run, &to->run, seconds, rates);
    rates[RATES_RECENT_RETURN] = to->run.recent_return;
    rates[RATES_EPSILON] = (double)gpur_learner_epsilon(p->agent->learner, to->step);
    find_learning(from, to, rates + RATES_LEARNING_RATE);
    const int64_t drawn = (to->learner.steps - from->learner.steps) * p->drawn_entries;
    rates[RATES_MISSING_SHARE] = ratio((double)(to->learner.missing_rows - from->learner.missing_rows), (double)drawn);
}

/* The rates between two samples, and what is known at the second. */
static void find_rates(const progress *p, const progress_sample *from, const progress_sample *to, double *rates)
{
    const double seconds = to->seconds - from->seconds;
    rates[RATES_SECONDS] = to->seconds; /* these two columns come first in all systems */
    rates[RATES_STEP] = (double)to->step;
    if (p->agent->actor_critic) {
        ga3c_find_rates(&from->run, &to->run, seconds, rates);
    } else if (p->agent->is_apex) {
        apex_find_rates(&from->run, &to->run, seconds, rates);
        find_learning(from, to, rates + APEX_LEARNING_RATE);
    } else {
        find_run_rates(p, from, to, rates);
    }
}

static int add_row(progress *p)
{
    progress_sample sample;
    TRY(read_sample(p, 1, &sample));
    find_rates(p, &p->last, &sample, p->rates);
    p->last = sample;
    p->rows++;
    return record_add(p->record, RECORD_RATES, p->rates);
}

/* Adds " name value" to the line if there is a value. */
static void add_value(text *line, const char *name, double value)
{
    if (isfinite(value))
        text_add(line, "  %s %.4g", name, value);
}

static void add_position(const progress *p, const progress_sample *sample, text *line)
{
    char left[32] = "";
    if (p->agent->is_apex && sample->run.train_steps == 0) {
        text_add(line, "transitions before training: %" PRId64 " of %" PRId64, sample->run.apex.rows, p->prepopulation);
        return;
    }
    if (p->agent->learner && p->agent->run && sample->run.fast_dqn.prepopulated < p->prepopulation &&
        sample->step == 0) {
        text_add(line, "random steps before training: %" PRId64 " of %" PRId64, sample->run.fast_dqn.prepopulated,
                 p->prepopulation);
        return;
    }
    text_add(line, "%" PRId64 " of %" PRId64 " steps, %.1f%%", sample->step, p->steps,
             100.0 * (double)sample->step / (double)p->steps);
    const double speed = ratio((double)(sample->step - p->first_step), sample->seconds - p->first_seconds);
    if (speed > 0.0 && sample->step < p->steps) {
        print_time(left, sizeof left, (double)(p->steps - sample->step) / speed);
        text_add(line, ", %s left", left);
    }
    const int64_t episode = sample->run.eval_episode;
    if (episode > 0)
        text_add(line, ", evaluating: episode %" PRId64 " of %" PRId64, episode, p->eval_episodes);
}

static void add_run_values(const progress *p, const progress_sample *sample, text *line)
{
    add_value(line, "steps/s", p->rates[RATES_ENV_STEPS_PER_SECOND]);
    add_value(line, "train/s", p->rates[RATES_TRAIN_STEPS_PER_SECOND]);
    add_value(line, "return", sample->run.recent_return);
    add_value(line, "evaluated", sample->run.evaluated_return);
    add_value(line, "epsilon", (double)gpur_learner_epsilon(p->agent->learner, sample->step));
    add_value(line, "loss", p->rates[RATES_LOSS]);
    add_value(line, "missing", p->rates[RATES_MISSING_SHARE]);
}

static void add_apex_values(const progress *p, const gpur_run_stats *run, text *line)
{
    add_value(line, "steps/s", p->rates[APEX_ENV_STEPS_PER_SECOND]);
    add_value(line, "in/s", p->rates[APEX_TRANSITIONS_PER_SECOND]);
    add_value(line, "learned/s", p->rates[APEX_LEARNED_PER_SECOND]);
    add_value(line, "return", run->recent_return);
    add_value(line, "evaluated", run->evaluated_return);
    add_value(line, "loss", p->rates[APEX_LOSS]);
    add_value(line, "age", p->rates[APEX_WEIGHTS_AGE]);
    add_value(line, "actors", (double)run->apex.actors);
}

static void add_ga3c_values(const progress *p, const gpur_run_stats *run, text *line)
{
    add_value(line, "steps/s", p->rates[GA3C_ENV_STEPS_PER_SECOND]);
    add_value(line, "rollouts/s", p->rates[GA3C_ROLLOUTS_PER_SECOND]);
    add_value(line, "return", run->recent_return);
    add_value(line, "entropy", p->rates[GA3C_ENTROPY]);
    add_value(line, "lag", p->rates[GA3C_MEAN_LAG]);
    add_value(line, "agents", (double)run->ga3c.agents);
}

static void build_line(const progress *p, const progress_sample *sample, text *line)
{
    add_position(p, sample, line);
    if (p->agent->actor_critic)
        add_ga3c_values(p, &sample->run, line);
    else if (p->agent->is_apex)
        add_apex_values(p, &sample->run, line);
    else
        add_run_values(p, sample, line);
}

/* Over the line before on a terminal, where a line that is too long could not be drawn over. */
static void show_line(const progress *p, text *line, int is_last)
{
    struct winsize window;
    if (!text_is_whole(line))
        return;
    if (!p->is_terminal) {
        printf("%s\n", line->memory);
    } else {
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 && line->length >= window.ws_col)
            line->memory[window.ws_col - 1] = '\0';
        printf("\r\033[K%s%s", line->memory, is_last ? "\n" : "");
    }
    fflush(stdout);
}

static int show(progress *p, int is_last)
{
    progress_sample sample;
    text line = {0};
    TRY(read_sample(p, 0, &sample));
    if (p->is_quiet || !(p->is_terminal || is_last || sample.seconds - p->printed >= print_seconds))
        return 0;
    build_line(p, &sample, &line);
    show_line(p, &line, is_last);
    text_free(&line);
    p->printed = sample.seconds;
    return 0;
}

/* Once, when actors have acted by weights that are older than a target period. */
static void warn_of_old_weights(progress *p)
{
    const double age = p->rates[APEX_WEIGHTS_AGE];
    if (!p->agent->is_apex || p->has_warned || !(age > (double)p->target_period))
        return;
    p->has_warned = 1;
    fprintf(stderr,
            "the weights that act are %.0f train steps old, more than a target period, %" PRId64
            ": fewer --actors or %s --samples-per-insert keep them newer\n",
            age, p->target_period, p->has_limiter ? "a smaller" : "a");
}

/* Once, when a game of an evaluation was cut off. */
static void warn_of_cut_games(progress *p)
{
    const int64_t cut = p->last.run.eval_cut;
    if (p->has_warned || cut == 0)
        return;
    p->has_warned = 1;
    fprintf(stderr,
            "a game of an evaluation was cut off after %d steps, as this environment tells no limit and the network "
            "may play without end; its return is that of those steps\n",
            GPUR_EVALUATION_STEPS);
}

/* The last line has the rates of the whole time. */
static int look(progress *p, int is_last)
{
    if (is_last || p->rows == 0 || progress_seconds(p) - p->last.seconds >= row_seconds)
        TRY(add_row(p));
    warn_of_old_weights(p);
    warn_of_cut_games(p);
    if (is_last)
        find_rates(p, &p->first, &p->last, p->rates);
    TRY(show(p, is_last));
    if (is_last && p->agent->actor_critic && !p->is_quiet)
        ga3c_print_rates(&p->first.run, &p->last.run, p->preset, p->rates);
    if (is_last && p->agent->is_apex && !p->is_quiet)
        apex_print_rates(&p->first.run, &p->last.run, p->last.seconds - p->first.seconds, p->rates, p->has_dpg);
    return 0;
}

/* Waits until the next look is due. Returns 0 if the thread is to end. */
static int wait_for_look(progress *p, double due)
{
    const struct timespec until = {(time_t)due, (long)((due - floor(due)) * 1e9)};
    pthread_mutex_lock(&p->lock);
    while (!p->quits && now() < due)
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
    const int goes_on = !p->quits;
    pthread_mutex_unlock(&p->lock);
    return goes_on;
}

/* A row that cannot be written stops the run. */
static void *show_progress(void *context)
{
    progress *const p = context;
    int result = 0;
    while (result == 0 && wait_for_look(p, now() + draw_seconds))
        result = look(p, 0);
    if (result == 0)
        result = look(p, 1);
    if (result)
        gpur_run_stop(p->agent->run);
    return NULL;
}

int progress_start(progress *p)
{
    pthread_condattr_t attributes;
    p->began = now();
    p->is_terminal = isatty(STDOUT_FILENO);
    p->printed = p->first_seconds;
    for (int i = 0; i < MAX_COLUMNS; i++)
        p->rates[i] = NAN;
    TRY(read_sample(p, 1, &p->last));
    p->counted = p->last.run.env_steps;
    p->last.step = p->first_step;
    p->first = p->last;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    const int error = pthread_create(&p->thread, NULL, show_progress, p);
    if (error)
        return fail("the thread that shows progress cannot be started: %s", strerror(error));
    p->has_thread = 1;
    return 0;
}

void progress_stop(progress *p)
{
    if (!p->has_thread)
        return;
    pthread_mutex_lock(&p->lock);
    p->quits = 1;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    p->has_thread = 0;
}
