/* SPDX-License-Identifier: MIT */
/* Settings of a replay that its file has, whatever the layout, and that must match when it is loaded. */
#pragma once

#include "file/checkpoint_file.h"
#include "replay/replay.h"

/* Adds the layout, each field, whether there are priorities and their offset, and reward_clip. */
gpur_status gpur_replay_settings_add(const gpur_replay *replay, gpur_tensors *settings);
