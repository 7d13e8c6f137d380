/* SPDX-License-Identifier: MIT */
/* What happens in a run: reports of agents, events for the caller, and the error that ends it. */
#include "run/ga3c/ga3c.h"

#include <stdio.h>
#include <stdlib.h>

static void end(gpur_ga3c *run, gpur_status status, const char *error)
{
    if (run->status == GPUR_OK)
        snprintf(run->error, sizeof run->error, "%s", error);
    if (run->status == GPUR_OK)
        run->status = status;
    gpur_mutex_notify_all(&run->lock);
}

void gpur_ga3c_fail(gpur_ga3c *run, gpur_status status)
{
    gpur_mutex_lock(&run->lock);
    end(run, status, gpur_last_error());
    gpur_mutex_unlock(&run->lock);
}

int gpur_ga3c_has_failed(gpur_ga3c *run)
{
    gpur_mutex_lock(&run->lock);
    const int has = run->status != GPUR_OK;
    gpur_mutex_unlock(&run->lock);
    return has;
}

void gpur_ga3c_add_event(gpur_ga3c *run, gpur_ga3c_event event)
{
    gpur_ga3c_events *const events = &run->events;
    if (!run->config.on_event)
        return;
    if (events->count == events->room) {
        const int64_t room = events->room ? 2 * events->room : 16;
        gpur_ga3c_event *const list = realloc(events->list, (size_t)room * sizeof *list);
        if (!list) {
            end(run, GPUR_OUT_OF_MEMORY, "no memory for more events");
            return;
        }
        events->list = list;
        events->room = room;
    }
    event.size = sizeof event;
    event.step = run->counts.steps;
    event.train_steps = run->counts.train_steps;
    if (events->count == 0)
        gpur_mutex_notify_all(&run->lock);
    events->list[events->count++] = event;
}

static void take_episode(gpur_agent_slot *slot, const gpur_agent_report *report)
{
    gpur_ga3c *const run = slot->run;
    run->counts.episodes++;
    run->returns.values[run->returns.count++ % GPUR_GA3C_RECENT] = report->episode_return;
    gpur_ga3c_add_event(run, (gpur_ga3c_event){.kind = GPUR_GA3C_EPISODE,
                                               .agent = slot->number,
                                               .length = report->length,
                                               .episode_return = report->episode_return});
}

void gpur_ga3c_take_report(gpur_agent_slot *slot, gpur_agent_report *report)
{
    gpur_ga3c *const run = slot->run;
    run->counts.steps += report->steps;
    run->counts.dropped_rows += report->dropped_rows;
    run->environment_seconds += report->environment_seconds;
    run->wait_seconds += report->wait_seconds;
    run->queue_seconds += report->queue_seconds;
    if (report->has_ended)
        take_episode(slot, report);
    *report = (gpur_agent_report){0};
}

/* The list is taken as a whole, so that the caller's function may take its time. */
void gpur_ga3c_deliver_events(gpur_ga3c *run)
{
    gpur_mutex_lock(&run->lock);
    const gpur_ga3c_events taken = run->events;
    run->events = (gpur_ga3c_events){0};
    gpur_mutex_unlock(&run->lock);
    for (int64_t i = 0; i < taken.count; i++)
        run->config.on_event(run->config.user, &taken.list[i]);
    free(taken.list);
}
