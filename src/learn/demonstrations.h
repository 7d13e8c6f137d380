/* SPDX-License-Identifier: MIT */
/* A second replay, such as of demonstrations, of which a learner draws a fixed part of each batch [Hester et al. 2018;
 * Ball et al. 2023]. */
#pragma once

#include "learn/config.h"

/* Refuses demonstrations that a learner on `replay`, in whose schema it found `fields`, cannot draw beside its own,
 * and a ratio that gives no whole number of rows. Sets the other members about them. Does nothing if there are none. */
gpur_status gpur_demonstrations_check(gpur_step_config *config, gpur_replay *replay, const gpur_learn_fields *fields);
