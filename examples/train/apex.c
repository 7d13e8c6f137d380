/* SPDX-License-Identifier: MIT */
#include "apex.h"

#include "failure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTION = 3 };

/* The number with the fewest digits that is the same float. */
static double shortest(float value)
{
    text digits = {0};
    text_add_float(&digits, value, "0");
    const double number = text_is_whole(&digits) ? strtod(digits.memory, NULL) : (double)value;
    text_free(&digits);
    return number;
}

static void print_end(const gpur_run_event *event)
{
    if (event->env_index == GPUR_APEX_EVALUATOR)
        fprintf(stderr, "the actor that evaluates ended: %s\n", event->error);
    else
        fprintf(stderr, "actor %d ended: %s\n", (int)event->env_index, event->error);
}

int apex_record(record *r, const gpur_run_event *event)
{
    const double step = (double)event->env_steps, actor = event->env_index;
    const double episode[] = {step, actor, (double)event->length, event->mean_return, shortest(event->epsilon)};
    const double evaluation[] = {step, (double)event->episodes, (double)event->length, event->mean_return,
                                 event->return_deviation};
    const double row[] = {step,
                          actor,
                          (double)event->incarnation,
                          event->kind,
                          event->asked,
                          (double)event->lost_blocks,
                          (double)event->lost_rows};
    if (event->kind == GPUR_RUN_EPISODE)
        return record_add(r, RECORD_EPISODE, episode);
    if (event->kind == GPUR_RUN_EVALUATION)
        return record_add(r, RECORD_EVALUATION, evaluation);
    if (event->kind == GPUR_RUN_ENDED && !event->asked)
        print_end(event);
    return record_add(r, RECORD_ACTOR, row);
}

/* Options that decide the format of blocks and the network. */
void apex_find_command(const options *o, const char *words[APEX_MAX_WORDS])
{
    static const option_id passed[] = {OPTION_ENV,      OPTION_ENV_OPTIONS, OPTION_PRESET,           OPTION_BATCH,
                                       OPTION_CAPACITY, OPTION_FRAME_STACK, OPTION_SECOND_ACTIVATION};
    int count = 0;
    words[count++] = "/proc/self/exe";
    words[count++] = option_name(OPTION_SERVE);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (o->value[passed[i]]) {
            words[count++] = option_name(passed[i]);
            words[count++] = o->value[passed[i]];
        }
    words[count] = NULL;
}

static gpur_apex_networks networks_of(const settings *s)
{
    const int has_dpg = s->system == SYSTEM_APEX_DPG;
    return (gpur_apex_networks){.size = sizeof(gpur_apex_networks),
                                .acting = has_dpg ? &s->dpg.actor : &s->learner.network,
                                .critic = has_dpg ? &s->dpg.critic : NULL};
}

int apex_serve(options *o)
{
    static settings s;
    TRY(settings_find(&s, o));
    const gpur_apex_networks networks = networks_of(&s);
    const gpur_status status = gpur_apex_serve(CONNECTION, &s.all, &s.replay, &networks, 1);
    return status == GPUR_OK || status == GPUR_INTERRUPTED ? 0 : fail("%s", gpur_last_error());
}

int apex_work(options *o, int (*stop)(void *))
{
    static settings s;
    TRY(settings_find(&s, o));
    if (!is_apex(&s) || !s.apex.folder)
        return fail("--work is %s and %s; it needs a --preset of Ape-X, and --folder", o->value[OPTION_WORK],
                    is_apex(&s) ? "--folder is missing" : "--preset is not one of Ape-X");
    const int32_t actor = (int32_t)options_integer(o, OPTION_WORK);
    const int32_t threads = (int32_t)options_integer(o, OPTION_THREADS);
    const gpur_apex_networks networks = networks_of(&s);
    TRY_LIBRARY(gpur_apex_work(&s.all, &s.apex, actor, &s.replay, &networks, threads, stop, NULL));
    return 0;
}

static double ratio(double a, double b)
{
    return b > 0.0 ? a / b : NAN;
}

void apex_find_rates(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, double *rates)
{
    const double rows = (double)(to->apex.rows - from->apex.rows),
                 learned = (double)(to->apex.learned - from->apex.learned);
    const double lived = to->apex.actor_seconds - from->apex.actor_seconds;
    rates[APEX_TRAIN_STEPS] = (double)to->train_steps;
    rates[APEX_EPISODES] = (double)to->episodes;
    rates[APEX_ENV_STEPS_PER_SECOND] = ratio((double)(to->env_steps - from->env_steps), seconds);
    rates[APEX_TRANSITIONS_PER_SECOND] = ratio(rows, seconds);
    rates[APEX_MEGABYTES_PER_SECOND] = ratio(1e-6 * (double)(to->apex.bytes - from->apex.bytes), seconds);
    rates[APEX_TRAIN_STEPS_PER_SECOND] = ratio((double)(to->train_steps - from->train_steps), seconds);
    rates[APEX_LEARNED_PER_SECOND] = ratio(learned, seconds);
    rates[APEX_SAMPLES_PER_INSERT] = ratio(learned, (double)(to->apex.inserted - from->apex.inserted));
    rates[APEX_WEIGHTS_AGE] = to->apex.weights_age;
    rates[APEX_ACTORS] = (double)to->apex.actors;
    rates[APEX_DEATHS] = (double)(to->apex.deaths - from->apex.deaths);
    rates[APEX_LOST_TRANSITIONS] = (double)(to->apex.lost_rows - from->apex.lost_rows);
    rates[APEX_REFUSED_BLOCKS] = (double)(to->apex.refused_blocks - from->apex.refused_blocks);
    rates[APEX_LIMITER_TIMEOUTS] = (double)(to->apex.limiter_timeouts - from->apex.limiter_timeouts);
    rates[APEX_TRAIN_SHARE] = ratio(to->train_seconds - from->train_seconds, seconds);
    rates[APEX_BROADCAST_SHARE] = ratio(to->apex.broadcast_seconds - from->apex.broadcast_seconds, seconds);
    rates[APEX_RECEIVE_SHARE] = ratio(to->apex.receive_seconds - from->apex.receive_seconds, seconds);
    rates[APEX_LEARNER_WAIT_SHARE] = ratio(to->apex.learner_wait_seconds - from->apex.learner_wait_seconds, seconds);
    rates[APEX_ACTOR_ENV_SHARE] = ratio(to->env_seconds - from->env_seconds, lived);
    rates[APEX_ACTOR_INFER_SHARE] = ratio(to->apex.actor_infer_seconds - from->apex.actor_infer_seconds, lived);
    rates[APEX_ACTOR_WAIT_SHARE] = ratio(to->apex.actor_wait_seconds - from->apex.actor_wait_seconds, lived);
    rates[APEX_RECENT_RETURN] = to->recent_return;
    rates[APEX_EVALUATED_RETURN] = to->evaluated_return;
}

static void print_rate(const char *name, double value, const char *unit, const char *paper, const char *rllib)
{
    char number[32] = "-";
    if (isfinite(value))
        snprintf(number, sizeof number, value >= 1000.0 ? "%.0f" : "%.4g", value);
    printf("%-28s%12s  %-14s%10s%10s\n", name, number, unit, paper, rllib);
}

void apex_print_rates(const gpur_run_stats *from, const gpur_run_stats *to, double seconds, const double *rates,
                      int has_dpg)
{
    static const char share[] = "% of the time", actor_share[] = "% of its time";
    printf("%-28s%12s  %-14s%10s%10s\n", "", "this run", "", "the paper", has_dpg ? "" : "RLlib");
    print_rate("environment steps", rates[APEX_ENV_STEPS_PER_SECOND], "/s", "", "");
    print_rate("transitions received", rates[APEX_TRANSITIONS_PER_SECOND], "/s", has_dpg ? "14,000" : "12,500",
               has_dpg ? "" : "5,134");
    print_rate("data received", rates[APEX_MEGABYTES_PER_SECOND], "MB/s", "", "");
    print_rate("train steps", rates[APEX_TRAIN_STEPS_PER_SECOND], "/s", "", "");
    print_rate("transitions learned", rates[APEX_LEARNED_PER_SECOND], "/s", has_dpg ? "22,000" : "9,700",
               has_dpg ? "" : "4,081");
    print_rate("learned for each received", rates[APEX_SAMPLES_PER_INSERT], "", "", "");
    print_rate("weights broadcast", ratio((double)(to->apex.broadcasts - from->apex.broadcasts), seconds), "/s", "",
               "");
    print_rate("weights taken by actors", ratio((double)(to->apex.pulled - from->apex.pulled), seconds), "/s", "", "");
    print_rate("age of weights that acted", rates[APEX_WEIGHTS_AGE], "train steps", "", "");
    print_rate("learner trains", 100.0 * rates[APEX_TRAIN_SHARE], share, "", "");
    print_rate("learner broadcasts weights", 100.0 * rates[APEX_BROADCAST_SHARE], share, "", "");
    print_rate("learner waits", 100.0 * rates[APEX_LEARNER_WAIT_SHARE], share, "", "");
    print_rate("blocks are received", 100.0 * rates[APEX_RECEIVE_SHARE], share, "", "");
    print_rate("an actor steps", 100.0 * rates[APEX_ACTOR_ENV_SHARE], actor_share, "", "");
    print_rate("an actor infers", 100.0 * rates[APEX_ACTOR_INFER_SHARE], actor_share, "", "");
    print_rate("an actor waits", 100.0 * rates[APEX_ACTOR_WAIT_SHARE], actor_share, "", "");
    print_rate("actors that died", rates[APEX_DEATHS], "", "", "");
    print_rate("transitions lost", rates[APEX_LOST_TRANSITIONS], "", "", "");
    print_rate("blocks refused", rates[APEX_REFUSED_BLOCKS], "", "", "");
}
