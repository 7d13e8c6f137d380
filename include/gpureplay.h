/* SPDX-License-Identifier: MIT */
/*
 * libgpureplay: experience replay in the memory of the device that trains on it.
 *
 * The whole public API, in the order in which a program meets it:
 *
 *   gpureplay/status.h     results, error texts, version
 *   gpureplay/device.h     open "auto", "cpu" or "cuda:0"
 *   gpureplay/schedule.h   what changes while training goes on
 *   gpureplay/replay.h     a ring of transitions on that device, and minibatches drawn from it
 *   gpureplay/plan.h       how many bytes that takes
 *   gpureplay/priority.h   which of them are drawn more often than others
 *   gpureplay/batch.h      those minibatches: their arrays, and the way to other streams and libraries
 *   gpureplay/writer.h     what puts transitions in
 *   gpureplay/network.h    what a network is made of
 *   gpureplay/optimizer.h  what an optimiser computes, and with which constants
 *   gpureplay/learner.h    a DQN learner that trains on the replay with no host round trip, or on rows in RAM
 *   gpureplay/checkpoint.h files: a replay and a learner to go on from, and weights
 *
 * Conventions. Every function that can fail returns a gpur_status; gpur_last_error() then has the reason, with the
 * value that was given and the value that was wanted. A status above zero is a refusal: nothing has changed (an append
 * that would block tells how much it took). A status below zero means that the device failed: destroy what lives on it.
 * Every `destroy` takes NULL. A config struct begins with its own size and is filled in by its `_init` function, so
 * programs compiled against an older header keep working. Shapes are written (batch, features), row-major; an axis of a
 * field's shape comes after the batch axis. C99, C++ and ctypes can read these headers; no CUDA header is needed.
 *
 * CUDA streams. A stream that is given to the library must not be captured into a graph at that time: the capture would
 * take in the library's own streams.
 *
 * NaN and infinite numbers. The library stores transitions as given and does not look for NaN in them. A priority that
 * is NaN, infinite or negative is refused and counted (priority.h). Weights that a caller gives, from memory or from a
 * file, must be finite; others are refused, with the tensor and how many. The result of a train step on a transition
 * with a NaN or an infinity is undefined: weights may become NaN while the loss of later steps looks normal, and
 * mean_loss may stay NaN. Such a learner can be saved, but its file cannot be loaded.
 */
#ifndef GPUREPLAY_H
#define GPUREPLAY_H

#include "gpureplay/status.h"
#include "gpureplay/device.h"
#include "gpureplay/schedule.h"
#include "gpureplay/replay.h"
#include "gpureplay/plan.h"
#include "gpureplay/priority.h"
#include "gpureplay/batch.h"
#include "gpureplay/writer.h"
#include "gpureplay/network.h"
#include "gpureplay/optimizer.h"
#include "gpureplay/learner.h"
#include "gpureplay/checkpoint.h"

#endif
