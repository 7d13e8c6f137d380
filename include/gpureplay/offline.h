/* SPDX-License-Identifier: MIT */
/*
 * Offline runs: a learner trains on the transitions that its replay has, and no environment adds any. Environments, if
 * there are some, play evaluations.
 *
 *     gpur_dqn_create(replay, &learner_config, &learner);
 *     gpur_replay_load(replay, "rows.safetensors", NULL);
 *     gpur_offline_create(learner, NULL, &run);
 *     gpur_run_advance(run, 100000, 0);   // train steps
 *
 * Trainings (training.h) have presets of them:
 *
 *   "offline-dqn"     the learner of "fast-dqn" for stacks of frames of 84 x 84 bytes, of "fast-dqn-small" for other
 *                     images, and of "fast-dqn-small-vectors" for other observations, with learning rate 0.0001
 *   "offline-qr-dqn", "offline-c51"
 *                     those of "qr-dqn" and "c51", for observations of one axis with learning rate 0.0001
 *   "offline-dpg"     that of "apex-dpg-small", for actions that are vectors of float32, -1 to 1
 *   "offline-td3", "offline-sac"
 *                     those of "td3-small" and "sac-small", for such actions and observations of float32
 *
 * What a network says of actions that the transitions do not have is unknown: DQN and DPG, made for transitions of
 * their own policy, may overrate them, the more so the fewer of the possible actions the transitions show [Fujimoto et
 * al. 2019, "Off-Policy Deep Reinforcement Learning without Exploration"].
 */
#ifndef GPUREPLAY_OFFLINE_H
#define GPUREPLAY_OFFLINE_H

#include "gpureplay/run_handle.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Creates a run. The learner and its replay must outlive it. While it exists, no other code may train the learner.
 *
 * An evaluation is played between two train steps, each time in new environments, of discrete actions with the
 * probability eval_epsilon of a random one. The same calls give the same bits.
 *
 *   learner  one of DQN, DPG or SAC. Its network must have the environment's observations and actions
 *   run      settings of all runs, of which eval_period counts train steps; the environments are of `type`. Read before
 *            the call returns. NULL: there are no environments and no evaluations
 *   handle   receives the handle, or NULL if the call fails; destroy it with gpur_run_destroy
 *
 *   GPUR_INVALID_ARGUMENT  a learner without a replay, an environment with other observations or actions, an
 *                          environment's refusal, a vector environment, a value out of its range, or NULL
 *   GPUR_OUT_OF_MEMORY     not enough memory
 */
GPUR_API gpur_status gpur_offline_create(gpur_learner *learner, const gpur_run_config *run, gpur_run **handle);

#ifdef __cplusplus
}
#endif
#endif
