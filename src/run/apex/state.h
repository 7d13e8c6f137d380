/* SPDX-License-Identifier: MIT */
/* Saves and loads a run of Ape-X, as gpur_run_system wants it. */
#pragma once

#include "run/apex/handle.h"

gpur_status gpur_apex_save(gpur_run *core, const char *folder);
gpur_status gpur_apex_load(gpur_run *core, const char *folder, int32_t refill);
