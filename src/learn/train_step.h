/* SPDX-License-Identifier: MIT */
/*
 * One train step of DQN as one recorded function. All that changes from step to step is read from device memory.
 *
 *   (draw by priority)
 *   gather -> x (2 B, features)  obs, then next_obs; rows padded to 16 bytes, the padding zero. Where the first layer
 *             does not read obs as the replay keeps it: of a linked replay at once, else by way of raw
 *   (importance weights)
 *   online network on x (all of it for double DQN, else the first B rows); target network on the last B rows
 *   td_error -> loss and its gradient; (new priorities;) backward over the first B rows; optimiser; end of the step
 */
#ifndef GPUR_LEARN_TRAIN_STEP_H
#define GPUR_LEARN_TRAIN_STEP_H

#include "learn/network/input.h"
#include "learn/optimizer.h"
#include "learn/network/pass.h"
#include "replay/sampler/gather.h"
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
    int32_t is_observed;               /* 1: draws make x, and raw is for rows that a caller brings */
    unsigned char *raw;                /* (2 B, obs), rows input.raw_pitch bytes apart; NULL: nothing goes by it */
    float *x;                          /* (2 B, features), rows online.pitch[0] numbers apart */
    void *action;                      /* (B) int32 or int64 */
    float *reward, *discount, *weight; /* (B) */
    int64_t *id;                       /* (B) drawn */
    int64_t *ids;                      /* (B) to be trained on, for gpur_step_record_ids */
    void *workspace;
    gpur_td_error_args td;
    gpur_replay *replay;
    uint32_t *links; /* (B, links of a row) of a linked replay */
    gpur_drawing draw, injected;
    gpur_gather_args brought;          /* like `injected`, from packed rows */
    const gpur_priorities *priorities; /* the replay's; no device in it: there are none */
    int by_priority;                   /* 1: draws are */
    uint32_t *leaf;                    /* (B) of the rows drawn so */
    gpur_priority_draw_args draw_by_priority;
    gpur_priority_weights_args weigh;
} gpur_step;

/* Makes the products; `network` must stay where it is. A failure leaves what gpur_step_close takes. */
gpur_status gpur_step_open(gpur_step *step, gpur_device *device, gpur_replay *replay, const gpur_network *network,
                           const gpur_learner_config *config, const gpur_learn_fields *fields);
void gpur_step_close(gpur_step *step);
void gpur_step_place(gpur_step *step, gpur_arena *arena);

/* Once placed: where the rows come from. */
gpur_status gpur_step_connect(gpur_step *step);

/* One step as the first: it gives nobody a new priority. */
gpur_status gpur_step_warm_up(const gpur_step *step, gpur_stream *stream);

/* A gpur_record_fn each; `context` is the gpur_step. Draws, or trains on step->ids between gpur_consumer_hold_ids and
 * gpur_consumer_let_go. */
gpur_status gpur_step_record(void *context, gpur_stream *stream);
gpur_status gpur_step_record_ids(void *context, gpur_stream *stream);

/* A step on rows that are none of the replay's: step->brought, but for where they lie. */
typedef struct gpur_step_rows {
    const gpur_step *step;
    gpur_gather_args gather;
} gpur_step_rows;

/* A gpur_record_fn; `context` is a gpur_step_rows. */
gpur_status gpur_step_record_rows(void *context, gpur_stream *stream);

#endif
