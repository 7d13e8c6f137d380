/* SPDX-License-Identifier: MIT */
/*
 * One train step of DQN, as one function that is recorded into a graph. Everything that changes from step to step is
 * read from device memory.
 *
 *   (sampling by priority)
 *   gather -> x (2 B, features)  obs, then next_obs; rows padded to 16 bytes with zeros. If the first layer does not
 *             read obs as it is stored, the gather of a GPUR_LINKED replay preprocesses it; other replays gather to
 *             raw, and preprocess from there
 *   (importance weights)
 *   online network on x (all of it for double DQN, else the first B rows); target network on the last B rows
 *   td_error -> loss and its gradient; (new priorities;) backward over the first B rows; optimizer; end of the step
 */
#ifndef GPUR_LEARN_TRAIN_STEP_H
#define GPUR_LEARN_TRAIN_STEP_H

#include "learn/network/input.h"
#include "learn/optimizer.h"
#include "learn/network/pass.h"
#include "replay/sampler/sampler.h"
#include "replay/priority/sum_tree.h"

typedef struct gpur_step {
    gpur_device *device;
    const gpur_network *network;
    gpur_learner_config config;
    gpur_learn_fields fields;
    gpur_pass online, target;
    gpur_backward backward;
    gpur_optimizer optimizer;
    gpur_input input;
    int32_t is_observed;               /* 1: gathers write x themselves; raw is only for host batches */
    unsigned char *raw;                /* (2 B, obs), rows input.raw_pitch bytes apart; NULL: not used */
    float *x;                          /* (2 B, features), rows online.pitch[0] numbers apart */
    void *action;                      /* (B) int32 or int64 */
    float *reward, *discount, *weight; /* (B) */
    int64_t *id;                       /* (B) of the rows gathered */
    int64_t *ids;                      /* (B) given to gpur_step_record_ids */
    void *workspace;
    gpur_td_error_args td;
    gpur_replay *replay;
    uint32_t *links;                   /* (B, links per row) of a GPUR_LINKED replay */
    gpur_drawing draw, injected;       /* the gathers of a sample, and of given ids */
    gpur_gather_args brought;          /* gather of packed rows, for host batches */
    const gpur_priorities *priorities; /* the replay's; its `device` is NULL without priorities */
    const gpur_sampler *sampler;
    gpur_sample_args sample;
    uint32_t *leaf; /* (B) of rows sampled by priority */
} gpur_step;

/* Creates the plans of GEMMs and convolutions. `network` must not move. After a failure call gpur_step_close. */
gpur_status gpur_step_open(gpur_step *step, gpur_device *device, gpur_replay *replay, const gpur_network *network,
                           const gpur_learner_config *config, const gpur_learn_fields *fields);
void gpur_step_close(gpur_step *step);
void gpur_step_place(gpur_step *step, gpur_arena *arena);

/* To be called after gpur_step_place: plans the gathers and the sampling. */
gpur_status gpur_step_connect(gpur_step *step);

/* Runs one train step without writing priorities back. */
gpur_status gpur_step_warm_up(const gpur_step *step, gpur_stream *stream);

/* Functions to be recorded (gpur_record_fn); `context` is the gpur_step. The first samples; the second trains on
 * step->ids, and may run only under gpur_with_ids_locked. */
gpur_status gpur_step_record(void *context, gpur_stream *stream);
gpur_status gpur_step_record_ids(void *context, gpur_stream *stream);

/* A step on packed rows of a device batch: the step's gather of packed rows, with the batch's addresses. */
typedef struct gpur_step_rows {
    const gpur_step *step;
    gpur_gather_args gather;
} gpur_step_rows;

/* A function to be recorded (gpur_record_fn); `context` is a gpur_step_rows. */
gpur_status gpur_step_record_rows(void *context, gpur_stream *stream);

#endif
