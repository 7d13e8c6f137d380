/* SPDX-License-Identifier: MIT */
/*
 * The gradient of an actor-critic's loss for a batch of any number of rows. Plans of passes are for a fixed number of
 * rows, so there are plans for each power of two, and a batch takes the smallest that holds it; the rows that it leaves
 * empty have a gradient of 0.
 */
#pragma once

#include "gpureplay/actor_critic.h"
#include "learn/network/input.h"
#include "learn/optimizer.h"

enum { GPUR_SMALLEST_BATCH = 8, GPUR_MAX_BATCH_SIZES = 14 };

struct gpur_gradient;

/* The plans and the graph for batches of up to `rows` rows. */
typedef struct gpur_batch_size {
    const struct gpur_gradient *gradient;
    int64_t rows;
    gpur_pass pass;
    gpur_backward backward;
    gpur_actor_critic_loss_args loss; /* except bias, state and parts */
    void *raw;                        /* (rows, obs) in the upload */
    gpur_graph *graph;
} gpur_batch_size;

typedef struct gpur_gradient {
    gpur_device *device;
    const gpur_network *network;
    const gpur_actor_critic_config *config;
    gpur_input input;
    gpur_stream *stream;
    gpur_batch_size sizes[GPUR_MAX_BATCH_SIZES];
    int32_t size_count;
    const float *weights;          /* (P) the weights by which the gradient is computed; set by the owner */
    float *to[2];                  /* (P) receive the gradient, with dual_optimizer the policy's and the value's; set by
                                     the owner */
    gpur_optimizer *optimizer[2];  /* NULL: the gradient is computed and not applied */
    const gpur_train_state *state; /* has the step at which the entropy's schedule is read; set by the owner */
    float *x;                      /* (max_batch, features) the network's input, if it is converted */
    unsigned char *upload, *host_upload; /* device and pinned: count, actions, returns, observations */
    float *results, *host_results;       /* device and pinned: (GPUR_ROW_RESULTS, size) */
    gpur_train_state *host_state;        /* pinned: (2) of each optimizer after the last step */
    void *workspace;
    void *pinned;
} gpur_gradient;

/* `config` as checked; it and the network must not move. After a failure call gpur_gradient_close, which also accepts a
 * zeroed one. */
gpur_status gpur_gradient_open(gpur_gradient *gradient, gpur_device *device, const gpur_network *network,
                               const gpur_obs_format *obs, const gpur_actor_critic_config *config);
void gpur_gradient_close(gpur_gradient *gradient);
void gpur_gradient_assign(gpur_gradient *gradient, gpur_arena *arena);

/* Runs a batch without rows of each size, and records it. All members that the owner sets must be set. The owner
 * resets the optimizers afterwards, as these steps change them. */
gpur_status gpur_gradient_start(gpur_gradient *gradient);

/* Refuses rows that cannot be trained on. */
gpur_status gpur_gradient_check(const gpur_gradient *gradient, const gpur_actor_critic_batch *batch);

/* Computes a batch's gradient and applies it by the optimizers, if there are any. Waits. `losses`: all members except
 * step and those of the optimizer, which are in host_state. */
gpur_status gpur_gradient_run(gpur_gradient *gradient, const gpur_actor_critic_batch *batch,
                              gpur_actor_critic_losses *losses);
