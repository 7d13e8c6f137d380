/* SPDX-License-Identifier: MIT */
/* The learner's side of a run of Ape-X, as gpur_run_system wants it. */
#pragma once

#include "run/apex/handle.h"

gpur_status gpur_apex_check_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
gpur_status gpur_apex_advance(gpur_run *core, int64_t env_steps, int64_t train_steps);
