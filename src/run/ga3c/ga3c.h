/* SPDX-License-Identifier: MIT */
/* Creates runs of GA3C with any model; tests and benchmarks have models of their own. */
#pragma once

#include "run/ga3c/handle.h"

/* Creates a run with a model, which it closes at its end; if the call fails it is closed, too. */
gpur_status gpur_ga3c_create_with(const gpur_ga3c_model *model, const gpur_run_config *all,
                                  const gpur_ga3c_config *config, gpur_run **run);
