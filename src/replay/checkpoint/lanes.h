/* SPDX-License-Identifier: MIT */
/*
 * Saves and loads a replay of lanes. Its file has the steps that are kept, oldest first: an array (steps, lanes, ...)
 * of each field that is stored, of rewards, of flags (kernels/lib/lane_flags.h) and of priorities; and their final
 * observations in the order of their numbers, with the ids of the rows that they belong to.
 */
#pragma once

#include "file/checkpoint_file.h"
#include "replay/replay.h"

/* What gpur_replay_save and gpur_replay_load do with a replay of lanes. */
gpur_status gpur_lanes_save(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);
gpur_status gpur_lanes_load(gpur_replay *replay, const char *path, const gpur_checkpoint_options *options);
