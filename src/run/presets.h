/* SPDX-License-Identifier: MIT */
/* The names of all presets. A preset is a row of this table, and a row of the table of its system that sets it. */
#pragma once

#include "base/status.h"
#include "gpureplay/run_handle.h"

/* Refuses a name, and says which ones a system, or the systems `first` to `last`, have: GPUR_PRESET_*. */
gpur_status gpur_preset_refuse(const char *name, int32_t first, int32_t last);
