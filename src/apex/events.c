/* SPDX-License-Identifier: MIT */
#include "apex/apex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void gpur_recent_add(gpur_recent *recent, double value)
{
    recent->values[recent->count++ % GPUR_APEX_RECENT] = value;
}

double gpur_recent_mean(const gpur_recent *recent, int64_t most)
{
    const int64_t count = gpur_min(recent->count, most);
    double sum = 0.0;
    for (int64_t i = 1; i <= count; i++)
        sum += recent->values[(recent->count - i) % GPUR_APEX_RECENT];
    return count > 0 ? sum / (double)count : (double)NAN;
}

void gpur_apex_end(gpur_apex *apex, gpur_status status, const char *error)
{
    if (apex->status == GPUR_OK)
        snprintf(apex->error, sizeof apex->error, "%s", error);
    if (apex->status == GPUR_OK)
        apex->status = status;
    gpur_mutex_notify_all(&apex->lock);
}

static gpur_apex_entry *add(gpur_apex *apex)
{
    gpur_apex_queue *const queue = &apex->queue;
    if (queue->count == queue->room) {
        const int64_t room = queue->room ? 2 * queue->room : 16;
        gpur_apex_entry *const entries = realloc(queue->entries, (size_t)room * sizeof *entries);
        if (!entries) {
            gpur_apex_end(apex, GPUR_OUT_OF_MEMORY, "no memory for more events");
            return NULL;
        }
        queue->entries = entries;
        queue->room = room;
    }
    gpur_mutex_notify_all(&apex->lock);
    return &queue->entries[queue->count++];
}

static void add_event(gpur_member *member, gpur_apex_event event, const char *error)
{
    gpur_apex *const apex = member->apex;
    gpur_apex_entry *const entry = apex->config.on_event ? add(apex) : NULL;
    if (!entry)
        return;
    event.size = sizeof event;
    event.actor = member->place;
    event.incarnation = member->incarnation;
    event.step = apex->counts.env_steps;
    event.train_steps = apex->counts.train_steps;
    event.epsilon = member->epsilon;
    entry->event = event;
    snprintf(entry->error, sizeof entry->error, "%s", error);
}

/* The actor with the smallest epsilon, whose episodes are reported; of several the first. */
static int is_greediest(const gpur_member *member)
{
    const gpur_member *const members = member->apex->members;
    for (int32_t i = 0; i < member->apex->actors; i++)
        if (members[i].epsilon < member->epsilon || (members[i].epsilon <= member->epsilon && i < member->place))
            return 0;
    return 1;
}

void gpur_apex_add_episode(gpur_member *member, const gpur_actor_episode *episode)
{
    gpur_apex *const apex = member->apex;
    const int evaluates = gpur_member_evaluates(member);
    if (evaluates)
        gpur_recent_add(&apex->evaluated, episode->episode_return);
    else if (is_greediest(member))
        gpur_recent_add(&apex->returns, episode->episode_return);
    apex->counts.episodes += !evaluates;
    add_event(member,
              (gpur_apex_event){.kind = evaluates ? GPUR_APEX_EVALUATION : GPUR_APEX_EPISODE,
                                .length = episode->length,
                                .episode_return = episode->episode_return},
              "");
}

void gpur_apex_add_started(gpur_member *member)
{
    add_event(member, (gpur_apex_event){.kind = GPUR_APEX_STARTED}, "");
}

void gpur_apex_add_ended(gpur_member *member, int64_t steps, int64_t lost_blocks, int64_t lost_rows, int32_t asked,
                         const char *error)
{
    add_event(member,
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
    gpur_mutex_lock(&apex->lock);
    const gpur_apex_queue taken = apex->queue;
    apex->queue = (gpur_apex_queue){0};
    gpur_mutex_unlock(&apex->lock);
    for (int64_t i = 0; i < taken.count; i++) {
        taken.entries[i].event.error = taken.entries[i].error;
        apex->config.on_event(apex->config.user, &taken.entries[i].event);
    }
    free(taken.entries);
}
