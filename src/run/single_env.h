/* SPDX-License-Identifier: MIT */
/* A vector environment of one as an environment that steps alone, as evaluations need it. */
#pragma once

#include "gpureplay/env.h"

/* As `init` of a gpur_env_type. The environment's other functions are those of gpur_single_env. */
const char *gpur_single_env_init(const gpur_vector_env_type *type, const char *options, uint64_t seed,
                                 gpur_env_info *info, void **env);

/* It has no init, which is the function above, and cannot save its state. */
extern const gpur_env_type gpur_single_env;
