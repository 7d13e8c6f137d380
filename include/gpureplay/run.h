/* SPDX-License-Identifier: MIT */
/*
 * Whole trainings, in threads of the library. A program that trains by itself includes gpureplay.h alone; one that lets
 * the library train includes this header beside it. It has, in the order in which a program needs it:
 *
 *   gpureplay/env.h         environments, and plug-ins with more of them
 *   gpureplay/run_handle.h  what all runs have: advancing, evaluating, stopping, saving, events and statistics
 *   gpureplay/fast_dqn.h    runs of fast DQN, standard DQN and DQN(lambda)
 *   gpureplay/ga3c.h        runs of GA3C, A3C and A2C: agents that share an actor-critic, predictors and trainers
 *   gpureplay/apex.h        Ape-X: actors in threads or processes, and a learner that draws by priority
 *   gpureplay/offline.h     training on a replay as it is, without environments
 *   gpureplay/play.h        games by the weights that a run has saved
 *   gpureplay/training.h    a run from options by name to the files in its folder, as gpureplay-train makes it
 *
 *     #include <gpureplay.h>
 *     #include <gpureplay/run.h>
 *
 * A program with its own loop in environments of the library or of plug-ins needs env.h alone, and so does a plug-in.
 */
#ifndef GPUREPLAY_RUN_H
#define GPUREPLAY_RUN_H

#include "gpureplay/env.h"
#include "gpureplay/run_handle.h"
#include "gpureplay/fast_dqn.h"
#include "gpureplay/ga3c.h"
#include "gpureplay/apex.h"
#include "gpureplay/offline.h"
#include "gpureplay/play.h"
#include "gpureplay/training.h"

#endif
