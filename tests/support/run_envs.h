/* SPDX-License-Identifier: MIT */
/* Environments of a run, as an argument. Evaluations play in one of them, so that their order is known. */
#pragma once

#include "gpureplay/run_handle.h"

#define ENVS_WITH(the_type, the_options)                                                                               \
    (&(const gpur_run_envs){                                                                                           \
        .size = sizeof(gpur_run_envs), .type = (the_type), .options = (the_options), .eval_count = 1})
#define ENVS(the_type) ENVS_WITH(the_type, NULL)
