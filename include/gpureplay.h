/* SPDX-License-Identifier: MIT */
/*
 * libgpureplay: experience replay in the memory of the device that trains.
 * What a program needs that trains by itself, in this order:
 *
 *   gpureplay/status.h        status codes, error messages, versions
 *   gpureplay/device.h        a device: the CPU or a GPU
 *   gpureplay/schedule.h      settings that change during training
 *   gpureplay/replay.h        a ring of transitions, and sampling from it; defines the terms used here
 *   gpureplay/plan.h          how much memory a replay takes
 *   gpureplay/writer.h        how transitions get into a replay
 *   gpureplay/batch.h         the arrays of a batch, and how other streams and libraries read them
 *   gpureplay/priority.h      prioritized replay
 *   gpureplay/write_field.h   new values of a field of stored transitions
 *   gpureplay/hindsight.h     new goals for transitions: hindsight experience replay
 *   gpureplay/sequences.h     batches of successive transitions
 *   gpureplay/block.h         finished transitions as bytes, which travel between threads, processes and machines
 *   gpureplay/lanes.h         experience that is born on the device, of environments that step together there
 *   gpureplay/math.h          the arithmetic of matrix products
 *   gpureplay/network.h       the layers of a network
 *   gpureplay/optimizer.h     optimizers and their settings
 *   gpureplay/learner.h       learners: what all of them have
 *   gpureplay/returns.h       a cache of returns for a DQN learner: DQN(lambda)
 *   gpureplay/dqn.h           a learner of action values, which trains on a replay or on batches in host memory
 *   gpureplay/dpg.h           a learner of continuous actions: deterministic policy gradients
 *   gpureplay/sac.h           a learner of continuous actions: soft actor-critic
 *   gpureplay/actor_critic.h  an actor-critic learner, which trains on batches in host memory
 *   gpureplay/checkpoint.h    saving and loading of replays, learners and weights
 *   gpureplay/policy.h        acting without a replay and without training
 *
 * Environments, and whole trainings in them (fast DQN, Ape-X, GA3C), come by another header, with a list of its own:
 *
 *   gpureplay/run.h
 *
 * Errors. Every function that can fail returns a gpur_status. After a failure gpur_last_error() gives the reason, with
 * the value that was given and the values that are allowed. A status above 0 is a refusal: nothing has changed, unless
 * the comment of the function says otherwise. A status below 0 means that the device failed; its objects can then only
 * be destroyed. Every function that destroys, closes or releases accepts NULL.
 *
 * The code in comments leaves out the checks of statuses, and what has been declared before: handles and arrays.
 *
 * Structs. A config or info struct begins with its own size, and its `_init` function sets the defaults; structs that
 * are members of a config have reserved members instead. A program that was compiled against an older header keeps
 * working: settings that it does not know have their defaults. A config from a newer header is accepted if the settings
 * that the loaded library does not know are 0.
 *
 * Shapes are written (batch, features), in row-major order. The shape of a field does not include the batch axis, which
 * always comes first. C99, C++ and ctypes can read these headers; no CUDA header is needed.
 *
 * CUDA streams. A stream given to the library must not be under capture into a graph during that call, since the
 * capture would include the library's own streams.
 *
 * NaN and infinite numbers. Observations, rewards, actions and all other floats of a transition are refused where one
 * is NaN or infinite, by writers, appends, packers, blocks, files, batches in host memory, runs and actors; the message
 * has the field and its place. check_finite 0 (gpur_replay_config, gpur_actor_critic_config) takes them. Arrays in the
 * memory of a GPU are not searched, since that would have to wait for them; nor are observations that a caller acts on.
 * Weights given by a caller, in memory or in a file, must be finite; otherwise they are refused, and the message has
 * the tensor and the number of bad values. A learner whose own numbers are no longer finite has diverged: runs end with
 * that, and calls on it are refused (learner.h). Priorities that are NaN, infinite or negative are refused where they
 * come from host memory; of those in device memory the absolute value counts, and NaN and infinity are skipped and
 * counted (priority.h).
 */
#ifndef GPUREPLAY_H
#define GPUREPLAY_H

#include "gpureplay/status.h"
#include "gpureplay/device.h"
#include "gpureplay/schedule.h"
#include "gpureplay/replay.h"
#include "gpureplay/plan.h"
#include "gpureplay/writer.h"
#include "gpureplay/batch.h"
#include "gpureplay/priority.h"
#include "gpureplay/write_field.h"
#include "gpureplay/hindsight.h"
#include "gpureplay/sequences.h"
#include "gpureplay/block.h"
#include "gpureplay/lanes.h"
#include "gpureplay/math.h"
#include "gpureplay/network.h"
#include "gpureplay/optimizer.h"
#include "gpureplay/learner.h"
#include "gpureplay/returns.h"
#include "gpureplay/dqn.h"
#include "gpureplay/dpg.h"
#include "gpureplay/sac.h"
#include "gpureplay/actor_critic.h"
#include "gpureplay/checkpoint.h"
#include "gpureplay/policy.h"

#endif
