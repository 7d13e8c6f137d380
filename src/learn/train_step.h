/* SPDX-License-Identifier: MIT */
/*
 * One train step, as one function that is recorded into a graph. Everything that changes from step to step is read from
 * device memory.
 *
 *   source     samples or finds the rows, and gathers them to the batch (batch_source.h)
 *   batch      converts observations that the first layer does not read as they are stored (train_batch.h)
 *   network    forward passes, loss, backward pass, optimizer
 *   actor      the same of a second network, if there is one
 *   feedback   writes the TD errors back as new priorities, if the source has that
 *
 * With demonstrations the source is two: the first rows of the batch are drawn from the replay, and the rest from the
 * demonstrations' replay, to the same arrays. Each gets its own rows' priorities.
 *
 * It is the step of DQN [Mnih et al. 2015] and of double DQN [van Hasselt et al. 2016]: the online network sees obs
 * and, for double DQN, next_obs; the target network sees next_obs. The loss is that of the TD error of the action taken
 * (kernels/learn/td_error.h), or with a head of distributions that of its distribution
 * (kernels/learn/distribution_error.h). With given returns the online network sees obs, and there is no target network.
 * Where actions are vectors, the network is a critic, or two copies of it, which sees obs and action, and whose target
 * sees next_obs and the action of an actor (kernels/learn/critic_error.h).
 */
#pragma once

#include "learn/batch_source.h"
#include "learn/optimizer.h"
#include "learn/network/pass.h"
#include "learn/part.h"

/* CUDA: train steps of one graph, or of one launch of the fused step. Measured on an H200 (docs/performance.md): a step
 * takes 97.4 us alone, 96.1 in graphs of 8, 95.7 in graphs of 32. */
enum { GPUR_GRAPH_STEPS = 8 };

enum { GPUR_MAX_STEP_PASSES = 5 };

struct gpur_train_step;

/* What an algorithm trains in the same step beside the network that reads the batch, such as the actor of DPG. */
typedef struct gpur_step_actor {
    gpur_status (*open)(struct gpur_train_step *step);               /* opens passes by the two functions below */
    void (*assign)(struct gpur_train_step *step, gpur_arena *arena); /* what the passes do not have */
    gpur_status (*start)(const struct gpur_train_step *step, gpur_stream *stream); /* constants */

    /* Enqueues what the target network's pass reads, before that pass and on the same track. */
    gpur_status (*act)(const struct gpur_train_step *step, const gpur_track *track);

    /* Enqueues the actor's training, behind that of the network, in every policy_delay-th step. Changes nothing if
     * `drawable`, (1) in device memory, is 0. */
    gpur_status (*train)(const struct gpur_train_step *step, const gpur_track *track, const int64_t *drawable);
} gpur_step_actor;

/* What a loss gives of each row: arrays of (B) in device memory. */
typedef struct gpur_step_rows {
    float *td;                       /* the error that is the row's priority */
    float *loss, *q_taken, *invalid; /* as in gpur_train_step_results */
    float *missing;                  /* likewise; NULL: no row is */
} gpur_step_rows;

/* A step on rows that are drawn, with or without the actor's training. With a policy_delay above 1 there are both. */
typedef struct gpur_single_step {
    const gpur_batch_source *source;
    int32_t trains_actor;
    gpur_graph *graph;
} gpur_single_step;

typedef struct gpur_train_step {
    gpur_device *device;
    const gpur_network *network; /* that reads the batch */
    gpur_step_config config;
    const gpur_step_actor *actor; /* NULL: there is none */
    void *actor_state;
    const struct gpur_return_cache *cache; /* from which rows are drawn; NULL: from the replay */
    gpur_train_batch batch;
    gpur_optimizer optimizer; /* of the network's weights */
    gpur_pass online, target; /* there is no pass of the target with a cache */
    gpur_backward backward;   /* through the online network, over the rows of obs */
    gpur_step_rows rows;
    gpur_td_error_args td;                     /* of action values; it writes `rows` */
    gpur_distribution_error_args distribution; /* of distributions of them: in place of `td`, which it has */
    gpur_critic_error_args critics;            /* of critics of action vectors: in place of `td` */
    gpur_critic_distribution_error_args critic_distributions; /* of theirs: in place of `critics`, which it has */
    gpur_pass *passes[GPUR_MAX_STEP_PASSES];                  /* (pass_count) these and the actor's */
    gpur_backward *backwards[GPUR_MAX_STEP_PASSES];
    int32_t pass_count, backward_count;
    void *workspace;                   /* that passes share, one after the other */
    int64_t workspace_bytes;           /* the largest that one of them needs */
    gpur_side side;                    /* with a workspace as large */
    gpur_batch_source sampled, by_ids; /* with a cache: `sampled` is drawn from it */
    gpur_batch_source demonstrations;  /* beside `sampled`, if there are any */
    gpur_single_step single[2];        /* of `sampled`, without and with the actor; not if it is trained in each step */
    gpur_train_batch parts[2];         /* then: the rows of `sampled`, and those of `demonstrations` */
    uint32_t *leaf;                    /* (B) of rows sampled by priority; NULL: they are not */
    int64_t *ids;                      /* (B) device: the ids of `by_ids`; NULL, as is the next: there is none */
    int64_t *host_ids;                 /* (B) pinned: ids on their way there */
    gpur_event *ids_copied;
} gpur_train_step;

/* Open the passes of an actor over `rows` rows of the batch's input, and back through one over the rows of the
 * batch: by the parameters, or by the `by_input` last numbers of the input. The step assigns their memory, and closes
 * them. */
gpur_status gpur_step_open_pass(gpur_train_step *step, gpur_pass *pass, const gpur_network *network, int64_t rows);
gpur_status gpur_step_open_backward(gpur_train_step *step, gpur_backward *backward, const gpur_pass *pass,
                                    int32_t by_input);

/* The part that is a gpur_train_step. `connect` plans the gathers, and `start` records the graphs of both sources; the
 * fused step needs none of samples. */
extern const gpur_part gpur_step_part;

/* Requires the consumer lock. Enqueues train steps on rows that are drawn, of which `done` have been enqueued before:
 * the number of a step decides whether it trains the actor. */
gpur_status gpur_train_step_launch(const gpur_train_step *step, gpur_stream *stream, int64_t done, int64_t steps);

/* Runs one train step without writing priorities back. */
gpur_status gpur_train_step_warm_up(gpur_train_step *step, gpur_stream *stream);

/* Requires the consumer lock. Enqueues the copy of (B) ids to the device; they may change when the call returns. */
gpur_status gpur_step_upload_ids(gpur_train_step *step, gpur_stream *stream, const int64_t *ids);

/* A function to be recorded (gpur_record_fn): policy_delay steps, of which the last one trains the actor. `context` is
 * the gpur_batch_source. */
gpur_status gpur_train_step_record(void *context, gpur_stream *stream);
