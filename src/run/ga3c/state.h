/* SPDX-License-Identifier: MIT */
/* The folder of a saved run. */
#pragma once

#include "run/ga3c/handle.h"

/* As gpur_run_system wants them. */
gpur_status gpur_ga3c_save(gpur_run *core, const char *folder);
gpur_status gpur_ga3c_load(gpur_run *core, const char *folder, int32_t refill);
