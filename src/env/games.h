/* SPDX-License-Identifier: MIT */
/* The library's games. */
#pragma once

#include "gpureplay/env.h"

extern const gpur_env_type gpur_env_cartpole;
extern const gpur_env_type gpur_env_asterix;
extern const gpur_env_type gpur_env_breakout;
extern const gpur_env_type gpur_env_freeway;
extern const gpur_env_type gpur_env_seaquest;
extern const gpur_env_type gpur_env_space_invaders;
extern const gpur_env_type gpur_env_pendulum;
