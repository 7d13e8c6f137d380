/* SPDX-License-Identifier: MIT */
/*
 * One train step, as one function that is recorded into a graph. Everything that changes from step to step is read from
 * device memory.
 *
 *   source     samples or finds the rows, and gathers them to the batch (batch_source.h)
 *   batch      converts observations that the first layer does not read as they are stored (train_batch.h)
 *   algorithm  forward passes, loss, backward passes, optimizer
 *   feedback   writes the TD errors back as new priorities, if the source has that
 */
#pragma once

#include "learn/batch_source.h"
#include "learn/optimizer.h"
#include "learn/network/pass.h"
#include "learn/part.h"

/* CUDA: train steps of one graph, or of one launch of the fused step. Measured on an H200 (docs/performance.md): a step
 * takes 97.4 us alone, 96.1 in graphs of 8, 95.7 in graphs of 32. */
enum { GPUR_GRAPH_STEPS = 8 };

enum { GPUR_MAX_STEP_PASSES = 4 };

struct gpur_train_step;

/* The work of an algorithm on the batch of a train step. Sampling, gathering, converting observations and writing new
 * priorities back are the same for all. */
typedef struct gpur_step_algorithm {
    gpur_status (*open)(struct gpur_train_step *step); /* opens passes by the two functions below */
    void (*assign)(struct gpur_train_step *step,
                   gpur_arena *arena); /* what the passes do not have; comes after theirs */
    gpur_status (*start)(const struct gpur_train_step *step, gpur_stream *stream); /* constants; NULL: there are none */

    /* Enqueues the training on the step's batch. Changes nothing if `drawable` (1), in device memory, is 0. */
    gpur_status (*train)(const struct gpur_train_step *step, gpur_stream *stream, const int64_t *drawable);

    /* (B) in device memory: what `train` leaves for the rows' new priorities. */
    const float *(*errors)(const struct gpur_train_step *step);
} gpur_step_algorithm;

typedef struct gpur_train_step {
    gpur_device *device;
    const gpur_network *network; /* that reads the batch */
    gpur_step_config config;
    const gpur_step_algorithm *algorithm;
    void *state;                           /* the algorithm's own */
    const struct gpur_return_cache *cache; /* from which rows are drawn; NULL: from the replay */
    gpur_train_batch batch;
    gpur_optimizer optimizer;                /* of the network's weights */
    gpur_pass *passes[GPUR_MAX_STEP_PASSES]; /* (pass_count) the algorithm's */
    gpur_backward *backwards[GPUR_MAX_STEP_PASSES];
    int32_t pass_count, backward_count;
    void *workspace;                   /* that passes share, one after the other */
    int64_t workspace_bytes;           /* the largest that one of them needs */
    gpur_side side;                    /* with a workspace as large */
    gpur_batch_source sampled, by_ids; /* with a cache: `sampled` is drawn from it */
    uint32_t *leaf;                    /* (B) of rows sampled by priority; NULL: they are not */
    int64_t *ids;                      /* (B) device: the ids of `by_ids`; NULL, as is the next: there is none */
    int64_t *host_ids;                 /* (B) pinned: ids on their way there */
    gpur_event *ids_copied;
} gpur_train_step;

/* Open the passes of an algorithm over `rows` rows of the batch's input, and back through one over the rows of the
 * batch: by the parameters, or with `by_input` by the input. The step assigns their memory, and closes them. */
gpur_status gpur_step_open_pass(gpur_train_step *step, gpur_pass *pass, const gpur_network *network, int64_t rows);
gpur_status gpur_step_open_backward(gpur_train_step *step, gpur_backward *backward, const gpur_pass *pass,
                                    int32_t by_input);

/* The launch shape of td_error: blocks of one warp, since a warp's loads are of many rows and keep a multiprocessor
 * busy. */
static inline gpur_grid gpur_td_error_grid(const gpur_device *device, int64_t rows)
{
    return gpur_grid_rows(device, (rows + 31) / 32, 1, 32 * 8);
}

/* Places the arrays of the TD error of the step's network, and sets its arguments, except those of the algorithm's own
 * choice: kind of loss, actions, double DQN. `target` NULL: the returns are given, and the caller sets `reward`. */
void gpur_step_assign_td_error(const gpur_train_step *step, gpur_arena *arena, const gpur_pass *online,
                               const gpur_pass *target, const gpur_backward *backward, gpur_td_error_args *td);

/* The part that is a gpur_train_step. `connect` plans the gathers, and `start` records the graphs of both sources; the
 * fused step needs none of samples. */
extern const gpur_part gpur_step_part;

/* Runs one train step without writing priorities back. */
gpur_status gpur_train_step_warm_up(gpur_train_step *step, gpur_stream *stream);

/* Requires the consumer lock. Enqueues the copy of (B) ids to the device; they may change when the call returns. */
gpur_status gpur_step_upload_ids(gpur_train_step *step, gpur_stream *stream, const int64_t *ids);

/* A function to be recorded (gpur_record_fn); `context` is the gpur_batch_source. */
gpur_status gpur_train_step_record(void *context, gpur_stream *stream);
