/* SPDX-License-Identifier: MIT */
/* Evaluations between two advances. */
#pragma once

#include "run/ga3c/handle.h"

/* As gpur_run_system wants it. */
gpur_status gpur_ga3c_evaluate(gpur_run *core, int64_t episodes, int32_t greedy, gpur_run_event *event);
