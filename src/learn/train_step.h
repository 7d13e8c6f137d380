/* SPDX-License-Identifier: MIT */
/*
 * One train step, as one function that is recorded into a graph. Everything that changes from step to step is read from
 * device memory.
 *
 *   source     samples or finds the rows, and gathers them to the batch (batch_source.h)
 *   batch      converts observations that the first layer does not read as they are stored (train_batch.h)
 *   algorithm  forward passes, loss, backward passes, optimizer (algorithm.h)
 *   feedback   writes the TD errors back as new priorities, if the source has that
 */
#pragma once

#include "learn/algorithm.h"
#include "learn/batch_source.h"
#include "learn/optimizer.h"
#include "learn/network/pass.h"
#include "learn/part.h"

/* DQN [Mnih et al. 2015] and double DQN [van Hasselt et al. 2016]: the online network sees obs and, for double DQN,
 * next_obs; the target network sees next_obs. The loss is that of the TD error of the action taken
 * (kernels/learn/td_error.h). With given returns the online network sees obs, and there is no target network. */
typedef struct gpur_dqn_step {
    gpur_pass online, target;
    gpur_backward backward; /* through the online network, over the rows of obs */
    gpur_td_error_args td;
} gpur_dqn_step;

typedef struct gpur_train_step {
    gpur_device *device;
    const gpur_network *network;
    gpur_dqn_config config;
    const gpur_algorithm *algorithm;
    const struct gpur_return_cache *cache; /* the learner's cache of returns; NULL: it has none */
    gpur_train_batch batch;
    gpur_optimizer optimizer;  /* of the network's weights */
    gpur_dqn_step dqn;         /* DQN's own */
    struct gpur_dpg_step *dpg; /* DPG's own */
    void *workspace;
    gpur_side side;                    /* with a workspace as large */
    gpur_batch_source sampled, by_ids; /* with a cache: `sampled` is drawn from it. Only DQN without one has `by_ids` */
    uint32_t *leaf;                    /* (B) of rows sampled by priority; NULL: they are not */
    int64_t *ids;                      /* (B) device: the ids of `by_ids`; NULL, as is the next: there is none */
    int64_t *host_ids;                 /* (B) pinned: ids on their way there */
    gpur_event *ids_copied;
} gpur_train_step;

/* The launch shape of td_error: blocks of one warp, since a warp's loads are of many rows and keep a multiprocessor
 * busy. */
static inline gpur_grid gpur_td_error_grid(const gpur_device *device, int64_t rows)
{
    return gpur_grid_rows(device, (rows + 31) / 32, 1, 32 * 8);
}

/* The learner's part that is a gpur_train_step; the network must not move. `connect` plans the gathers, and `start`
 * records the graphs of both sources; the fused step needs none of samples. */
extern const gpur_part gpur_step_part;

/* Runs one train step without writing priorities back. */
gpur_status gpur_train_step_warm_up(gpur_train_step *step, gpur_stream *stream);

/* Requires the consumer lock. Enqueues the copy of (B) ids to the device; they may change when the call returns. */
gpur_status gpur_step_upload_ids(gpur_train_step *step, gpur_stream *stream, const int64_t *ids);

/* A function to be recorded (gpur_record_fn); `context` is the gpur_batch_source. */
gpur_status gpur_train_step_record(void *context, gpur_stream *stream);
