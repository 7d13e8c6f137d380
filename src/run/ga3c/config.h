/* SPDX-License-Identifier: MIT */
/* The settings of a run: defaults and checks. */
#pragma once

#include "run/ga3c/handle.h"

/* Reads the settings, and checks those that need nothing else. */
gpur_status gpur_ga3c_read_config(const gpur_ga3c_config *given, gpur_ga3c_config *config);

/* Reads and checks the settings with the model and the type of environment. */
gpur_status gpur_ga3c_configure(gpur_ga3c *run, const gpur_ga3c_config *given);

/* The numbers as this system has them. */
gpur_ga3c_numbers gpur_ga3c_numbers_of(const gpur_ga3c *run, int32_t agents, int32_t predictors, int32_t trainers);
gpur_status gpur_ga3c_check_numbers(const gpur_ga3c *run, gpur_ga3c_numbers numbers);
