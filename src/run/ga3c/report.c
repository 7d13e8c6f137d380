/* SPDX-License-Identifier: MIT */
/* Reports of agents: counts, seconds and ended episodes become the run's. */
#include "run/ga3c/report.h"

static void take_episode(const gpur_agent_slot *slot, const gpur_agent_report *report)
{
    gpur_run *const core = &slot->run->core;
    gpur_run_count_episode(core, report->episode_return);
    gpur_run_add_event(core, (gpur_run_event){.kind = GPUR_RUN_EPISODE,
                                              .env_index = slot->number,
                                              .env_steps = core->stats.env_steps,
                                              .train_steps = core->stats.train_steps,
                                              .length = report->length,
                                              .episodes = 1,
                                              .mean_return = report->episode_return});
}

void gpur_ga3c_take_report(gpur_agent_slot *slot, gpur_agent_report *report)
{
    gpur_run_stats *const stats = &slot->run->core.stats;
    stats->env_steps += report->steps;
    stats->ga3c.dropped_rows += report->dropped_rows;
    stats->env_seconds += report->environment_seconds;
    stats->ga3c.wait_seconds += report->wait_seconds;
    stats->ga3c.queue_seconds += report->queue_seconds;
    if (report->has_ended)
        take_episode(slot, report);
    *report = (gpur_agent_report){0};
}
