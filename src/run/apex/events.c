/* SPDX-License-Identifier: MIT */
/* Events of a run of Ape-X, recent returns, and evaluations. */
#include "run/apex/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpur_recent_add(gpur_recent *recent, double value)
{
    recent->values[recent->count++ % GPUR_APEX_RECENT] = value;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpur_recent_median(const gpur_recent *recent)
{
    double sorted[GPUR_APEX_RECENT];
    const size_t count = (size_t)gpur_min(recent->count, GPUR_APEX_RECENT);
    memcpy(sorted, recent->values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    return count > 0 ? 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]) : (double)NAN;
}

static gpur_apex_entry *add(gpur_apex *apex)
{
    gpur_apex_queue *const queue = &apex->queue;
    if (queue->count == queue->room) {
        const int64_t room = queue->room ? 2 * queue->room : 16;
        gpur_apex_entry *const entries = realloc(queue->entries, (size_t)room * sizeof *entries);
        if (!entries) {
            gpur_run_end(&apex->core, GPUR_OUT_OF_MEMORY, "no memory for more events");
            return NULL;
        }
        queue->entries = entries;
        queue->room = room;
    }
    gpur_mutex_notify_all(&apex->core.lock);
    return &queue->entries[queue->count++];
}

static void add_event(gpur_slot *slot, gpur_apex_event event, const char *error)
{
    gpur_apex *const apex = slot->apex;
    gpur_apex_entry *const entry = apex->config.on_event ? add(apex) : NULL;
    if (!entry)
        return;
    event.size = sizeof event;
    event.actor = slot->actor;
    event.incarnation = slot->incarnation;
    event.env_steps = event.kind == GPUR_APEX_EVALUATION ? apex->evaluation.env_steps : apex->core.stats.env_steps;
    event.train_steps =
        event.kind == GPUR_APEX_EVALUATION ? apex->evaluation.train_steps : apex->core.stats.train_steps;
    event.epsilon = slot->epsilon;
    entry->event = event;
    snprintf(entry->error, sizeof entry->error, "%s", error);
}

/* 1 if this is the actor with the smallest epsilon, whose episodes are reported; of several the first. A remote actor
 * is compared with those of its table from which something has come. */
static int is_greediest(const gpur_slot *slot)
{
    const gpur_apex *const apex = slot->apex;
    const gpur_slot_table *const table = &apex->tables[slot->origin];
    for (int32_t i = 0; i < table->count; i++) {
        const gpur_slot *const other = table->slots[i];
        const int counts = other && (slot->origin == GPUR_SLOT_OWN ? i < apex->actors : other->heard > 0.0);
        if (counts && (other->epsilon < slot->epsilon || (other->epsilon <= slot->epsilon && i < slot->actor)))
            return 0;
    }
    return 1;
}

void gpur_apex_ask_to_evaluate(gpur_apex *apex, int is_wanted)
{
    gpur_apex_evaluation *const e = &apex->evaluation;
    *e = (gpur_apex_evaluation){.is_played = is_wanted,
                                .number = e->number + is_wanted,
                                .env_steps = apex->core.stats.env_steps,
                                .train_steps = apex->core.stats.train_steps};
    atomic_store(&gpur_shared_counts(&apex->shared, GPUR_APEX_EVALUATOR)->evaluation, is_wanted ? e->number : 0);
}

/* An episode of another evaluation was on its way when this one was asked for. */
static void add_evaluated(gpur_slot *slot, const gpur_actor_episode *episode)
{
    gpur_apex *const apex = slot->apex;
    gpur_apex_evaluation *const e = &apex->evaluation;
    if (!e->is_played || episode->evaluation != e->number)
        return;
    e->episodes++;
    e->length += episode->length;
    e->sum += episode->episode_return;
    e->squares += episode->episode_return * episode->episode_return;
    if (e->episodes < apex->config.eval_episodes)
        return;
    const double count = (double)e->episodes, mean = e->sum / count;
    const gpur_apex_event event = {.kind = GPUR_APEX_EVALUATION,
                                   .length = e->length,
                                   .episodes = e->episodes,
                                   .mean_return = mean,
                                   .return_deviation = sqrt(fmax(e->squares / count - mean * mean, 0.0))};
    e->is_played = 0;
    atomic_store(&gpur_shared_counts(&apex->shared, GPUR_APEX_EVALUATOR)->evaluation, 0);
    apex->core.stats.evaluations++;
    apex->core.stats.evaluated_steps = e->env_steps;
    apex->core.stats.evaluated_return = mean;
    add_event(slot, event, "");
}

void gpur_apex_add_episode(gpur_slot *slot, const gpur_actor_episode *episode)
{
    gpur_apex *const apex = slot->apex;
    if (gpur_slot_evaluates(slot)) {
        add_evaluated(slot, episode);
        return;
    }
    if (is_greediest(slot))
        gpur_run_add_return(&apex->core, episode->episode_return);
    apex->core.stats.episodes++;
    add_event(slot,
              (gpur_apex_event){.kind = GPUR_APEX_EPISODE,
                                .length = episode->length,
                                .episodes = 1,
                                .mean_return = episode->episode_return},
              "");
}

void gpur_apex_add_started(gpur_slot *slot)
{
    add_event(slot, (gpur_apex_event){.kind = GPUR_APEX_STARTED}, "");
}

void gpur_apex_add_ended(gpur_slot *slot, int64_t steps, int64_t lost_blocks, int64_t lost_rows, int32_t asked,
                         const char *error)
{
    add_event(slot,
              (gpur_apex_event){.kind = GPUR_APEX_ENDED,
                                .length = steps,
                                .asked = asked,
                                .lost_blocks = lost_blocks,
                                .lost_rows = lost_rows},
              error);
}

/* The queue is taken as a whole, so that the caller's function may take its time. */
void gpur_apex_deliver_events(gpur_apex *apex)
{
    gpur_mutex_lock(&apex->core.lock);
    const gpur_apex_queue taken = apex->queue;
    apex->queue = (gpur_apex_queue){0};
    gpur_mutex_unlock(&apex->core.lock);
    for (int64_t i = 0; i < taken.count; i++) {
        taken.entries[i].event.error = taken.entries[i].error;
        apex->config.on_event(apex->config.user, &taken.entries[i].event);
    }
    free(taken.entries);
}
