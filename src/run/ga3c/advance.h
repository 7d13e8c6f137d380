/* SPDX-License-Identifier: MIT */
/* Advancing, and the tuner's work meanwhile. */
#pragma once

#include "run/ga3c/handle.h"

/* As gpur_run_system wants it. */
gpur_status gpur_ga3c_advance(gpur_run *core, int64_t steps, int64_t train_steps);

/* Lets the tuner work if its time has come: it judges the numbers of threads by what was measured, and sets the next
 * ones. A measurement begins when a change has settled. `now`: seconds of advancing. */
gpur_status gpur_ga3c_tune(gpur_ga3c *run, double now);
