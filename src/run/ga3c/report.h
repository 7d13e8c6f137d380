/* SPDX-License-Identifier: MIT */
/* What agents report to the run: counts, and episodes that have ended. */
#pragma once

#include "run/ga3c/handle.h"

/* Adds the report to the run's counts, and empties it. Under the lock. */
void gpur_ga3c_take_report(gpur_agent_slot *slot, gpur_agent_report *report);
