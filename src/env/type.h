/* SPDX-License-Identifier: MIT */
/* Refuses types of environments without a name or a function that they must have: those of plug-ins and of callers. */
#pragma once

#include "base/status.h"
#include "gpureplay/env.h"

gpur_status gpur_env_type_check(const gpur_env_type *type);
gpur_status gpur_vector_env_type_check(const gpur_vector_env_type *type);
