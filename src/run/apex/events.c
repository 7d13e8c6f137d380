/* SPDX-License-Identifier: MIT */
/* Events of actors, and recent values. */
#include "run/apex/events.h"

#include <math.h>
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

static void add_event(gpur_slot *slot, gpur_run_event event)
{
    gpur_run *const run = &slot->apex->core;
    event.env_index = slot->actor;
    event.incarnation = slot->incarnation;
    event.env_steps = run->stats.env_steps;
    event.train_steps = run->stats.train_steps;
    event.epsilon = slot->epsilon;
    gpur_run_add_event(run, event);
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

void gpur_apex_add_episode(gpur_slot *slot, const gpur_actor_episode *episode)
{
    gpur_apex *const apex = slot->apex;
    if (is_greediest(slot))
        gpur_run_add_return(&apex->core, episode->episode_return);
    apex->core.stats.episodes++;
    add_event(slot, (gpur_run_event){.kind = GPUR_RUN_EPISODE,
                                     .length = episode->length,
                                     .episodes = 1,
                                     .mean_return = episode->episode_return});
}

void gpur_apex_add_started(gpur_slot *slot)
{
    add_event(slot, (gpur_run_event){.kind = GPUR_RUN_STARTED});
}

void gpur_apex_add_ended(gpur_slot *slot, int64_t steps, int64_t lost_blocks, int64_t lost_rows, int32_t asked,
                         const char *error)
{
    add_event(slot, (gpur_run_event){.kind = GPUR_RUN_ENDED,
                                     .length = steps,
                                     .asked = asked,
                                     .lost_blocks = lost_blocks,
                                     .lost_rows = lost_rows,
                                     .error = error});
}
