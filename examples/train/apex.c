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

static void print_end(const gpur_apex_event *event)
{
    if (event->actor == GPUR_APEX_EVALUATOR)
        fprintf(stderr, "the actor that evaluates ended: %s\n", event->error);
    else
        fprintf(stderr, "actor %d ended: %s\n", (int)event->actor, event->error);
}

int apex_record(record *r, const gpur_apex_event *event)
{
    const double step = (double)event->env_steps, actor = event->actor;
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
    if (event->kind == GPUR_APEX_EPISODE)
        return record_add(r, RECORD_EPISODE, episode);
    if (event->kind == GPUR_APEX_EVALUATION)
        return record_add(r, RECORD_EVALUATION, evaluation);
    if (event->kind == GPUR_APEX_ENDED && !event->asked)
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
    const gpur_status status = gpur_apex_serve(CONNECTION, s.type.single, s.apex.env_options, &s.replay, &networks, 1);
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
    TRY_LIBRARY(gpur_apex_work(&s.apex, actor, s.type.single, &s.replay, &networks, threads, stop, NULL));
    return 0;
}

static double ratio(double a, double b)
{
    return b > 0.0 ? a / b : NAN;
}

void apex_find_rates(const gpur_apex_stats *from, const gpur_apex_stats *to, double seconds, double *rates)
{
    const double rows = (double)(to->rows - from->rows), learned = (double)(to->learned - from->learned);
    const double lived = to->actor_seconds - from->actor_seconds;
    rates[APEX_TRAIN_STEPS] = (double)to->train_steps;
    rates[APEX_EPISODES] = (double)to->episodes;
    rates[APEX_ENV_STEPS_PER_SECOND] = ratio((double)(to->env_steps - from->env_steps), seconds);
    rates[APEX_TRANSITIONS_PER_SECOND] = ratio(rows, seconds);
    rates[APEX_MEGABYTES_PER_SECOND] = ratio(1e-6 * (double)(to->bytes - from->bytes), seconds);
    rates[APEX_TRAIN_STEPS_PER_SECOND] = ratio((double)(to->train_steps - from->train_steps), seconds);
    rates[APEX_LEARNED_PER_SECOND] = ratio(learned, seconds);
    rates[APEX_SAMPLES_PER_INSERT] = ratio(learned, (double)(to->inserted - from->inserted));
    rates[APEX_WEIGHTS_AGE] = to->weights_age;
    rates[APEX_ACTORS] = (double)to->actors;
    rates[APEX_DEATHS] = (double)(to->deaths - from->deaths);
    rates[APEX_LOST_TRANSITIONS] = (double)(to->lost_rows - from->lost_rows);
    rates[APEX_REFUSED_BLOCKS] = (double)(to->refused_blocks - from->refused_blocks);
    rates[APEX_LIMITER_TIMEOUTS] = (double)(to->limiter_timeouts - from->limiter_timeouts);
    rates[APEX_TRAIN_SHARE] = ratio(to->train_seconds - from->train_seconds, seconds);
    rates[APEX_BROADCAST_SHARE] = ratio(to->broadcast_seconds - from->broadcast_seconds, seconds);
    rates[APEX_RECEIVE_SHARE] = ratio(to->receive_seconds - from->receive_seconds, seconds);
    rates[APEX_LEARNER_WAIT_SHARE] = ratio(to->learner_wait_seconds - from->learner_wait_seconds, seconds);
    rates[APEX_ACTOR_ENV_SHARE] = ratio(to->actor_env_seconds - from->actor_env_seconds, lived);
    rates[APEX_ACTOR_INFER_SHARE] = ratio(to->actor_infer_seconds - from->actor_infer_seconds, lived);
    rates[APEX_ACTOR_WAIT_SHARE] = ratio(to->actor_wait_seconds - from->actor_wait_seconds, lived);
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

void apex_print_rates(const gpur_apex_stats *from, const gpur_apex_stats *to, double seconds, const double *rates,
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
    print_rate("weights broadcast", ratio((double)(to->broadcasts - from->broadcasts), seconds), "/s", "", "");
    print_rate("weights taken by actors", ratio((double)(to->pulled - from->pulled), seconds), "/s", "", "");
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
