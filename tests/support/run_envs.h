/* SPDX-License-Identifier: MIT */
/* Settings of a run for its environments, as an argument. Evaluations play in one of them, so that their order is
 * known. */
#pragma once

#include "gpureplay/run_handle.h"

#define ENVS_WITH(the_type, the_options)                                                                               \
    (&(gpur_run_config){.size = sizeof(gpur_run_config),                                                               \
                        .type = (the_type),                                                                            \
                        .env_options = (the_options),                                                                  \
                        .eval_episodes = 30,                                                                           \
                        .eval_envs = 1})
#define ENVS(the_type) ENVS_WITH(the_type, NULL)
