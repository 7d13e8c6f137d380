/* SPDX-License-Identifier: MIT */
#ifndef GPUR_LEARN_CONFIG_H
#define GPUR_LEARN_CONFIG_H

#include "base/status.h"
#include "gpureplay/learner.h"

enum { GPUR_MAX_ACT_BATCH = 1 << 20 };

/* Refuses a learner's config out of range, but for its network (network.h), and sets index_source where it is to follow
 * the replay. `replay` are its replay's settings, as checked. */
gpur_status gpur_learner_config_check(gpur_learner_config *config, const gpur_replay_config *replay);

#endif
